from __future__ import annotations

from pathlib import Path

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import iter_headers, read_header
from odradek.storage.deleted_directory import remove_directory
from odradek.storage.errors import (
    BatchTooLarge,
    CorruptBatch,
    DiskError,
    LogClosed,
    OffsetOutOfRange,
    OffsetsNotMonotonic,
    TornWrite,
)
from odradek.storage.files import DISK
from odradek.storage.log import Log, LogConfig
from odradek.storage.segments import swap
from odradek.tests.storage.batches import NEVER, append, batch, find_time, headers_of, max_timestamp, read_all, roll
from odradek.tests.support.disks.disk import FaultyDisk


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


def opened(
    directory: Path, clean: bool = True, now_ms: int = 1000, disk=DISK, start: int = 0, point: int = 0, **config
) -> Log:
    return Log.open(
        directory,
        LogConfig(**config),
        clean=clean,
        now_ms=now_ms,
        recovery_point=point,
        log_start_offset=start,
        disk=disk,
    )


def filled(directory: Path, batches: int, records: int = 2, **config) -> Log:
    log = opened(directory, **config)
    for number in range(batches):
        append(log, batch(log.log_end_offset, records, timestamp_ms=1000 + 10 * number))
    return log


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


# -- reading -----------------------------------------------------------------------------------------


def test_an_empty_log_starts_and_ends_at_0_and_reads_as_nothing(directory: Path) -> None:
    log = opened(directory)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point, log.size_bytes) == (0, 0, 0, 0)
    assert len(log.read(0, 1000, 0)) == 0
    assert log.read(0, 1000, 0).read() == b""
    assert find_time(log, 0, NEVER) is None
    assert max_timestamp(log) == (-1, -1)
    assert names(directory) == [f"{0:020d}{suffix}" for suffix in (".index", ".log", ".timeindex")]


def test_a_read_returns_the_appended_bytes(directory: Path) -> None:
    log = opened(directory)
    data = b"".join(batch(offset, 3) for offset in (0, 3, 6))
    for position, header in iter_headers(data):
        log.append(data[position : position + header.size_bytes], header, 1000)
    assert log.read(0, 1 << 20, NEVER).read() == data
    assert bytes(log.read(0, 1 << 20, NEVER).read_nowait() or b"") == data
    assert log.size_bytes == len(data)


def test_the_first_batch_comes_whole_even_where_it_exceeds_the_limit(directory: Path) -> None:
    log = opened(directory)
    large = batch(0, size=1000)
    append(log, large)
    append(log, batch(1))
    assert log.read(0, 10, NEVER).read() == large
    assert len(log.read(0, len(large) - 1, NEVER, minimum_one=False)) == 0
    assert log.read(0, len(large) + 10, NEVER, minimum_one=False).read()[: len(large)] == large
    assert len(log.read(0, 0, NEVER, minimum_one=False)) == 0


def test_a_read_at_a_segments_last_batch_ends_with_the_segment(directory: Path) -> None:
    log = filled(directory, 10, segment_bytes=200)
    first = read_header(log.read(0, 1 << 20, NEVER).read())
    assert len(log.read(0, 1 << 20, NEVER)) < log.size_bytes
    assert read_header(log.read(first.next_offset, 1 << 20, NEVER).read()).base_offset == first.next_offset


def test_a_read_from_the_middle_of_a_batch_gives_the_whole_batch(directory: Path) -> None:
    log = filled(directory, 3, records=5)
    for offset in range(5, 10):
        assert read_header(log.read(offset, 1 << 20, NEVER).read()).base_offset == 5


def test_nothing_at_or_past_up_to_is_read(directory: Path) -> None:
    log = filled(directory, 10, segment_bytes=400)
    for up_to in range(20):
        visible = [header.base_offset for _, header in iter_headers(log.read(0, 1 << 20, up_to).read())]
        assert all(base + 2 <= up_to for base in visible)
    assert len(log.read(8, 1 << 20, 8)) == 0
    assert len(log.read(12, 1 << 20, 8)) == 0


