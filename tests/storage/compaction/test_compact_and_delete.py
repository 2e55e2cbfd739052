"""cleanup.policy=compact,delete: both at work on one log, against a list of what was written.

Whatever goes by age or size goes from the old end; of what is left every key's last value is there at its offset, and
what is asked by time (ListOffsets: the earliest, the largest timestamp) is what a look at every record would say.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import pytest
from odradek.protocol.records.batch import decode_batch, encode_batch, read_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record
from odradek.storage.log import Log, LogConfig
from odradek.storage.retention import facts_of, new_start, standard
from odradek.tests.storage.batches import find_time, max_timestamp, roll
from odradek.tests.storage.cleaning import clean

STEPS = 50
KEYS = [b"a", b"b", b"c", b"d", b"long" * 30]
RULES = {"min_cleanable_dirty_ratio": 0, "delete_retention_ms": 2000}


class Written(NamedTuple):
    """A record as it was appended."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Both:
    """A log with both policies, and everything that was ever written to it."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.config = LogConfig(
            segment_bytes=700,
            index_interval_bytes=100,
            segment_ms=2**60,
            retention_ms=self.chance.choice([-1, 5000, 20_000]),
            retention_bytes=self.chance.choice([-1, 2000, 5000]),
        )
        self.log = Log.open(directory, self.config, clean=True, now_ms=0)
        self.written: list[Written] = []
        self.clean_up_to: int | None = None
        self.now_ms = 10_000
        self.start = 0

    def put(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            base, count = self.log.log_end_offset, self.chance.randint(1, 4)
            # Some come late, some are of the future: time does not grow with the offsets.
            records = [
                Record(
                    base + at,
                    self.now_ms + self.chance.randint(-1500, 500),
                    self.chance.choice(KEYS),
                    self.chance.choice([None, b"v" * self.chance.randint(1, 60)]),
                )
                for at in range(count)
            ]
            data = encode_batch(records, base_offset=base, compression=self.chance.choice(list(Compression)))
            self.log.append(data, read_header(data), self.now_ms)
            self.written += [Written(each.offset, each.timestamp_ms, each.key, each.value) for each in records]

    def clean(self) -> None:
        self.clean_up_to = clean(self.log, self.clean_up_to, now_ms=self.now_ms, rules=RULES)
        self.removed()

    def retain(self) -> None:
        start = new_start(standard, facts_of(self.log, self.now_ms, self.log.log_end_offset))
        if start >= self.log.log_end_offset:
            self.log.begin_anew(self.now_ms)
        else:
            self.log.advance_log_start(start)
        assert self.log.log_start_offset >= self.start
        self.start = self.log.log_start_offset
        self.removed()

    def delete_records(self) -> None:
        self.start = self.chance.randint(self.start, self.log.log_end_offset)
        self.log.advance_log_start(self.start)
        self.removed()

    def wait(self) -> None:
        self.now_ms += self.chance.choice([100, 1000, 6000])

    def restart(self) -> None:
        is_clean = self.chance.random() < 0.5
        if is_clean:
            self.log.close()
        self.log = Log.open(
            self.log.directory, self.config, clean=is_clean, now_ms=self.now_ms, log_start_offset=self.start
        )

    def removed(self) -> None:
        for segment in self.log.take_retired():
            segment.unlink()

    def check(self) -> None:
        found = [
            Written(each.offset, each.timestamp_ms, each.key, each.value)
            for _, data in self.log.iter_batches(self.start)
            for each in decode_batch(data)
            if each.offset >= self.start
        ]
        offsets = [each.offset for each in found]
        assert offsets == sorted(offsets)
        assert set(found) <= set(self.written), "an offset, a key, a value or a time has changed"
        last = {each.key: each for each in self.written}
        assert {each for each in last.values() if each.offset >= self.start and each.value is not None} <= set(found)
        assert self.log.log_start_offset == self.start
        assert self.log.log_end_offset == len(self.written)
        self.check_times(found)

    def check_times(self, found: list[Written]) -> None:
        newest = max(found, key=lambda each: (each.timestamp_ms, -each.offset), default=None)
        assert max_timestamp(self.log) == ((newest.timestamp_ms, newest.offset) if newest else (-1, -1))
        for asked_ms in (0, self.now_ms - 3000, self.now_ms - 500, self.now_ms + 501):
            first = next((each for each in found if each.timestamp_ms >= asked_ms), None)
            answer = find_time(self.log, asked_ms, self.log.log_end_offset)
            assert (answer and answer[:2]) == (first and (first.timestamp_ms, first.offset))


@pytest.mark.parametrize("seed", range(12))
def test_records_stay_only_if_both_policies_keep_them(tmp_path: Path, seed: int) -> None:
    both = Both(tmp_path / "t-0", seed)
    steps = (
        [both.put] * 6 + [both.clean] * 3 + [both.wait] * 3 + [both.retain] * 2 + [both.delete_records, both.restart]
    )
    for _ in range(STEPS):
        both.chance.choice(steps)()
        both.check()


def test_compacted_segments_are_deleted_by_age(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=700, segment_ms=2**60, retention_ms=1000)
    log = Log.open(tmp_path / "t-0", config, clean=True, now_ms=0)
    for number in range(30):
        data = encode_batch([Record(number, number * 100, b"k%d" % (number % 3), b"v" * 50)], base_offset=number)
        log.append(data, read_header(data), 0)
    roll(log, 0)
    clean(log)
    assert max_timestamp(log) == (2900, 29)
    assert [h.base_offset for h, data in log.iter_batches(0) if decode_batch(data)] == [27, 28, 29]
    # The segment with what is left is young enough, those of which nothing is left are not.
    assert new_start(standard, facts_of(log, 3900, log.log_end_offset)) <= 27
    assert new_start(standard, facts_of(log, 3901, log.log_end_offset)) == 30
    log.advance_log_start(30)
    assert (max_timestamp(log), find_time(log, 0, 30)) == ((-1, -1), None)
