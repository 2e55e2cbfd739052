"""What look-ups of an offset find, and what they cost, in long logs and in logs with gaps."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from odradek.protocol.records.batch import BatchHeader, read_header
from odradek.storage.errors import CorruptBatch
from odradek.storage.files import DISK, NotCached
from odradek.storage.log import Log, LogConfig
from odradek.storage.log_view import LogView
from odradek.storage.segments.damage import WRONG_CRC
from odradek.storage.segments.segment import Segment
from odradek.tests.storage.batches import NEVER, append, batch, roll
from odradek.tests.support.brokers.python_calls import Calls


def looked_up(segment: Segment, offset: int, *, cached: bool) -> tuple[int, BatchHeader] | str | None:
    try:
        return segment.find(offset, cached=cached)
    except CorruptBatch as error:
        return str(error)


@pytest.mark.parametrize("seed", range(4))
def test_a_look_up_in_the_page_cache_finds_what_any_look_up_finds(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    log = Log.open(tmp_path, LogConfig(index_interval_bytes=chance.choice([0, 400, 4096])), clean=True, now_ms=0)
    for _ in range(120):
        missing = chance.choice([0, 0, 0, 7])  # offsets that a cleaning has left out
        size = chance.choice([1, 100, 900, 9_000])
        append(log, batch(log.log_end_offset + missing, chance.randint(1, 4), size=size))
    segment = log.segments[0]
    for offset in range(log.log_end_offset):
        assert looked_up(segment, offset, cached=True) == looked_up(segment, offset, cached=False)


def test_a_look_up_in_the_page_cache_leaves_a_damaged_header_to_a_thread(tmp_path: Path) -> None:
    log = Log.open(tmp_path, LogConfig(index_interval_bytes=10_000), clean=True, now_ms=0)
    for offset in range(10):
        append(log, batch(offset))
    segment, (position, header) = log.segments[0], log.segments[0].find(5) or (0, None)
    assert header
    for at, value in ((16, b"\x09"), (8, b"\x00\x00\x00\x01"), (8, b"\x7f\xff\xff\xff"), (23, b"\xff\xff\xff\xff")):
        sound = DISK.read(segment.file, len(value), position + at)
        DISK.write(segment.file, value, position + at)
        assert segment.find(4, cached=True)
        with pytest.raises(NotCached):
            segment.find(6, cached=True)
        DISK.write(segment.file, sound, position + at)
    assert segment.find(6, cached=True) == segment.find(6)


def test_a_look_up_in_a_thread_copies_the_segments_that_it_needs_and_no_other(tmp_path: Path) -> None:
    """6,400 segments, as 100 GB in segments of 16 MB have them."""
    held = Segment.create(tmp_path, 32_000, 0)
    data = batch(32_000, 10)
    held.append(data, read_header(data), 4096)
    before = [Segment(tmp_path, 10 * number, 0, 0) for number in range(3_200)]
    behind = [Segment(tmp_path, 10 * number, 0, 0) for number in range(3_201, 6_400)]
    segments = (*before, held, *behind)
    calls = Calls(1)
    sys.setprofile(calls.note)
    try:
        view = LogView(segments, 0, 64_000, DISK, LogConfig())
        found = view.locate(32_005, NEVER)
    finally:
        sys.setprofile(None)
    assert found is not None
    assert calls.counts.total() < 1_000
    assert len(list(view.segments.made)) < 20


@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("delta", [0, 3])
def test_records_behind_a_flipped_delta_are_damaged_and_not_skipped(tmp_path: Path, is_last: bool, delta: int) -> None:
    """The batch seems to end before them, as one does that a cleaning has left behind."""
    log = Log.open(tmp_path, LogConfig(), clean=True, now_ms=0)
    for offset in range(0, 100, 10):
        append(log, batch(offset, 10))
    roll(log)
    append(log, batch(100, 10))
    log.close()
    log = Log.open(tmp_path, LogConfig(), clean=True, now_ms=0)
    first = 90 if is_last else 50
    segment = log.segments[0]
    position = next(at for at, each in segment.headers() if each.base_offset == first)
    DISK.write(segment.file, delta.to_bytes(4, "big"), position + 23)
    for offset in range(first + delta + 1, first + 10):
        segment.open_indexes()
        with pytest.raises(NotCached):
            log.read(offset, 1, NEVER, cached=True)
        view = log.view()
        with pytest.raises(CorruptBatch):
            view.locate(offset, NEVER)
        log.learn(view)
    assert [(each.position, each.why) for each in segment.damages] == [(position, WRONG_CRC)]
    for offset in (*range(first), *range(first + 10, 110)):
        assert log.read(offset, 1, NEVER).size
    log.close()


def test_a_gap_that_a_cleaning_has_left_is_passed(tmp_path: Path) -> None:
    log = Log.open(tmp_path, LogConfig(), clean=True, now_ms=0)
    for offset in (0, 10, 20):
        append(log, batch(offset, 5))
    roll(log)
    append(log, batch(40, 5))
    roll(log)
    for offset, found in ((6, 10), (17, 20), (26, 40), (39, 40)):
        for cached in (True, False):
            assert read_header(log.read(offset, 1, NEVER, cached=cached).read()).base_offset == found
    assert not log.damaged_places
    log.close()
