"""Look-ups in a view of a log while it is cleaned, once or several times, by seed.

A cleaning falls on any open and any read of a look-up outside the lock of names, as another thread's does. Retired
files are removed as the broker removes them with the shortest delay. The log is sound, so no look-up may say that it is
not, and what it finds must be what a reader may see: an aborted record only with its transaction.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from odradek.protocol.records.batch import decode_batch, encode_batch, iter_headers, read_header
from odradek.protocol.records.control import ControlType, Marker, encode_marker
from odradek.protocol.records.record import Record
from odradek.storage.errors import CorruptBatch, StaleView
from odradek.storage.files import Disk, File
from odradek.storage.log import Log, LogConfig
from odradek.storage.log_view import LogView
from odradek.storage.producers import ProducerStates
from odradek.storage.segments.segment_file import NAMES_LOCK
from odradek.tests.storage.batches import NEVER, append, batch, roll
from odradek.tests.storage.cleaning import clean
from odradek.tests.support.seeds import seeds

KEYS = [b"%d" % number for number in range(6)]
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100, segment_ms=2**60)
# Cleanings beside one look-up: more than the attempts that the broker makes.
MAX_CLEANINGS = 6


class InterruptedDisk(Disk):
    """A disk on which something else happens before and after what a look-up does, at times."""

    def __init__(self) -> None:
        self.interrupt: Callable[[], None] | None = None

    def _step(self) -> None:
        act, is_free = self.interrupt, not NAMES_LOCK._is_owned()  # type: ignore[attr-defined]
        if act is not None and is_free:
            self.interrupt = None
            act()
            self.interrupt = act

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> File:
        self._step()
        file = super().open(path, create=create, writable=writable)
        self._step()
        return file

    def read(self, file: File, size: int, position: int) -> bytes:
        self._step()
        return super().read(file, size, position)


class CleanedLog:
    """A compacted log with transactions, and the look-ups in it."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.disk = InterruptedDisk()
        self.log = Log.open(directory, CONFIG, clean=True, now_ms=0, disk=self.disk)
        self.sequences = {7: 0, 8: 0}
        self.cleanings = 0

    def append(self) -> None:
        """Append a few batches, or a transaction that is committed or aborted."""
        log, chance = self.log, self.chance
        if chance.random() < 0.7:
            for _ in range(chance.randint(1, 5)):
                self._put(b"v", {})
            return
        producer = chance.choice(list(self.sequences))
        ends = chance.choice([ControlType.COMMIT, ControlType.ABORT])
        for _ in range(chance.randint(1, 3)):
            rest = {"producer_id": producer, "producer_epoch": 0, "base_sequence": self.sequences[producer]}
            self.sequences[producer] += 1
            self._put(b"aborted" if ends is ControlType.ABORT else b"v", {**rest, "transactional": True})
            self._put(b"v", {})
        marker = Marker(ends, 0)
        data = encode_marker(
            marker, producer_id=producer, producer_epoch=0, timestamp_ms=self._now_ms(), base_offset=log.log_end_offset
        )
        log.append(data, read_header(data), 0, marker)

    def _put(self, value: bytes, rest: dict[str, int]) -> None:
        record = Record(-1, self._now_ms(), self.chance.choice(KEYS), value)
        data = encode_batch([record], base_offset=self.log.log_end_offset, **rest)  # type: ignore[arg-type]
        self.log.append(data, read_header(data), 0)

    def _now_ms(self) -> int:
        return 1000 + self.log.log_end_offset

    def clean(self) -> None:
        """Clean up to here, and remove the files that no look-up needs."""
        interrupt, self.disk.interrupt = self.disk.interrupt, None
        for _ in range(self.chance.randint(1, 3)):
            self.append()
        roll(self.log, 0)
        # Aborted records and old markers go at once.
        clean(self.log, now_ms=10**6, disk=self.disk)
        self.cleanings += 1
        for segment in self.log.take_retired():
            if not self.log.is_viewed(segment):
                segment.unlink()
        self.disk.interrupt = interrupt

    def look_up(self) -> None:
        """Look up something in a view, beside cleanings, and check what was found."""
        chance, log = self.chance, self.log
        for segment in log.segments[:-1]:
            if chance.random() < 0.5:
                segment.release()
                segment._indexes = None
        view = log.view()
        rate = chance.choice([0.05, 0.3, 0.6])
        offset = chance.randrange(view.start_offset, view.end_offset)
        look_up = chance.choice([self._locate, self._find_time, self._find_latest, self._load_times])

        before = self.cleanings

        def interrupt() -> None:
            if chance.random() < rate and self.cleanings < before + MAX_CLEANINGS:
                self.clean()

        for _ in range(MAX_CLEANINGS + 1):
            self.disk.interrupt = interrupt
            try:
                look_up(view, offset)
                assert not view.mend_indexes()
                break
            except StaleView as error:
                self.disk.interrupt = None
                log.learn(view)
                view = log.view_after(view, error)
        else:
            raise AssertionError("no attempt has come to an end")
        self.disk.interrupt = None
        log.learn(view)
        assert not log.damaged_places

    def _locate(self, view: LogView, offset: int) -> None:
        location = view.locate(offset, NEVER)
        assert location is not None
        records = location.range(self.chance.choice([1, 1 << 20]), True, self.disk)
        aborted = view.aborted_transactions(offset, records, view.end_offset)
        data = records.read()
        headers = list(iter_headers(data))
        assert headers[0][1].last_offset >= offset
        for position, header in headers:
            if any(each.value == b"aborted" for each in decode_batch(data[position : position + header.size_bytes])):
                mine = [each for each in aborted if each.producer_id == header.producer_id]
                assert any(each.first_offset <= header.base_offset <= each.last_offset for each in mine), header

    def _find_time(self, view: LogView, offset: int) -> None:
        found = view.find_time(1000 + offset, view.end_offset)
        assert found is not None
        assert found[1] >= offset
        assert found[0] == 1000 + found[1]

    def _find_latest(self, view: LogView, offset: int) -> None:
        timestamp_ms, latest = view.max_timestamp()
        assert offset <= latest < view.end_offset or timestamp_ms == -1

    def _load_times(self, view: LogView, _: int) -> None:
        view.load_times(len(view.segments))


