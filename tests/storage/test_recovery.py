from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from odradek.protocol.records.batch import iter_headers, read_header
from odradek.storage.errors import CorruptBatch, DiskError
from odradek.storage.files import DISK
from odradek.storage.log import Log, LogConfig
from odradek.storage.segments.names import segment_name
from odradek.storage.segments.segment_list import OPEN_OLD_SEGMENTS
from odradek.tests.storage.batches import NEVER, append, batch, find_time, flip, headers_of, read_all, roll
from odradek.tests.support.disks.disk import FaultyDisk, PowerCut

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)


def opened(directory: Path, *, clean: bool = False, point: int = 0, start: int = 0, disk=DISK) -> Log:
    return Log.open(
        directory, CONFIG, clean=clean, now_ms=1000, recovery_point=point, log_start_offset=start, disk=disk
    )


def written(directory: Path, batches: int) -> list[bytes]:
    """Write so many batches of an idempotent producer, and leave without a word; return them."""
    log = opened(directory)
    all_batches = expected_batches(batches, size=10)
    for data in all_batches:
        append(log, data)
    log.epochs.save()
    return all_batches


def log_file(directory: Path, base_offset: int = 0) -> Path:
    return directory / f"{segment_name(base_offset)}.log"


def check_whole(log: Log, batches: list[bytes]) -> None:
    """The log is these batches by content, by look-ups of offset and time, in producers and epochs; and it goes on."""
    end = len(batches)
    assert log.log_end_offset == end
    assert read_all(log) == b"".join(batches)
    for offset in range(end):
        assert read_header(log.read(offset, 1, NEVER).read()).base_offset == offset
        assert find_time(log, 1000 + offset, NEVER) == (1000 + offset, offset, offset // 4)
    producer = log.producers.get(3)
    assert (producer.last_sequence if producer else -1) == end - 1
    assert log.epochs.entries == tuple((n // 4, n) for n in range(0, end, 4))
    append(log, batch(end, producer_id=3, sequence=end, timestamp_ms=1000 + end, leader_epoch=end // 4))
    assert log.log_end_offset == end + 1


def test_the_files_that_a_start_has_checked_do_not_stay_open(tmp_path: Path) -> None:
    """Each start after a crash checks everything since the last checkpoint, which may be thousands of segments."""
    end = len(written(tmp_path, 200))
    log = opened(tmp_path)
    segments = log._segments  # pyright: ignore[reportPrivateUsage]
    checked = len(segments.all)
    assert sum(each.is_open for each in segments.all) == checked > 30, "what waits for its fsync keeps its descriptor"
    log.flush()
    for offset in range(end, end + 4):
        append(log, batch(offset))
    assert len(segments.all) > checked
    assert sum(each.is_open for each in segments.all) <= OPEN_OLD_SEGMENTS + 1


# -- torn ends -----------------------------------------------------------------------------------------


def test_a_log_cut_at_any_byte_keeps_every_whole_batch(tmp_path: Path) -> None:
    batches = written(tmp_path / "whole-0", 3)
    content = b"".join(batches)
    ends = [len(b"".join(batches[:count])) for count in range(4)]
    for size in range(len(content) + 1):
        directory = tmp_path / f"cut-{size}"
        directory.mkdir()
        log_file(directory).write_bytes(content[:size])
        log = opened(directory)
        whole = sum(end <= size for end in ends) - 1
        assert log.recovery.checked_bytes == ends[whole]
        assert [cut.size for cut in log.recovery.cuts] == ([size - ends[whole]] if size > ends[whole] else [])
        check_whole(log, batches[:whole])


TAILS: dict[str, Callable[[bytes], bytes]] = {
    "zeros": lambda data: bytes(500),
    "garbage": lambda data: random.Random(1).randbytes(500),
    "a batch with a flipped bit": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "a batch with a flipped bit and sound ones behind it": lambda data: data[:-1] + bytes([data[-1] ^ 1]) + batch(6),
    "a batch of magic 1": lambda data: data[:16] + b"\1" + data[17:],
    "an old offset": lambda data: batch(4),
    "a negative length": lambda data: data[:8] + b"\xff\xff\xff\xff" + data[12:],
    "a length too large": lambda data: data[:8] + b"\x7f\xff\xff\xff" + data[12:],
    "one byte": lambda data: data[:1],
}


@pytest.mark.parametrize("tail", TAILS)
def test_any_torn_tail_is_cut_off(tmp_path: Path, tail: str) -> None:
    batches = written(tmp_path, 5)
    newest = sorted(tmp_path.glob("*.log"))[-1]
    end = newest.stat().st_size
    garbage = TAILS[tail](batch(5, producer_id=3, sequence=5))
    with newest.open("ab") as file:
        file.write(garbage)
    log = opened(tmp_path)
    (cut,) = log.recovery.cuts
    assert (cut.path, cut.position, cut.size) == (newest, end, len(garbage))
    assert cut.why and ("; whole batches from " in cut.why) is ("sound ones behind" in tail)
    assert newest.name in log.recovery.lines()[0]
    assert newest.stat().st_size == end
    check_whole(log, batches)


def test_after_a_cut_later_segments_go(tmp_path: Path) -> None:
    batches = written(tmp_path, 20)
    segments = sorted(tmp_path.glob("*.log"))
    assert len(segments) >= 4
    with segments[1].open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\xff")
    kept = int(segments[2].stem) - 1
    log = opened(tmp_path)
    assert sorted(tmp_path.glob("*.log")) == segments[:2]
    assert [cut.path for cut in log.recovery.cuts] == [segments[1], *reversed(segments[2:])]
    check_whole(log, batches[:kept])


# -- the recovery point --------------------------------------------------------------------------------


@pytest.mark.parametrize("point", range(21))
def test_only_batches_from_the_recovery_point_on_are_checked(tmp_path: Path, point: int) -> None:
    batches = written(tmp_path, 20)
    log = opened(tmp_path, point=point)
    assert log.recovery.checked_bytes == sum(len(data) for data in batches[point:])
    assert log.recovery_point == point
    check_whole(log, batches)


def test_a_bad_batch_below_the_recovery_point_is_not_searched_for_but_named_when_it_is_read(tmp_path: Path) -> None:
    written(tmp_path, 20)
    with log_file(tmp_path).open("r+b") as file:
        file.seek(8)
        file.write(b"\0\0\0\0")
    log = opened(tmp_path, point=15)
    assert log.recovery.cuts == log.recovery.damages == []
    with pytest.raises(CorruptBatch):
        log.read(0, 100, NEVER)
    assert len(log.read(15, 100, NEVER)) > 0


def test_a_log_that_ends_before_its_recovery_point_gives_no_offset_twice(tmp_path: Path) -> None:
    batches = written(tmp_path, 20)
    log = opened(tmp_path, point=1000)
    assert (log.log_end_offset, log.recovery_point) == (1000, 1000)
    assert log.recovery.lines() == ["ends at offset 20, though all up to 1000 had been forced to disk"]
    assert log.read(0, 1 << 20, NEVER).read() == b"".join(batches[: log.segments[1].base_offset])
    for offset in (20, 999):
        with pytest.raises(CorruptBatch, match="missing"):
            log.read(offset, 1, NEVER)
    append(log, batch(1000))
    assert read_header(log.read(1000, 1, NEVER).read()).base_offset == 1000


# -- indexes and leftovers -----------------------------------------------------------------------------


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "not whole entries": lambda path: path.write_bytes(path.read_bytes() + b"\1"),
    "too long, zeros as Kafka preallocates": lambda path: path.write_bytes(path.read_bytes() + bytes(24 * 50)),
    "garbage": lambda path: path.write_bytes(b"\xff" * 24),
}


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_index_is_built_again(tmp_path: Path, suffix: str, damage: str, clean: bool) -> None:
    batches = written(tmp_path, 30)
    opened(tmp_path).close()
    for index in tmp_path.glob(f"*{suffix}"):
        DAMAGES[damage](index)
    check_whole(opened(tmp_path, clean=clean, point=30), batches)


def test_a_clean_marker_over_a_torn_end_is_not_believed(tmp_path: Path) -> None:
    batches = written(tmp_path, 5)
    log = opened(tmp_path)
    log.close()
    newest = sorted(tmp_path.glob("*.log"))[-1]
    with newest.open("ab") as file:
        file.write(b"torn")
    log = opened(tmp_path, clean=True)
    assert not log.recovery.clean
    check_whole(log, batches)


def test_leftovers_are_removed_and_unknown_files_stay(tmp_path: Path) -> None:
    batches = written(tmp_path, 3)
    for name in (
        "00000000000000000007.log.deleted",
        "00000000000000000009.index",
        "x.tmp",
        f"{segment_name(0)}.log.cleaned",
    ):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "partition.metadata").write_bytes(b"version: 0\ntopic_id: x")
    (tmp_path / "123.log").write_bytes(b"not ours")
    log = opened(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"{segment_name(0)}{suffix}" for suffix in (".log", ".index", ".timeindex")} | {
        "leader-epoch-checkpoint",
        "partition.metadata",
        "123.log",
    }
    check_whole(log, batches)


def test_a_roll_that_was_cut_short_hides_nothing(tmp_path: Path) -> None:
    batches = written(tmp_path, 5)
    log_file(tmp_path, 3).write_bytes(b"")
    for clean in (False, True):
        assert opened(tmp_path, clean=clean).log_end_offset == 5
    check_whole(opened(tmp_path), batches)


# -- stopping at every step -----------------------------------------------------------------------------


def workload(directory: Path, disk: FaultyDisk, progress: list[int], point: list[int]) -> None:
    """Append, roll and flush; `progress` counts the batches that were answered, `point` the flushed ones."""
    log = opened(directory, disk=disk)
    for number, data in enumerate(expected_batches(8)):
        append(log, data)
        progress[0] += 1
        if number in (1, 5):
            log.flush()
            point[0] = log.recovery_point
    log.close()
    point[0] = log.recovery_point


def expected_batches(count: int, size: int = 60) -> list[bytes]:
    return [
        batch(n, size=size, producer_id=3, sequence=n, timestamp_ms=1000 + n, leader_epoch=n // 4) for n in range(count)
    ]


def moments(directory: Path) -> list[int]:
    """Where to stop: at each operation of the workload, and in the middle and at the last byte of each write."""
    marks = stopped(directory, None)[0].marks
    spans = pairwise(marks)
    return sorted({step for start, end in spans for step in (start, (start + end) // 2, end - 1)})


def stopped(directory: Path, steps: int | None) -> tuple[FaultyDisk, int, int]:
    disk, progress, point = FaultyDisk(), [0], [0]
    if steps is not None:
        disk.stop_after(steps)
    with suppress(PowerCut):
        workload(directory, disk, progress, point)
    return disk, progress[0], point[0]


@pytest.mark.parametrize("has_power", [True, False], ids=["a kill", "a power cut"])
def test_a_stop_at_every_step_loses_nothing_that_was_promised(tmp_path: Path, has_power: bool) -> None:
    """A kill loses nothing that was answered, a power cut nothing that was flushed."""
    for steps in moments(tmp_path / "count"):
        directory = tmp_path / str(steps)
        disk, answered, point = stopped(directory, steps)
        if has_power:
            disk.kill()
        else:
            disk.lose(seed=steps)
        log = opened(directory, point=point, disk=disk)
        assert (answered if has_power else point) <= log.log_end_offset <= answered + 1
        # What a segment lost of its end, though a later segment is there, was not flushed.
        assert not log.recovery.gaps or not has_power
        assert all(first >= point for first, _ in log.recovery.gaps)
        if not log.recovery.gaps:
            check_whole(log, expected_batches(log.log_end_offset))


def test_a_flush_forces_segments_to_disk_from_the_oldest_on(tmp_path: Path) -> None:
    def filled(directory: Path) -> tuple[FaultyDisk, Log]:
        disk = FaultyDisk()
        log = opened(directory, disk=disk)
        for number in range(12):
            append(log, batch(number, size=60))
        return disk, log

    disk, log = filled(tmp_path)
    segments = [each.path(".log") for each in log.segments]
    assert len(segments) >= 4
    before = len(disk.marks)
    log.flush()
    fsyncs = len(disk.marks) - before
    for allowed in range(1, fsyncs):
        directory = tmp_path / str(allowed)
        disk, log = filled(directory)
        disk.stop_after(allowed)
        with suppress(PowerCut):
            log.flush()
        on_disk = [bool(disk.platter(directory / path.name)) for path in segments]
        assert on_disk == sorted(on_disk, reverse=True), "an older segment is not on disk, and a newer one is"


@pytest.mark.parametrize("moment", range(4))
@pytest.mark.parametrize("appends", [0, 2, 5])
def test_appends_and_rolls_during_a_flush_do_not_move_the_recovery_point_back(
    tmp_path: Path, moment: int, appends: int
) -> None:
    for seed in range(4):
        directory, disk = tmp_path / str(seed), FaultyDisk()
        log = opened(directory, disk=disk)
        calls = 0

        def meanwhile(log: Log = log) -> None:
            nonlocal calls
            calls += 1
            if calls == moment + 1:
                roll(log, 1000)
                for _ in range(appends):
                    append(log, expected_batches(log.log_end_offset + 1)[-1])

        for data in expected_batches(2):
            append(log, data)
        disk.during_fsync = meanwhile
        log.flush()
        disk.during_fsync = None
        point = log.recovery_point
        assert point == 2
        below = [segment for segment in log.segments if segment.is_sealed and segment.base_offset < point]
        assert not any(segment.is_dirty for segment in below)
        end = log.log_end_offset
        disk.lose(seed)
        log = opened(directory, point=point, disk=disk)
        assert point <= log.log_end_offset <= end
        check_whole(log, expected_batches(log.log_end_offset))


@pytest.mark.parametrize("checkpoint", ["before the roll", "after the roll", "after the next flush"])
def test_a_segment_that_was_rolled_after_its_flush_keeps_its_indexes(tmp_path: Path, checkpoint: str) -> None:
    for seed in range(20):
        directory, disk = tmp_path / str(seed), FaultyDisk()
        log = opened(directory, disk=disk)
        for data in expected_batches(3):
            append(log, data)
        log.flush()
        point = log.checkpoint() if checkpoint == "before the roll" else 0
        roll(log, 1000)
        append(log, expected_batches(4)[-1])
        if checkpoint == "after the next flush":
            log.flush()
        if checkpoint != "before the roll":
            point = log.checkpoint()
        assert point == {"before the roll": 3, "after the roll": 2, "after the next flush": 4}[checkpoint]
        disk.lose(seed)
        log = opened(directory, point=point, disk=disk)
        assert log.recovery.damages == []
        check_whole(log, expected_batches(log.log_end_offset))


def test_a_roll_behind_a_flush_waits_for_no_fsync(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = opened(tmp_path, disk=disk)
    for number, data in enumerate(expected_batches(12)):
        disk.fsync_fails = True  # for an append that waits for one
        append(log, data)
        disk.fsync_fails = False
        log.flush()
        assert log.recovery_point == number + 1
    assert len(log.segments) > 3
    assert not any(each.is_dirty for each in log.segments)


def test_batches_that_recovery_cut_off_do_not_come_back_after_a_clean_stop(tmp_path: Path) -> None:
    for seed in range(20):
        directory, disk = tmp_path / str(seed), FaultyDisk()
        batches = written(directory, 2)
        with log_file(directory).open("ab") as file:
            file.write(bytes(100))
        opened(directory, point=2, disk=disk).close()
        disk.lose(seed)
        log = opened(directory, clean=True)
        assert log.recovery.clean
        check_whole(log, batches)


def test_a_recovery_that_is_itself_cut_short_can_be_done_again(tmp_path: Path) -> None:
    batches = written(tmp_path / "source", 20)
    segments = {path.name: path.read_bytes() for path in (tmp_path / "source").iterdir()}
    victim = sorted(name for name in segments if name.endswith(".log"))[2]
    kept = int(victim[:20])
    for steps in range(0, 400, 13):
        directory = tmp_path / str(steps)
        directory.mkdir()
        for name, content in segments.items():
            (directory / name).write_bytes(content if name != victim else b"torn" + content)
        disk = FaultyDisk()
        disk.stop_after(steps)
        with suppress(PowerCut):
            opened(directory, disk=disk)
        disk.kill()
        assert [header.base_offset for header in headers_of(opened(directory, disk=disk))] == list(range(kept))
        check_whole(opened(directory), batches[:kept])


def test_a_start_does_not_believe_what_a_failed_fsync_left_in_the_page_cache(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = opened(tmp_path, disk=disk)
    batches = expected_batches(3)
    for data in batches[:2]:
        append(log, data)
    log.flush()
    append(log, batches[2])
    disk.fsync_fails = True
    with pytest.raises(DiskError):
        log.flush()
    disk.kill()
    log = opened(tmp_path, point=2, disk=disk)
    # The batch was still in the page cache, but the disk never got it.
    assert log.log_end_offset == 2
    append(log, batches[2])
    log.flush()
    disk.lose(0)
    check_whole(opened(tmp_path, point=3, disk=disk), batches)


# -- Gaps --------------------------------------------------------------------------------------------------------------


def with_gaps(directory: Path) -> list[bytes]:
    """Make a log as Kafka's cleaner leaves it: its closed segments end before the next one begins."""
    batches = written(directory, 20)
    kept = list(batches)
    paths = sorted(directory.glob("*.log"))
    for path, following in pairwise(paths):
        last = int(following.stem) - 1
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - len(batches[last]))
        kept.remove(batches[last])
        for suffix in (".index", ".timeindex"):
            path.with_suffix(suffix).unlink(missing_ok=True)
    assert len(paths) >= 4
    return kept


@pytest.mark.parametrize("point", [-1, 0, 5, 20])
def test_gaps_between_segments_stay(tmp_path: Path, point: int) -> None:
    kept = with_gaps(tmp_path)
    for _ in range(2):
        log = opened(tmp_path, point=point)
        assert (log.recovery.cuts, log.recovery.damages, log.log_end_offset) == ([], [], 20)
        assert point == 20 or len(log.recovery.gaps) >= 2
        assert point == 20 or "holds nothing from offset" in log.recovery.lines()[0]
        assert read_all(log) == b"".join(kept)
    log.flush()
    assert opened(tmp_path, point=20).recovery.gaps == []


@pytest.mark.parametrize("point", [-1, 0, 3, 9])
def test_gaps_in_a_segment_stay(tmp_path: Path, point: int) -> None:
    log = Log.open(tmp_path, LogConfig(), clean=False, now_ms=1000)
    kept = [batch(n) for n in (0, 3, 4, 9, 17)]
    for data in kept:
        append(log, data)
    log = opened(tmp_path, point=point)
    assert (log.recovery.cuts, log.recovery.damages, log.log_end_offset) == ([], [], 18)
    assert read_all(log) == b"".join(kept)


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_ends_where_its_empty_newest_segment_begins(tmp_path: Path, clean: bool) -> None:
    # Kafka has rolled, and its cleaner has left out the last records before.
    kept = with_gaps(tmp_path)
    newest = sorted(tmp_path.glob("*.log"))[-1]
    first = int(newest.stem)
    newest.write_bytes(b"")
    for name in (".index", ".timeindex"):
        newest.with_suffix(name).unlink(missing_ok=True)
    log = opened(tmp_path, point=-1)
    assert log.log_end_offset == first
    assert (first - 1, first) in log.recovery.gaps
    for _ in range(2):
        log.close()
        log = opened(tmp_path, point=first, clean=clean)
        assert (log.log_end_offset, log.recovery.damages, log.recovery.missing) == (first, [], None)
    append(log, batch(first))
    assert read_all(log) == b"".join(each for each in kept if read_header(each).base_offset < first) + batch(first)


# -- No recovery point -------------------------------------------------------------------------------------------------


def break_batch(directory: Path, offset: int) -> Path:
    """Flip a bit in the body of the batch at `offset`; return its file."""
    path = [each for each in sorted(directory.glob("*.log")) if int(each.stem) <= offset][-1]
    (position,) = (at for at, header in iter_headers(path.read_bytes()) if header.base_offset == offset)
    flip(path, position + 70)
    return path


@pytest.mark.parametrize("offset", range(19))
def test_without_a_recovery_point_a_bad_batch_costs_itself_and_no_other(tmp_path: Path, offset: int) -> None:
    batches = written(tmp_path, 20)
    path = break_batch(tmp_path, offset)
    log = opened(tmp_path, point=-1)
    assert log.log_end_offset == 20
    assert [(each.path, each.size) for each in log.recovery.damages] == [(path, len(batches[offset]))]
    assert log.recovery.cuts == []
    for each in range(20):
        if each == offset:
            with pytest.raises(CorruptBatch):
                log.read(each, 1, NEVER)
        else:
            assert log.read(each, 1, NEVER).read() == batches[each]
    append(log, batch(20))
    assert log.read(20, 1, NEVER).read() == batch(20)


def test_without_a_recovery_point_the_torn_end_is_cut(tmp_path: Path) -> None:
    batches = written(tmp_path, 20)
    newest = break_batch(tmp_path, 19)
    log = opened(tmp_path, point=-1)
    assert [cut.path for cut in log.recovery.cuts] == [newest]
    check_whole(log, batches[:19])


def test_after_a_clean_stop_without_a_recovery_point_a_broken_end_gives_no_offset_away_again(tmp_path: Path) -> None:
    written(tmp_path, 20)
    opened(tmp_path).close()
    break_batch(tmp_path, 19)
    log = opened(tmp_path, point=-1, clean=True)
    assert (log.log_end_offset, log.recovery.cuts) == (20, [])
    with pytest.raises(CorruptBatch):
        log.read(19, 1, NEVER)


def with_torn_end(directory: Path, sound: int, newer: list[bytes]) -> Path:
    """Write a segment of `sound` batches and a torn one, and newer segments from offset 5 on; return the torn file."""
    directory.mkdir(exist_ok=True)
    log_file(directory).write_bytes(b"".join(batch(n) for n in range(3)))
    log_file(directory, 3).write_bytes(b"".join(batch(3 + n) for n in range(sound)) + batch(3 + sound)[:37])
    for offset, content in enumerate(newer, 5):
        log_file(directory, offset).write_bytes(content)
    return log_file(directory, 3)


@pytest.mark.parametrize("sound", [0, 1])
def test_without_a_recovery_point_a_torn_end_is_cut_behind_which_no_segment_holds_anything_sound(
    tmp_path: Path, sound: int
) -> None:
    wrong_crc = batch(5)[:-1] + b"\xff"
    newer_ones = [b""], [bytes(78)], [batch(5)[:40]], [wrong_crc], [b"", bytes(78)], [bytes(9), b""], [wrong_crc, b"x"]
    for number, newer in enumerate(newer_ones):
        directory = tmp_path / str(number)
        torn = with_torn_end(directory, sound, newer)
        end, rolled_to = 3 + sound, 4 + len(newer)
        log = opened(directory, point=-1)
        assert (torn, 37) in [(cut.path, cut.size) for cut in log.recovery.cuts]
        # The names tell which offsets had been assigned.
        assert (log.log_end_offset, log.recovery.damages, log.recovery.gaps) == (rolled_to, [], [(end, rolled_to)])
        append(log, batch(rolled_to))
        log.flush()
        assert read_all(log) == b"".join(batch(n) for n in (*range(end), rolled_to))
        again = opened(directory, point=-1)
        assert (again.log_end_offset, again.recovery.cuts, again.recovery.damages) == (rolled_to + 1, [], [])


@pytest.mark.parametrize("newer", [[batch(5)], [bytes(78), batch(6)], [batch(5), b"torn"], [b"torn" + batch(5)]])
def test_without_a_recovery_point_a_torn_end_stays_before_a_sound_batch(tmp_path: Path, newer: list[bytes]) -> None:
    torn = with_torn_end(tmp_path, 1, newer)
    log = opened(tmp_path, point=-1)
    assert log.recovery.damages[0][:3] == (torn, len(batch(3)), len(batch(3)) + 37)
    assert torn not in [cut.path for cut in log.recovery.cuts]
    with pytest.raises(CorruptBatch):
        log.read(4, 1, NEVER)
    first = next(5 + at for at, content in enumerate(newer) if batch(5 + at) in content)
    assert log.read(first, 1, NEVER).read() == batch(first)