@pytest.mark.parametrize("offset", [-1, 3, 21, NEVER])
def test_a_read_outside_of_the_log_is_out_of_range(directory: Path, offset: int) -> None:
    log = filled(directory, 10)
    log.advance_log_start(4)
    with pytest.raises(OffsetOutOfRange, match=r"outside \[4, 20\]") as caught:
        log.read(offset, 100, NEVER)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_range_that_was_handed_out_outlives_its_segment_and_its_log(directory: Path) -> None:
    log = filled(directory, 10, segment_bytes=200)
    held = log.read(0, 1 << 20, NEVER)
    expected = held.read()
    log.advance_log_start(20)
    assert held.read() == expected
    log.set_aside()
    remove_directory(log.directory)
    assert held.read() == expected
    assert not directory.exists()


def test_a_corrupt_batch_is_an_error_for_its_readers_alone(directory: Path) -> None:
    log = filled(directory, 3)
    log.segments[-1]._last = None  # as if it had been opened so
    first, second = (read_header(log.read(offset, 1, NEVER).read()) for offset in (0, 2))
    with (log.directory / f"{0:020d}.log").open("r+b") as file:
        file.seek(first.size_bytes + 8)
        file.write(b"\0\0\0\1")
    for offset in range(second.base_offset, second.next_offset):
        with pytest.raises(CorruptBatch, match=rf"00000\.log at {first.size_bytes}: ") as caught:
            log.read(offset, 100, NEVER)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert len(log.read(0, 1 << 20, NEVER)) == first.size_bytes
    assert read_header(log.read(second.next_offset, 1, NEVER).read()).base_offset == second.next_offset


# -- appending and rolling ----------------------------------------------------------------------------


def test_offsets_cannot_go_back(directory: Path) -> None:
    log = filled(directory, 3)
    with pytest.raises(OffsetsNotMonotonic):
        append(log, batch(5))
    append(log, batch(6))
    assert log.log_end_offset == 7


def test_a_segment_is_full_at_segment_bytes(directory: Path) -> None:
    size = len(batch(0))
    log = opened(directory, segment_bytes=3 * size)
    for offset in range(7):
        append(log, batch(offset))
    assert [name for name in names(directory) if name.endswith(".log")] == [f"{o:020d}.log" for o in (0, 3, 6)]


def test_a_batch_larger_than_a_segment_is_refused(directory: Path) -> None:
    log = opened(directory, segment_bytes=100)
    with pytest.raises(BatchTooLarge) as caught:
        append(log, batch(0, size=200))
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 0


def test_a_segment_rolls_by_the_age_of_its_first_batchs_timestamp(directory: Path) -> None:
    log = opened(directory, segment_ms=500)
    append(log, batch(0, timestamp_ms=1000), now_ms=1000)
    append(log, batch(1, timestamp_ms=1500), now_ms=9000)
    assert len(log.segments) == 1
    append(log, batch(2, timestamp_ms=1501), now_ms=9000)
    assert len(log.segments) == 2


def test_a_segment_whose_records_have_no_timestamp_rolls_by_the_clock(directory: Path) -> None:
    log = opened(directory, segment_ms=500, now_ms=1000)
    append(log, batch(0, timestamp_ms=-1), now_ms=1000)
    append(log, batch(1, timestamp_ms=-1), now_ms=1500)
    assert len(log.segments) == 1
    append(log, batch(2, timestamp_ms=-1), now_ms=1501)
    assert len(log.segments) == 2


def test_a_segment_rolls_when_an_index_is_full(directory: Path) -> None:
    log = opened(directory, index_interval_bytes=0, segment_index_bytes=48)
    for offset in range(10):
        append(log, batch(offset, timestamp_ms=1000 + offset))
    # 48 bytes are 4 entries of the time index, one of them kept for the roll; the first batch has none.
    assert [segment.base_offset for segment in log.segments] == [0, 4, 8]
    assert all(path.stat().st_size <= 48 for path in directory.glob("*index"))


