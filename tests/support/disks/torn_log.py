"""A log on a faulty disk, by a seed: it appends, crashes and recovers again and again, and is compared with a list.

A life does random things (appends, rolls, flushes, checkpoints, cleanings, a moved start, a full disk, no descriptors,
an fsync that fails) until the disk stops, at whatever byte that is. Then the process died (all that was written is
there) or the power went (of what was not fsynced anything may be there), sometimes again in the middle of the recovery.
Some starts do not know the recovery point, and some meet bytes that the disk cannot read.

At last something breaks below the recovery point: a bit of a batch, of a base offset or of an index flips, or a range
of a file cannot be read any more. `run(directory, seed)` does the same for the same seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from odradek.protocol.records.batch import BatchHeader, check_crc, encode_batch, iter_headers, iter_records, read_header
from odradek.protocol.records.errors import RecordError
from odradek.protocol.records.record import Record
from odradek.storage.errors import CorruptBatch, DiskError, LogClosed, StorageError, is_unreadable
from odradek.storage.integrity import verify
from odradek.storage.known_logs import KnownLog
from odradek.storage.log import Log, LogConfig
from odradek.storage.segments.names import LOG_SUFFIX
from odradek.tests.storage.batches import NEVER, flip, roll
from odradek.tests.storage.cleaning import clean
from odradek.tests.support.disks.disk import FaultyDisk, PowerCut

LIVES = 6
OPERATIONS = 25
KEYS = 5
PAGE_BYTES = 4096


# The bytes of a batch that tell its last offset.
LAST_OFFSET_DELTA = range(23, 27)


class Written(NamedTuple):
    """A record that was appended, and what its batch says of the producer."""

    offset: int
    key: bytes
    value: bytes
    last_sequence: int
    batch_end: int


class TornLog:
    """The log, the list, and the comparisons of the two."""

    def __init__(self, directory: Path, seed: int, stages: bool = False, descriptors: bool = False) -> None:
        self.chance = random.Random(seed)
        # Whether a life at times begins with few descriptors left.
        self.descriptors = descriptors
        # Whether batches are staged at times, as very large ones are.
        self.stages = stages
        self.directory = directory
        self.disk = FaultyDisk()
        if seed % 2:
            # The files are small, and so are the folios and pages.
            self.disk.folio_bytes, self.disk.page_bytes = 512, 1
        self.config = LogConfig(
            segment_bytes=self.chance.choice([500, 900, 5000, 20_000]),
            index_interval_bytes=self.chance.choice([0, 100, 400]),
            segment_index_bytes=self.chance.choice([36, 84, 4000]),
        )
        self.is_cleaned_at_times = self.chance.random() < 0.4
        # What was appended and is not known to be lost, by offset.
        self.records: dict[int, Written] = {}
        # Appended, but nobody was answered: may be there or not.
        self.pending: list[Written] = []
        # Up to here a cleaning may have left records out.
        self.cleaned = 0
        self.start = 0
        self.flushed = 0
        self.point = 0
        self.clean = False
        # What a clean stop knew of the log.
        self.known: KnownLog | None = None
        # Whether an fsync has failed since the log was opened: the kernel may have dropped what was answered.
        self.has_dropped = False
        # Whether a start may have to do without the checkpoint of the recovery point.
        self.forgets_point = self.chance.random() < 0.4
        self.is_point_known = True
        # Whether a start without a recovery point has kept damage.
        self.has_damage = False
        self.log = self.open()

    def open(self) -> Log:
        point = self.point if self.is_point_known else -1
        known = self.known if self.clean else None
        return Log.open(
            self.directory, self.config, clean=self.clean, now_ms=1000, recovery_point=point,
            log_start_offset=self.start, known=known, disk=self.disk,
        )  # fmt: skip

    def run(self) -> None:
        """Live all lives. Raises AssertionError if the log differs from the list."""
        for _ in range(LIVES):
            self.live()
            self.crash()
        self.break_something()

    # -- a life ------------------------------------------------------------------------------------

    def live(self) -> None:
        self.clean = False
        self.disk.stop_after(int(2 ** self.chance.uniform(0, 13)))
        doing = self.steps()
        try:
            if self.descriptors and self.chance.random() < 0.5:
                self.use_up_descriptors()
            for _ in range(OPERATIONS):
                self.chance.choice(doing)()
            if self.chance.random() < 0.5:
                self.log.close()
                self.closed_well()
        except (PowerCut, LogClosed):
            pass

    def closed_well(self) -> None:
        self.flushed = self.point = self.log.log_end_offset
        self.clean = self.is_point_known = True
        self.known = self.log.known()

    def steps(self) -> list[Callable[[], None]]:
        """Return what a life may do, the frequent things more than once."""
        doing = [self.append] * 10 + [self.flush] * 3 + [self.roll, self.checkpoint, self.checkpoint, self.move_start]
        doing += [self.roll] * 3 + [self.break_off_flush] if self.chance.random() < 0.5 else []
        doing += [self.fill_disk, self.fail_fsync] if self.chance.random() < 0.4 else []
        doing += [self.clean_log] * 2 if self.is_cleaned_at_times else []
        return doing

    def append(self) -> None:
        end = self.log.log_end_offset
        epoch = max(self.log.epochs.latest, 0) + (self.chance.random() < 0.1)
        time_ms = self.chance.randrange(5000)
        records = [
            Record(timestamp_ms=time_ms, key=b"k%d" % self.chance.randrange(KEYS), value=self.chance.randbytes(size))
            for size in [self.chance.randrange(120)] * self.chance.randint(1, 3)
        ]
        data = encode_batch(
            records, base_offset=end, producer_id=3, producer_epoch=0, base_sequence=end, partition_leader_epoch=epoch
        )
        header = read_header(data)
        self.pending = list(written(header, data))
        if self.stages and self.chance.random() < 0.3:
            self.append_staged(data, header)
        else:
            self.log.append(data, header, 1000)
        self.records |= {each.offset: each for each in self.pending}
        self.pending = []

    def append_staged(self, data: bytes, header: BatchHeader) -> None:
        # Its offsets are not known when it is staged.
        staged = self.log.stage(header.base_offset, bytes(12) + data[12:])
        try:
            self.log.append(data, header, 1000, staged=staged)
        finally:
            staged.discard()

    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.log.recovery_point

    def break_off_flush(self) -> None:
        """Let the disk stop between two fsyncs of a flush."""
        self.disk.stop_after(self.chance.randint(1, 5))
        self.flush()

    def roll(self) -> None:
        roll(self.log, 1000)

    def checkpoint(self) -> None:
        self.point = self.log.checkpoint()
        self.is_point_known = True

    def move_start(self) -> None:
        # Deleting goes by what is flushed, and the checkpoint is written before anybody is answered.
        self.start = min(self.log.log_start_offset + self.chance.randrange(4), self.flushed)
        self.log.advance_log_start(self.start)
        self.remove_retired()

    def clean_log(self) -> None:
        """Clean the closed segments, all groups or the first ones."""
        self.flush()
        self.cleaned = max(self.cleaned, self.log.segments[-1].base_offset)
        try:
            clean(self.log, groups=self.chance.choice([None, None, 1]), disk=self.disk)
        except CorruptBatch:
            assert self.has_damage
        self.remove_retired()

    def remove_retired(self) -> None:
        for segment in self.log.take_retired():
            segment.unlink()

    def fill_disk(self) -> None:
        self.disk.room_bytes = self.chance.randrange(300)
        try:
            for _ in range(5):
                self.append()
        except DiskError:
            self.pending = []  # refused, and cut off again
        self.disk.room_bytes = None

    def use_up_descriptors(self) -> None:
        """Start again, and append and roll while no more files can be opened. That must not close the log."""
        self.log.close()
        self.closed_well()
        self.log = self.open()
        self.clean = False
        self.disk.descriptors = self.chance.randrange(4)
        try:
            for _ in range(5):
                self.chance.choice([self.append, self.roll])()
        except DiskError:
            self.pending = []  # refused, and nothing was written
        except LogClosed as error:
            raise AssertionError("a log was closed because no file could be opened") from error
        self.disk.descriptors = None
        self.append()

    def fail_fsync(self) -> None:
        self.disk.fsync_fails = True
        try:
            self.flush()
        except DiskError:
            self.has_dropped = True
        self.disk.fsync_fails = False

    # -- its end -----------------------------------------------------------------------------------

    def crash(self) -> None:
        """End the process or cut the power, open the log, and check that it holds no more and no less than it may."""
        has_power = self.chance.random() < 0.5
        by_file = self.offsets_on_disk()
        self.stop(has_power)
        on_disk = named(by_file)
        # A checkpoint that is lost stays so until the next one is written.
        self.is_point_known &= not (self.forgets_point and self.chance.random() < 0.5)
        if self.chance.random() < 0.1:
            self.open_a_disk_that_cannot_be_read()
        while True:
            if self.chance.random() < 0.2:
                self.disk.stop_after(int(2 ** self.chance.uniform(0, 8)))
            try:
                self.log = self.open()
                break
            except PowerCut:
                self.clean = False
                again = self.chance.random() < 0.5
                has_power &= again
                self.stop(again)
                on_disk = named(by_file)
        self.disk.keep_going()
        self.compare(has_power, on_disk)

    def stop(self, has_power: bool) -> None:
        if has_power:
            self.disk.kill()
        else:
            self.disk.lose(self.chance.randrange(2**32))

    def open_a_disk_that_cannot_be_read(self) -> None:
        """Let a start meet bytes that the disk cannot read: it may fail, and costs nothing."""
        self.spoil()
        with suppress(StorageError):
            log = self.open()
            if self.chance.random() < 0.5:
                with suppress(StorageError):
                    log.close()
        self.clean = False
        self.disk.kill()
        self.disk.heal()

    def spoil(self) -> tuple[Path, int, int] | None:
        """Make a few bytes of one file unreadable; return which."""
        paths = [path for path in sorted(self.directory.glob("0*.*")) if path.stat().st_size]
        if not paths:
            return None
        path = self.chance.choice(paths)
        position = self.chance.randrange(path.stat().st_size)
        size = self.chance.choice([1, 50, 400])
        self.disk.spoil(path, position, size)
        return path, position, size

    def offsets_on_disk(self) -> dict[Path, set[int]]:
        """Return the offsets that an fsync has covered, by file. A name that no fsync has covered may go."""
        found: dict[Path, set[int]] = {}
        for path, content in self.disk.platters().items():
            if path.suffix == LOG_SUFFIX:
                found[path] = set()
                with suppress(RecordError):
                    for position, header in iter_headers(content):
                        check_crc(content, position, header)
                        found[path] |= set(range(header.base_offset, header.next_offset))
        return found

    def compare(self, has_power: bool, on_disk: set[int]) -> None:
        log, end = self.log, self.log.log_end_offset
        known = self.records | {each.offset: each for each in self.pending}
        held = records_of(log)
        assert all(known[offset] == each for offset, each in held.items()), "a record is not what was written"
        # A start that a power cut interrupted may have begun the log anew, and left a note of what was before.
        noted_from = log.recovery.lost_before
        assert log.log_start_offset == self.start or (noted_from is not None and noted_from <= self.start)
        missing = {offset for offset in known if self.start <= offset < end and offset not in held}
        lost = missing - self.cleaned_away(known)
        noted = set(range(self.start, log.log_start_offset))
        assert lost <= self.reported(log) | noted, f"{lost} are missing, and nothing was said of it"
        self.start = log.log_start_offset
        is_all_there = has_power and not self.has_dropped and self.records
        least = max(self.records) + 1 if is_all_there else self.flushed
        assert end >= least, f"the log ends at {end}, {least} was promised"
        assert not any(offset < least for offset in lost), f"{lost} are lost, all below {least} were promised"
        if not self.has_dropped:
            assert not (on_disk & lost), f"{on_disk & lost} were forced to disk"
            assert end > max((each for each in on_disk if each in self.records), default=-1)
        self.compare_producer(held, end)
        self.records = {offset: each for offset, each in known.items() if offset < end and offset not in lost}
        self.pending, self.has_dropped = [], False
        self.flushed = min(max(self.flushed, log.recovery_point), end)
        self.point = min(self.point, end)

    def compare_producer(self, held: dict[int, Written], end: int) -> None:
        producer = self.log.producers.get(3)
        last = max(held, default=-1)
        if self.start == 0 and last >= 0 and held[last].batch_end == end:
            assert producer is not None and producer.last_sequence == held[last].last_sequence

    def cleaned_away(self, known: dict[int, Written]) -> set[int]:
        """Return the offsets below the cleaned end whose key has a later record there."""
        latest: dict[bytes, int] = {}
        for offset, each in sorted(known.items()):
            if offset < self.cleaned:
                latest[each.key] = offset
        return {offset for offset, each in known.items() if offset < self.cleaned and latest[each.key] > offset}

    def reported(self, log: Log) -> set[int]:
        """Return the offsets that the start has told of: gaps, and what damage may have held."""
        found = {offset for first, end in log.recovery.gaps for offset in range(first, end)}
        for damage in log.recovery.damages:
            segment = next(each for each in log.segments if each.path(LOG_SUFFIX) == damage.path)
            later = [each for each in log.segments if each.base_offset > segment.base_offset]
            is_followed = damage.end < segment.size or any(any(each.sound_headers()) for each in later)
            assert is_followed or self.is_point_known or self.clean, f"{damage} is a torn end, and nothing follows"
            before, behind = segment.base_offset, log.log_end_offset
            for position, header in segment.sound_headers():
                if position < damage.position:
                    before = header.next_offset
                elif behind == log.log_end_offset:
                    behind = header.base_offset
            found |= set(range(before, min([behind, *(each.base_offset for each in later)])))
        if log.recovery.missing is not None:
            found |= set(range(*log.recovery.missing))
        self.has_damage |= bool(log.recovery.damages) and not self.is_point_known
        assert not log.recovery.damages or self.has_damage, "a crash was taken for damage"
        return found

    # -- something breaks --------------------------------------------------------------------------

    def break_something(self) -> None:
        """What is on disk for certain breaks in one place: it is found, costs little, and no offset is lost."""
        if self.has_damage:
            return
        self.is_point_known = True
        self.log.flush()
        self.point = self.log.checkpoint()
        self.disk.kill()
        kinds = [self.flip_batch, self.flip_batch, self.flip_index, self.make_unreadable]
        if not self.is_cleaned_at_times:
            # In a cleaned log another offset may be right as well.
            kinds.append(self.flip_base_offset)
        if self.stages:
            kinds += [self.flip_end] * 2
        self.chance.choice(kinds)()

    def places(self) -> list[tuple[Path, int, BatchHeader]]:
        return [
            (path, position, header)
            for path in sorted(self.directory.glob("*.log"))
            for position, header in iter_headers(path.read_bytes())
        ]

    def flip_batch(self) -> None:
        """One bit of a batch: verify finds it, and it costs its batch at most."""
        places = self.places()
        if not places:
            return
        path, position, header = self.chance.choice(places)
        # Leader epoch and offset are under no CRC; all else is.
        at = position + self.chance.choice([*range(8, 12), *range(16, header.size_bytes)])
        flip(path, at, self.chance.randrange(8))
        (found,) = (each for each in verify(self.directory, self.point) if each.path.suffix == ".log")
        assert (found.path, found.position, found.size) == (path, position, header.size_bytes)
        self.reopen()
        # As a repair does: a header that is wrong, but reads, cannot be told from a right one without its CRC.
        (segment,) = (each for each in self.log.segments if each.path(LOG_SUFFIX) == path)
        segment.mark(found.position, found.why, found.position + found.size)
        offsets = set(range(header.base_offset, header.next_offset))
        self.check_reads(offsets, must_fail=offsets & self.records.keys())

    def flip_end(self) -> None:
        """One bit of what tells where the log ends, also after a clean stop: no offset is given away again."""
        places = self.places()
        if not places:
            return
        if self.chance.random() < 0.5:
            self.log.close()
            self.clean = True
        path, position, header = places[-1]
        flip(path, position + self.chance.choice(LAST_OFFSET_DELTA), self.chance.randrange(8))
        self.reopen()
        self.check_reads(set(range(header.base_offset, header.next_offset)))

    def flip_base_offset(self) -> None:
        """One bit of a base offset, which is under no CRC: no other record is served for an offset."""
        places = self.places()
        # Nothing contradicts the last batch of a log when its offset grows: recovery point and index tell most bits.
        if len(places) < 2:
            return
        path, position, header = self.chance.choice(places[:-1])
        flip(path, position + self.chance.randrange(8), self.chance.randrange(8))
        self.reopen()
        self.check_reads(set(range(header.base_offset, header.next_offset)))

    def flip_index(self) -> None:
        """One bit of an index: every look-up finds what it found before."""
        paths = [*self.directory.glob("*.index"), *self.directory.glob("*.timeindex")]
        paths = [path for path in sorted(paths) if path.stat().st_size]
        if not paths:
            return
        path = self.chance.choice(paths)
        flip(path, self.chance.randrange(path.stat().st_size), self.chance.randrange(8))
        self.reopen()
        assert self.log.recovery.damages == []
        self.check_reads(set())

    def make_unreadable(self) -> None:
        """A range that the disk cannot read costs the batches that it touches, while the broker runs and for ever."""
        places = self.places()
        spoilt = self.spoil()
        if spoilt is None:
            return
        path, start, size = spoilt
        # A header that cannot be read hides what follows it in its page.
        end = (start + size + PAGE_BYTES - 1) // PAGE_BYTES * PAGE_BYTES
        touched = {
            offset
            for each, position, header in places
            if each == path and position < end and start < position + header.size_bytes
            for offset in range(header.base_offset, header.next_offset)
        }
        try:
            self.reopen()
        except StorageError as error:
            assert is_unreadable(error), error
            self.disk.heal()
            self.reopen()
            touched = set[int]()
        self.check_reads(touched)
        self.disk.heal()

    def reopen(self) -> None:
        end = self.log.log_end_offset
        self.log = self.open()
        assert (self.log.log_end_offset, self.log.recovery.cuts) == (end, [])

    def check_reads(self, may_fail: set[int], must_fail: Iterable[int] = ()) -> None:
        """Every record is served for its offset, and the log takes more, but for the batches of `may_fail`."""
        failed: set[int] = set()
        gone = self.cleaned_away(self.records)
        for offset, each in self.records.items():
            if offset < self.start or offset in gone:
                continue
            try:
                data = self.log.read(offset, 1, NEVER).read()
                found = {record.offset: record for record in written(read_header(data), data)}
                assert found.get(offset) == each, f"offset {offset} is not what was written"
            except (CorruptBatch, DiskError) as error:
                assert isinstance(error, CorruptBatch) or is_unreadable(error), error
                assert offset in may_fail, f"offset {offset} is lost: {error}"
                failed.add(offset)
        assert failed >= {offset for offset in must_fail if offset >= self.start and offset not in gone}
        self.append()
        end = self.log.log_end_offset
        data = self.log.read(end - 1, 1, NEVER).read()
        assert self.records[end - 1] in written(read_header(data), data)


def written(header: BatchHeader, data: bytes | memoryview) -> Iterable[Written]:
    """Yield the records of a batch."""
    for record in iter_records(data, 0, header, check=True):
        yield Written(record.offset, record.key or b"", record.value or b"", header.last_sequence, header.next_offset)


def records_of(log: Log) -> dict[int, Written]:
    """Everything from the log's start on, by offset."""
    found: dict[int, Written] = {}
    for header, data in log.iter_batches(log.log_start_offset, lambda _: None):
        found |= {each.offset: each for each in written(header, data) if each.offset >= log.log_start_offset}
    return found


def named(by_file: dict[Path, set[int]]) -> set[int]:
    """Return the offsets of the files whose names a power cut has left.

    A name may be that of the empty segment again whose place a staged batch had taken.
    """
    left = (offsets for path, offsets in by_file.items() if path.exists() and path.stat().st_size)
    return {offset for offsets in left for offset in offsets}


def run(directory: Path, seed: int, stages: bool = False, descriptors: bool = False) -> None:
    """Run all lives of a seed. Raises AssertionError if the log differs from the list.

    With `stages` there are very large batches as well, and the end of the log is what breaks at times. With
    `descriptors` no more files can be opened at times. Without them a seed does what it has always done.
    """
    TornLog(directory, seed, stages, descriptors).run()
