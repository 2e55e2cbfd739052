"""Retention: what a policy decides from the facts, and what a log does with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.protocol.records.batch import read_header
from odradek.storage.errors import DiskError, OffsetOutOfRange
from odradek.storage.log import Log, LogConfig
from odradek.storage.retention import (
    LogFacts,
    PolicyError,
    SegmentFacts,
    by_bytes,
    by_time,
    facts_of,
    new_start,
    policy_named,
    standard,
)
from odradek.storage.segments.transaction_index import AbortedTransaction
from odradek.tests.storage.batches import NEVER, append, batch, read_all
from odradek.tests.support.disks.disk import FaultyDisk
from odradek.tests.support.documents.page import begin, python_of
from odradek.tests.support.seeds import seeds


def facts(
    sizes: list[int],
    newest: list[int] | None = None,
    *,
    now_ms: int = 1000,
    up_to: int | None = None,
    start: int = 0,
    **config: int,
) -> LogFacts:
    """A log of segments with ten offsets each."""
    stamps = newest if newest is not None else [0] * len(sizes)
    segments = tuple(
        SegmentFacts(10 * at, 10 * at + 10, size, lambda stamp=stamp: stamp)
        for at, (size, stamp) in enumerate(zip(sizes, stamps, strict=True))
    )
    end = 10 * len(sizes)
    return LogFacts(now_ms, start, end, end if up_to is None else up_to, LogConfig(**config), segments)  # type: ignore[arg-type]


# -- by time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retention_ms", "start"), [(-1, 0), (0, 30), (99, 30), (100, 20), (299, 20), (300, 10), (600, 0), (NEVER, 0)]
)
def test_segments_are_deleted_when_their_newest_record_is_older_than_the_time(retention_ms: int, start: int) -> None:
    assert by_time(facts([5, 5, 5], [500, 700, 900], retention_ms=retention_ms)) == start


def test_a_young_segment_keeps_older_ones_behind_it() -> None:
    assert by_time(facts([5, 5, 5], [0, 5000, 0], retention_ms=100)) == 10


def test_time_looks_no_further_than_the_first_segment_that_stays() -> None:
    def unread() -> int:
        raise AssertionError("read")

    known = facts([5, 5], [900, 900], retention_ms=500)
    assert by_time(known._replace(segments=(known.segments[0], SegmentFacts(10, 20, 5, unread)))) == 0


# -- by bytes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retention_bytes", "start"), [(-1, 0), (0, 30), (1, 20), (10, 20), (11, 10), (25, 10), (30, 10), (31, 0), (60, 0)]
)
def test_the_oldest_segments_are_deleted_while_that_many_bytes_remain(retention_bytes: int, start: int) -> None:
    assert by_bytes(facts([30, 20, 10], retention_bytes=retention_bytes)) == start


def test_retention_by_time_comes_first_and_bytes_are_counted_afterwards() -> None:
    known = facts([30, 20, 10], [0, 950, 950], retention_ms=100, retention_bytes=30)
    assert (by_time(known), by_bytes(known), standard(known)) == (10, 10, 10)
    assert standard(facts([30, 20, 10], [0, 950, 950], retention_ms=100, retention_bytes=10)) == 20


# -- bounds ------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(0, 50), min_size=1, max_size=8),
    up_to=st.integers(0, 90),
    start=st.integers(0, 90),
    answer=st.integers(-10, 200),
)
def test_no_policy_deletes_records_that_must_stay_or_moves_the_start_back(
    sizes: list[int], up_to: int, start: int, answer: int
) -> None:
    known = facts(sizes, up_to=up_to, start=min(start, 10 * len(sizes)))
    chosen = new_start(lambda _: answer, known)
    assert known.log_start_offset <= chosen
    assert chosen <= max(known.log_start_offset, min(up_to, known.log_end_offset))


@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=8),
    newest=st.lists(st.integers(0, 1000), min_size=8, max_size=8),
    retention_ms=st.integers(-1, 1100),
    retention_bytes=st.integers(-1, 400),
    up_to=st.integers(0, 80),
)
def test_the_standard_policy_takes_whole_segments_and_leaves_what_was_promised(
    sizes: list[int], newest: list[int], retention_ms: int, retention_bytes: int, up_to: int
) -> None:
    known = facts(sizes, newest[: len(sizes)], up_to=up_to, retention_ms=retention_ms, retention_bytes=retention_bytes)
    start = new_start(standard, known)
    assert start % 10 == 0
    kept = [each for each in known.segments if each.base_offset >= start]
    gone = [each for each in known.segments if each.base_offset < start]
    left = sum(each.size_bytes for each in kept)
    old = [each for each in gone if retention_ms >= 0 and 1000 - each.newest_ms > retention_ms]
    # Whatever went was old, or there is more than enough left without it.
    assert gone == old or (retention_bytes >= 0 and left >= retention_bytes)
    # What stays first must stay.
    if kept and kept[0].end_offset <= up_to:
        # (One that is old behind a younger one that went by bytes goes the next time, as in Kafka.)
        assert retention_ms < 0 or 1000 - kept[0].newest_ms <= retention_ms or gone != old
        assert retention_bytes < 0 or left - kept[0].size_bytes < retention_bytes


# -- policies by name --------------------------------------------------------------------------------


def test_a_policy_is_named_by_its_import_path_or_by_a_short_name() -> None:
    assert policy_named("standard") is standard
    assert policy_named("time") is by_time
    assert policy_named("odradek.storage.retention:by_bytes") is by_bytes


async def test_the_policy_of_the_page_keeps_the_last_hundred_segments() -> None:
    page, names = Path(__file__).parents[2] / "docs" / "storage.md", dict[str, Any]()
    ((line, code),) = python_of(page.read_text(encoding="utf-8"), {})
    assert begin(code, names, "storage.md", line) is None
    assert [names["policy"](facts([1] * count)) for count in (1, 100, 103)] == [0, 0, 30]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("never", "must be one of standard, time, bytes, or package.module:function"),
        ("no.such.module:policy", "no.such.module cannot be imported"),
        ("odradek.storage.retention:nothing", "has no function nothing"),
        (":", "must be one of"),
    ],
)
def test_a_policy_that_cannot_be_loaded_says_why(name: str, why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        policy_named(name)


# -- what a log does ---------------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


def filled(directory: Path, batches: int = 10, disk: FaultyDisk | None = None, **config: int) -> Log:
    """Two records a batch, about two batches a segment; timestamps 1000, 1010 and so on."""
    settings = LogConfig(**{"segment_bytes": 200, **config})  # type: ignore[arg-type]
    more = {"disk": disk} if disk is not None else {}
    log = Log.open(directory, settings, clean=False, now_ms=1000, **more)  # type: ignore[arg-type]
    for number in range(batches):
        append(log, batch(log.log_end_offset, 2, timestamp_ms=1000 + 10 * number))
    return log


def names(directory: Path, suffix: str) -> list[int]:
    return sorted(int(each.name[:20]) for each in directory.iterdir() if each.name.endswith(suffix))


def test_a_policy_sees_the_segments_of_the_log(directory: Path) -> None:
    log = filled(directory)
    known = facts_of(log, 5000, 17)
    assert (known.now_ms, known.log_start_offset, known.log_end_offset, known.up_to) == (5000, 0, 20, 17)
    assert [(each.base_offset, each.end_offset) for each in known.segments] == [
        (0, 4), (4, 8), (8, 12), (12, 16), (16, 20)
    ]  # fmt: skip
    assert [each.newest_ms for each in known.segments] == [1011, 1031, 1051, 1071, 1091]
    assert sum(each.size_bytes for each in known.segments) == log.size_bytes
    assert [each.end_offset for each in known.deletable] == [4, 8, 12, 16]


def test_records_without_a_time_are_as_old_as_their_file(directory: Path) -> None:
    log = Log.open(directory, LogConfig(), clean=False, now_ms=1000)
    append(log, batch(0, timestamp_ms=-1))
    os.utime(directory / f"{0:020d}.log", (1234, 1234))
    assert [each.newest_ms for each in facts_of(log, 5000, NEVER).segments] == [1_234_000]


def test_segments_below_the_start_retire_and_are_removed_later(directory: Path) -> None:
    log = filled(directory)
    log.advance_log_start(9)
    assert names(directory, ".log.deleted") == [0, 4]
    assert names(directory, ".log") == [8, 12, 16]
    retired = log.take_retired()
    assert [each.base_offset for each in retired] == [0, 4]
    assert log.take_retired() == []
    for segment in retired:
        segment.unlink()
    assert names(directory, ".deleted") == []
    assert names(directory, ".timeindex") == [8, 12, 16]
    assert log.segments[0].base_offset == 8


def test_a_start_can_advance_a_few_segments_at_a_time(directory: Path) -> None:
    log = filled(directory)
    log.advance_log_start(17, max_segments=2)
    assert (log.log_start_offset, names(directory, ".log")) == (17, [8, 12, 16])
    assert read_all(log)
    with pytest.raises(OffsetOutOfRange):
        log.read(8, 100, NEVER)
    log.advance_log_start(17)
    assert names(directory, ".log") == [16]


def test_a_reader_of_a_segment_reads_on_after_it_has_retired(directory: Path) -> None:
    log = filled(directory)
    held, cold = log.read(0, 1000, NEVER), log.segments[1]
    expected = held.read()
    batches = log.iter_batches(0)
    seen = [next(batches)[0].base_offset]
    cold.release()
    log.advance_log_start(20)
    assert held.read() == expected
    assert [header.base_offset for _, header in cold.headers()] == [4, 6]
    seen += [header.base_offset for header, _ in batches]
    assert seen == list(range(0, 20, 2))
    for segment in log.take_retired():
        segment.unlink()
    assert held.read() == expected


def test_a_log_that_loses_all_segments_keeps_its_end_and_its_producers(directory: Path) -> None:
    log = filled(directory, 2)
    append(log, batch(4, producer_id=7, sequence=3))
    log.begin_anew(2000)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (5, 5, 0)
    assert names(directory, ".log") == [5]
    log.begin_anew(2000)
    assert [each.base_offset for each in log.take_retired()] == [0, 4]
    log.close()
    log = Log.open(directory, LogConfig(), clean=True, now_ms=3000, log_start_offset=5)
    duplicate = log.producers.check(read_header(batch(5, producer_id=7, sequence=3)))
    assert duplicate is not None
    assert duplicate.base_offset == 4
    append(log, batch(5))
    assert read_all(log) == batch(5)


def test_retired_segments_that_a_kill_left_are_removed_at_the_next_start(directory: Path) -> None:
    disk = FaultyDisk()
    log = filled(directory, disk=disk)
    log.advance_log_start(9)
    disk.kill()
    log = Log.open(directory, log.config, clean=False, now_ms=1000)
    assert names(directory, ".deleted") == []
    assert names(directory, ".index") == names(directory, ".log") == [8, 12, 16]
    assert (log.log_start_offset, log.log_end_offset) == (8, 20)


def test_a_segment_that_cannot_be_renamed_is_below_the_start_all_the_same(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FaultyDisk()
    log = filled(directory, disk=disk)

    def refuse(source: Path, target: Path) -> None:
        raise DiskError("rename", source, OSError(5, "Input/output error"))

    monkeypatch.setattr(disk, "rename", refuse)
    with pytest.raises(DiskError):
        log.advance_log_start(9)
    assert log.log_start_offset == 9
    with pytest.raises(OffsetOutOfRange):
        log.read(8, 100, NEVER)
    assert read_all(log)


def test_a_flush_does_not_touch_what_has_retired_meanwhile(directory: Path) -> None:
    log = filled(directory)
    old = log.segments[0]
    log.advance_log_start(9)
    for segment in log.take_retired():
        segment.unlink()
    old.sync()
    log.flush()
    assert log.recovery_point == 20


@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex"])
def test_a_flush_that_is_late_brings_no_file_of_a_removed_segment_back(tmp_path: Path, suffix: str) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(segment_bytes=300, index_interval_bytes=50), clean=True, now_ms=0)
    for number in range(6):
        append(log, batch(number))
    (segment, *_) = log.segments
    indexes = segment.open_indexes()
    index = {"index": indexes.offsets, "timeindex": indexes.times, "txnindex": segment.aborted}[suffix]
    if suffix == "txnindex":
        segment.aborted.append(AbortedTransaction(1, 0, 1, 2))
    # A thread that has forced the log to disk comes to the indexes when the segment has gone.
    log.advance_log_start(log.segments[1].base_offset)
    for retired in log.take_retired():
        retired.unlink()
    assert segment.is_retired
    if index.is_dirty:
        with pytest.raises(DiskError):
            index.sync()
    assert not list(log.directory.glob("*.deleted"))
    log.close()


@pytest.mark.parametrize("first", seeds([0], range(20, 200, 20)))
def test_a_power_cut_behind_a_log_that_retention_has_emptied_gives_no_flushed_offset_away_again(
    tmp_path: Path, first: int
) -> None:
    found: set[tuple[int, int]] = set()
    for seed in range(first, first + 20):
        disk, directory = FaultyDisk(), tmp_path / f"{seed}-0"
        log = Log.open(directory, LogConfig(), clean=True, now_ms=0, disk=disk)
        for offset in range(3):
            append(log, batch(offset))
        log.flush()
        log.begin_anew(0)
        disk.lose(seed)
        again = Log.open(directory, LogConfig(), clean=False, now_ms=0, recovery_point=log.recovery_point, disk=disk)
        assert again.log_end_offset == 3
        found.add((again.log_start_offset, again.log_end_offset))
    assert found == {(0, 3), (3, 3)}