def test_a_segment_rolls_when_an_offset_would_not_fit_its_index(directory: Path) -> None:
    log = opened(directory)
    append(log, batch(0))
    append(log, batch(2**31 - 1))
    append(log, batch(2**31 + 5))
    append(log, batch(2**40))
    assert [segment.base_offset for segment in log.segments] == [0, 2**31, 2**40]
    assert [header.base_offset for header in headers_of(log)] == [0, 2**31 - 1, 2**31 + 5, 2**40]


def test_the_indexes_on_disk_follow_the_appends(directory: Path) -> None:
    log = opened(directory, index_interval_bytes=0)
    for offset in range(600):
        append(log, batch(offset, timestamp_ms=offset))
    sizes = {path.suffix: path.stat().st_size for path in directory.glob("*index")}
    assert sizes[".index"] >= 300 * 8
    assert sizes[".timeindex"] >= 300 * 12
    assert [log.read(offset, 1, NEVER).position for offset in range(0, 600, 7)] == [
        offset * len(batch(0)) for offset in range(0, 600, 7)
    ]


def test_an_empty_segment_gives_way_to_one_that_begins_where_it_must(directory: Path) -> None:
    log = opened(directory)
    append(log, batch(2**40))
    assert [name for name in names(directory) if name.endswith(".log")] == [f"{2**40:020d}.log"]
    assert len(read_all(log)) == log.size_bytes


def test_rolling_an_empty_segment_does_nothing(directory: Path) -> None:
    log = opened(directory)
    roll(log, 1000)
    assert len(log.segments) == 1


def test_many_old_segments_keep_few_files_open(directory: Path) -> None:
    log = filled(directory, 60, segment_bytes=100)
    log.flush()
    read_all(log)
    assert sum(segment._file is not None for segment in log.segments) == 8 + 1


# -- time -------------------------------------------------------------------------------------------


def test_find_time_gives_the_first_record_not_earlier(directory: Path) -> None:
    log = filled(directory, 50, records=3, segment_bytes=900, index_interval_bytes=100)
    stamps = [(1000 + 10 * number + i, 3 * number + i) for number in range(50) for i in range(3)]
    for timestamp in range(990, 1500):
        expected = next(((t, o, 0) for t, o in stamps if t >= timestamp), None)
        assert find_time(log, timestamp, NEVER) == expected


def test_find_time_sees_nothing_past_up_to_nor_before_the_start(directory: Path) -> None:
    log = filled(directory, 10)
    assert find_time(log, 1040, 8) is None
    assert find_time(log, 1040, 9) == (1040, 8, 0)
    log.advance_log_start(5)
    assert find_time(log, 0, NEVER) == (1021, 5, 0)


def test_max_timestamp_is_that_of_the_first_record_that_has_it(directory: Path) -> None:
    log = opened(directory, segment_bytes=300)
    for offset, timestamp in enumerate([5, 90, 7, 90, 8, 3, 2, 1, 1]):
        append(log, batch(offset, timestamp_ms=timestamp))
    assert max_timestamp(log) == (90, 1)
    log.close()
    assert max_timestamp(opened(directory, segment_bytes=300)) == (90, 1)


# -- flushing ----------------------------------------------------------------------------------------


def test_a_flush_moves_the_recovery_point(directory: Path) -> None:
    log = filled(directory, 5, flush_messages=4)
    assert (log.log_end_offset - log.recovery_point, log.flush_delay_ms(1000)) == (10, 0)
    log.flush(4)
    # An fsync takes the whole segment.
    assert (log.recovery_point, log.log_end_offset, log.flush_delay_ms(NEVER)) == (10, 10, None)
    append(log, batch(10))
    assert log.flush_delay_ms(NEVER) != 0
    log.flush()
    assert log.recovery_point == 11