def run(directory: Path, seed: int) -> int:
    """Look up beside cleanings; return how many there were."""
    cleaned = CleanedLog(directory, seed)
    for _ in range(12):
        cleaned.append()
    for _ in range(5):
        cleaned.look_up()
        cleaned.append()
    cleaned.log.close()
    again = Log.open(directory, CONFIG, clean=True, now_ms=0)
    assert not list(directory.glob("*.deleted")), "a start removes what has retired"
    assert again.log_end_offset == cleaned.log.log_end_offset
    again.close()
    return cleaned.cleanings


@pytest.mark.parametrize("first", seeds([0], range(5, 1_000, 5)))
def test_a_look_up_beside_cleanings_finds_what_the_log_held(tmp_path: Path, first: int) -> None:
    cleanings = sum(run(tmp_path / str(seed), seed) for seed in range(first, first + 5))
    assert cleanings > 25


def clean_once_more(log: Log) -> None:
    """Append two records of one key, and clean: the first segment is replaced."""
    for value in (b"v" * 300, b"w" * 20):
        record = Record(-1, 1000 + log.log_end_offset, b"k", value)
        data = encode_batch([record], base_offset=log.log_end_offset)
        log.append(data, read_header(data), 0)
    roll(log, 0)
    clean(log, now_ms=1)


def test_a_segment_that_is_copied_late_is_not_mistaken_for_the_next_that_retires(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(index_interval_bytes=1), clean=True, now_ms=0)
    for _ in range(3):
        clean_once_more(log)
    held = log.segments[0]
    held.release()
    held._indexes = None
    sizes = [held.size]
    view = log.view()
    for _ in range(2):
        clean_once_more(log)
        sizes.append(log.segments[0].size)
    retired = log.take_retired()
    assert len({each.path(".log") for each in retired}) == len(retired)
    assert all(each.path(".log").exists() for each in retired)
    located = view.locate(0, log.log_end_offset)
    assert located is not None
    assert located.end == held.size
    log.learn(view)
    assert not log.damaged_places
    for each in retired:
        each.unlink()
    assert not list(log.directory.glob("*.deleted"))
    log.close()


def test_damage_that_a_view_meets_where_the_log_was_cut_meanwhile_is_not_learned(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(index_interval_bytes=1), clean=True, now_ms=0)
    for offset in range(20):
        append(log, batch(offset))
    view = log.view()
    log.truncate_to(3, ProducerStates())
    for offset in range(3, 8):
        append(log, batch(offset, size=77))
    with pytest.raises(CorruptBatch):
        view.locate(15, 20)
    log.learn(view)
    assert not log.damaged_places
    assert log.view().locate(5, 8) is not None
    log.close()
