"""A log on a faulty disk, by a seed: it appends, crashes and recovers again and again, and is compared with a list.

A life does random things (appends, rolls, flushes, checkpoints, a moved start, a full disk, a failed fsync) until the
disk stops at some byte. Then the process dies (all written bytes are there) or the power fails (any part of the
unsynced bytes may be lost), sometimes again in the middle of the recovery. In the end a bit flips below the recovery
point. `run(directory, seed)` does the same for the same seed.
"""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

from odradek.protocol.records.batch import BatchHeader, iter_headers, read_header
from odradek.storage.errors import CorruptBatch, DiskError, LogClosed
from odradek.storage.integrity import verify
from odradek.storage.log import Log, LogConfig
from odradek.storage.segments.names import LOG_SUFFIX
from odradek.tests.storage.batches import batch, read_all, roll
from odradek.tests.support.disk import FaultyDisk, PowerCut

LIVES = 6
OPERATIONS = 25
NEVER = 2**63 - 1


class TornLog:
    """The log, the list, and the comparisons of the two."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.directory = directory
        self.disk = FaultyDisk()
        self.config = LogConfig(
            segment_bytes=self.chance.choice([500, 900, 5000]),
            index_interval_bytes=self.chance.choice([0, 100, 400]),
            segment_index_bytes=self.chance.choice([36, 84, 4000]),
        )
        self.batches: list[tuple[BatchHeader, bytes]] = []
        # Appended, but nobody was answered: may be there or not.
        self.pending: tuple[BatchHeader, bytes] | None = None
        self.start = 0
        self.new_start = 0
        self.flushed = 0
        self.point = 0
        self.clean = False
        # Whether an fsync has failed since the log was opened: the kernel may have dropped what was answered.
        self.has_dropped = False
        self.log = self.open()

    def open(self) -> Log:
        return Log.open(
            self.directory, self.config, clean=self.clean, now_ms=1000, recovery_point=self.point,
            log_start_offset=self.start, disk=self.disk,
        )  # fmt: skip

    # -- a life ------------------------------------------------------------------------------------

    def live(self) -> None:
        self.clean = False
        self.disk.stop_after(int(2 ** self.chance.uniform(0, 13)))
        doing = [self.append] * 10 + [self.flush] * 3 + [self.roll, self.checkpoint, self.checkpoint, self.move_start]
        doing += [self.fill_disk, self.fail_fsync] if self.chance.random() < 0.4 else []
        try:
            for _ in range(OPERATIONS):
                self.chance.choice(doing)()
            if self.chance.random() < 0.5:
                self.log.close()
                self.flushed = self.point = self.log.log_end_offset
                self.clean = True
        except (PowerCut, LogClosed):
            pass

    def append(self) -> None:
        end = self.log.log_end_offset
        records = self.chance.randint(1, 3)
        data = batch(
            end, records, size=self.chance.randrange(120), timestamp_ms=self.chance.randrange(5000), producer_id=3,
            sequence=end, leader_epoch=max(self.log.epochs.latest, 0) + (self.chance.random() < 0.1),
        )  # fmt: skip
        self.pending = read_header(data), data
        self.log.append(data, self.pending[0], 1000)
        self.batches.append(self.pending)
        self.pending = None

    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.log.recovery_point

    def roll(self) -> None:
        roll(self.log, 1000)

    def checkpoint(self) -> None:
        self.point = self.log.recovery_point

    def move_start(self) -> None:
        # Deleting goes by what is flushed, and the checkpoint is written before anybody is answered.
        self.new_start = self.start = min(self.log.log_start_offset + self.chance.randrange(4), self.flushed)
        self.log.advance_log_start(self.start)
        for segment in self.log.take_retired():
            segment.unlink()

    def fill_disk(self) -> None:
        self.disk.room_bytes = self.chance.randrange(300)
        try:
            for _ in range(5):
                self.append()
        except DiskError:
            self.pending = None  # refused, and cut off again
        self.disk.room_bytes = None

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
        self.stop(has_power)
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
        self.disk.keep_going()
        self.compare(has_power)

    def stop(self, has_power: bool) -> None:
        if has_power:
            self.disk.kill()
        else:
            self.disk.lose(self.chance.randrange(2**32))

    def compare(self, has_power: bool) -> None:
        end = self.log.log_end_offset
        known = [*self.batches, self.pending] if self.pending is not None else self.batches
        kept = [each for each in known if each[0].next_offset <= end]
        assert self.log.recovery.damages == []
        assert kept == known[: len(kept)]
        is_all_there = has_power and not self.has_dropped and self.batches
        least = self.batches[-1][0].next_offset if is_all_there else self.flushed
        assert end >= least, f"the log ends at {end}, {least} was promised"
        assert self.log.log_start_offset == self.start
        assert read_all(self.log) == b"".join(data for header, data in kept if header.next_offset > self.start)
        producer = self.log.producers.get(3)
        if kept and kept[-1][0].next_offset > self.start and self.start == 0:
            assert producer is not None and producer.last_sequence == kept[-1][0].last_sequence
        self.batches, self.pending, self.has_dropped = kept, None, False
        self.flushed = min(self.flushed, end)
        self.point = min(self.point, end)

    # -- a flipped bit -----------------------------------------------------------------------------

    def flip(self) -> None:
        """Flip a bit below the recovery point: it must be found, cost one batch at most, and lose no offset."""
        self.log.flush()
        self.point, end = self.log.recovery_point, self.log.log_end_offset
        self.disk.kill()
        places = [
            (path, position, header)
            for path in sorted(self.directory.glob("*.log"))
            for position, header in iter_headers(path.read_bytes())
        ]
        if not places:
            return
        path, position, header = self.chance.choice(places)
        # Leader epoch and offset are under no CRC; all else is.
        at = position + self.chance.choice([*range(8, 12), *range(16, header.size_bytes)])
        content = bytearray(path.read_bytes())
        content[at] ^= 1 << self.chance.randrange(8)
        path.write_bytes(content)
        (found,) = (each for each in verify(self.directory, self.point) if each.path.suffix == ".log")
        assert (found.path, found.position, found.size) == (path, position, header.size_bytes)
        self.log = self.open()
        assert (self.log.log_end_offset, self.log.recovery.cuts) == (end, [])
        # As the scrubber does: a header that is wrong, but reads, cannot be told from a right one without its CRC.
        (segment,) = (each for each in self.log.segments if each.path(LOG_SUFFIX) == path)
        segment.mark(found.position, found.why, found.position + found.size)
        for each, data in self.batches:
            if each.base_offset != header.base_offset and each.base_offset >= self.start:
                assert self.log.read(each.base_offset, 1, NEVER).read() == data
        if header.base_offset >= self.start:
            with suppress(CorruptBatch):
                self.log.read(header.base_offset, 1, NEVER)
                raise AssertionError(f"damage at {position} of {path} is served")
        self.append()
        assert self.log.read(end, 1, NEVER).read() == self.batches[-1][1]


def run(directory: Path, seed: int) -> None:
    """Run all lives of a seed. Raises AssertionError if the log differs from the list."""
    torn = TornLog(directory, seed)
    for _ in range(LIVES):
        torn.live()
        torn.crash()
    torn.flip()