def test_a_segment_that_has_grown_asks_for_a_flush(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(directory)
    size = len(batch(0))
    monkeypatch.setattr("odradek.storage.log.UNFLUSHED_BYTES", 3 * size)
    asked: list[bool] = []
    for n in range(6):
        append(log, batch(n))
        asked.append(log.flush_delay_ms(1000) == 0)
        if asked[-1]:
            log.flush(log.log_end_offset)
            assert log.flushed_bytes == (n + 1) * size
    assert asked == [False, False, True] * 2


def test_a_flush_of_finished_segments_leaves_the_newest_alone(directory: Path) -> None:
    log = filled(directory, 2)
    roll(log, 1000)
    append(log, batch(4))
    log.flush(4 - 1)
    assert (log.recovery_point, log.log_end_offset - log.recovery_point) == (3, 2)
    log.flush(4)
    assert log.recovery_point == 5


def test_flush_ms_counts_from_the_oldest_append_that_was_not_flushed(directory: Path) -> None:
    log = opened(directory, flush_ms=100)
    append(log, batch(0), now_ms=5000)
    append(log, batch(1), now_ms=5050)
    assert log.flush_delay_ms(5099) != 0
    assert log.flush_delay_ms(5100) == 0
    log.flush()
    assert log.flush_delay_ms(9000) != 0
    append(log, batch(2), now_ms=9000)
    assert log.flush_delay_ms(9099) != 0
    assert log.flush_delay_ms(9100) == 0


def test_a_roll_asks_for_a_flush_of_what_it_finished(directory: Path) -> None:
    log = filled(directory, 1)
    assert log.flush_delay_ms(1000) != 0
    roll(log, 1000)
    assert log.flush_delay_ms(1000) == 0
    log.flush(log.log_end_offset)
    assert log.flush_delay_ms(1000) != 0


def test_after_a_failed_fsync_the_log_takes_nothing_more(directory: Path) -> None:
    disk = FaultyDisk()
    log = opened(directory, disk=disk)
    append(log, batch(0))
    disk.fsync_fails = True
    with pytest.raises(DiskError, match="fsync"):
        log.flush()
    disk.fsync_fails = False
    assert log.recovery_point == 0
    for attempt in (lambda: append(log, batch(1)), log.flush, log.close):
        with pytest.raises(LogClosed, match="fsync"):
            attempt()
    assert len(log.read(0, 100, NEVER)) > 0


# -- full disks --------------------------------------------------------------------------------------


def test_a_full_disk_refuses_the_batch_and_the_log_goes_on_when_there_is_room(directory: Path) -> None:
    disk = FaultyDisk()
    log = opened(directory, disk=disk, index_interval_bytes=0)
    append(log, batch(0))
    for room in range(len(batch(1))):
        disk.room_bytes = room
        with pytest.raises(DiskError, match="No space") as caught:
            append(log, batch(1))
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert log.log_end_offset == 1
        assert (directory / f"{0:020d}.log").read_bytes() == read_all(log) == batch(0)
    disk.room_bytes = None
    append(log, batch(1))
    assert read_all(log) == batch(0) + batch(1)


def test_a_roll_on_a_full_disk_leaves_the_log_as_it_was(directory: Path) -> None:
    for room in range(100):
        disk = FaultyDisk()
        path = directory.with_name(f"topic-{room}")
        log = opened(path, disk=disk, segment_bytes=100, index_interval_bytes=0)
        append(log, batch(0))
        disk.room_bytes = room
        try:
            append(log, batch(1))
            expected = 2
        except DiskError:
            expected = 1
        disk.room_bytes = None
        assert log.log_end_offset == expected
        while log.log_end_offset < 4:
            append(log, batch(log.log_end_offset))
        assert [header.base_offset for header in headers_of(log)] == [0, 1, 2, 3]
        disk.kill()
        assert [header.base_offset for header in headers_of(opened(path, clean=False, disk=disk))] == [0, 1, 2, 3]


def test_a_batch_that_can_neither_be_written_nor_cut_off_closes_the_log(directory: Path) -> None:
    disk = FaultyDisk()
    log = opened(directory, disk=disk)
    append(log, batch(0))
    disk.room_bytes, disk.truncate_fails = 30, True
    with pytest.raises(TornWrite, match="torn batch"):
        append(log, batch(1))
    disk.room_bytes, disk.truncate_fails = None, False
    with pytest.raises(LogClosed):
        append(log, batch(1))
    assert read_all(log) == batch(0)
    with pytest.raises(LogClosed):
        log.close()
    again = opened(directory, clean=True, disk=disk)
    assert read_all(again) == batch(0)
    assert [cut.size for cut in again.recovery.cuts] == [30]


# -- the log's start ---------------------------------------------------------------------------------


def test_advancing_the_start_removes_whole_segments_below_it(directory: Path) -> None:
    log = filled(directory, 10, segment_bytes=200)
    log.advance_log_start(9)
    assert log.log_start_offset == 9
    assert log.segments[0].base_offset == 8
    log.advance_log_start(5)
    assert log.log_start_offset == 9
    with pytest.raises(OffsetOutOfRange):
        log.advance_log_start(21)
    log.advance_log_start(20)
    assert len(log.read(20, 100, NEVER)) == 0
    assert log.epochs.entries == ((0, 20),)


def test_a_start_beyond_the_end_begins_an_empty_log_there(directory: Path) -> None:
    filled(directory, 3).close()
    log = opened(directory, start=50)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (50, 50, 0)
    append(log, batch(50))


# -- opening again -----------------------------------------------------------------------------------


def test_closing_twice_is_fine_and_a_closed_log_takes_nothing(directory: Path) -> None:
    log = filled(directory, 1)
    log.close()
    log.close()
    with pytest.raises(LogClosed, match="is closed"):
        append(log, batch(2))


def test_reopening_without_a_write_changes_no_file(directory: Path) -> None:
    filled(directory, 100, segment_bytes=3000, index_interval_bytes=300).close()
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    opened(directory).close()
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_a_log_set_aside_frees_its_name_at_once(directory: Path) -> None:
    old, new = filled(directory, 3), None
    old.set_aside()
    new = filled(directory, 1)
    new.set_aside()
    assert not directory.exists()
    assert {path.name for path in directory.parent.iterdir()} == {"topic-0.0-delete", "topic-0.1-delete"}
    remove_directory(old.directory)
    remove_directory(directory.parent / "topic-0.1-delete")
    assert list(directory.parent.iterdir()) == []


def test_a_log_of_the_longest_name_can_be_set_aside(tmp_path: Path) -> None:
    for number in range(2):
        log = Log.open(tmp_path / f"{'n' * 249}-0", LogConfig(), clean=True, now_ms=0)
        log.set_aside()
        assert log.directory.name.endswith(f".{number}-delete")


def test_a_log_that_is_reconfigured_goes_by_the_new_config_from_the_next_append_on(tmp_path: Path) -> None:
    log = Log.open(tmp_path, LogConfig(), clean=False, now_ms=0)
    for offset in (0, 1):
        append(log, batch(offset, size=100))
    assert log.flush_delay_ms(0) != 0
    log.config = LogConfig(segment_bytes=250, flush_messages=2)
    assert log.flush_delay_ms(0) == 0
    append(log, batch(2, size=100))
    assert sorted(each.name for each in tmp_path.glob("*.log"))[-1] == "00000000000000000002.log"
    log.close()


@pytest.mark.parametrize("seed", range(8))
def test_a_clean_segment_hides_no_dirty_one_from_a_flush(directory: Path, seed: int) -> None:
    """The cleaner writes segments that are on disk already, also behind ones that are not."""
    disk = FaultyDisk()
    log = opened(directory, disk=disk, segment_bytes=200)
    while len(log.segments) < 4:
        append(log, batch(log.log_end_offset))
    old, size = log.segments[1], log.segments[1].size
    for path in directory.glob(f"{old.base_offset:020d}.*"):
        copy = disk.open(path.with_name(path.name + ".cleaned"), create=True)
        disk.write(copy, path.read_bytes(), 0)
        disk.fsync(copy)
    swap.prepare(directory, old.base_offset, disk)
    log.replace_segments((old,), old.base_offset, size, 0, 1000)
    log.flush()
    whole, end, point = read_all(log), log.log_end_offset, log.recovery_point
    assert point == end
    disk.kill()
    disk.lose(seed)
    again = opened(directory, clean=False, disk=disk, segment_bytes=200, point=point)
    assert again.recovery.damages == []
    assert (read_all(again), again.log_end_offset) == (whole, end)
