"""Damage where no crash explains it: it is named with its place, nothing is cut for it, and all around it is served."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import read_header
from odradek.storage.errors import CorruptBatch
from odradek.storage.log import Log, LogConfig
from odradek.storage.segments.names import segment_name
from odradek.tests.storage.batches import NEVER, append, batch, find_time, flip, roll
from odradek.tests.support.seeds import IS_SOAK, examples

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200)
# All in one segment.
WIDE = LogConfig(segment_bytes=1 << 20, index_interval_bytes=200)
COUNT = 24


def opened(directory: Path, *, clean: bool = False, point: int = COUNT, config: LogConfig = CONFIG) -> Log:
    return Log.open(directory, config, clean=clean, now_ms=1000, recovery_point=point)


def written(directory: Path, *, config: LogConfig = CONFIG) -> dict[int, bytes]:
    """A log of so many batches, closed cleanly; they by offset."""
    log = opened(directory, point=0, config=config)
    batches = {n: batch(n, timestamp_ms=1000 + n, producer_id=3, sequence=n) for n in range(COUNT)}
    for data in batches.values():
        append(log, data)
    log.close()
    return batches


def logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def damage(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def served(log: Log, batches: dict[int, bytes]) -> set[int]:
    """The offsets that are served, each as it was written; the others are refused as they should be."""
    found: set[int] = set()
    for offset in range(COUNT):
        try:
            data = log.read(offset, 1, NEVER).read()
        except CorruptBatch as error:
            assert error.code is ErrorCode.CORRUPT_MESSAGE
            assert error.path in logs(log.directory)
        else:
            assert data == batches[offset]
            found.add(offset)
    return found


def where(directory: Path, offset: int, size: int) -> tuple[Path, int]:
    """File and position of a batch; all have the same size."""
    path = [each for each in logs(directory) if int(each.stem) <= offset][-1]
    return path, (offset - int(path.stem)) * size


@settings(max_examples=examples(60), deadline=None)
@given(offset=st.integers(0, COUNT - 1), field=st.sampled_from([8, 16, 0, 23]), clean=st.booleans(), wide=st.booleans())
def test_a_header_that_does_not_read_costs_its_batch_and_no_other(
    offset: int, field: int, clean: bool, wide: bool
) -> None:
    config = WIDE if wide else CONFIG
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "t-0"
        batches = written(directory, config=config)
        path, position = where(directory, offset, len(batches[0]))
        damage(path, position + field, b"\xff\xff\xff\xff")
        for _ in range(2):
            log = opened(directory, clean=clean, config=config)
            assert log.recovery.cuts == []
            assert served(log, batches) == set(range(COUNT)) - {offset}
            assert log.log_end_offset == COUNT
            for each in log.recovery.damages:
                assert (each.path, each.position, each.size) == (path, position, len(batches[0]))
        append(log, batch(COUNT, producer_id=3, sequence=COUNT))
        log.close()
        log = opened(directory, clean=True, config=config)
        assert served(log, batches) == set(range(COUNT)) - {offset}
        assert read_header(log.read(COUNT, 1, NEVER).read()).base_offset == COUNT


def test_a_range_that_is_read_ends_before_the_damage(tmp_path: Path) -> None:
    batches = written(tmp_path)
    path, position = where(tmp_path, 3, len(batches[0]))
    damage(path, position + 8, b"\0\0\0\0")
    log = opened(tmp_path)
    with pytest.raises(CorruptBatch):
        log.read(3, 1 << 20, NEVER)
    assert log.read(0, 1 << 20, NEVER).read() == batches[0] + batches[1] + batches[2]
    assert log.read(4, 1, NEVER).read() == batches[4]


def test_the_newest_segment_is_named_at_the_start_and_kept(tmp_path: Path) -> None:
    batches = written(tmp_path)
    path, position = where(tmp_path, COUNT - 2, len(batches[0]))
    damage(path, position + 8, b"\0\0\0\0")
    before = path.read_bytes()
    log = opened(tmp_path)
    (found,) = log.recovery.damages
    assert (found.path, found.position, found.size) == (path, position, len(batches[0]))
    (line,) = log.recovery.lines()
    assert line.startswith(f"{path} is damaged at {position}: ")
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"\0", b"\xa5"], ids=["cut off", "zeros", "garbage"])
def test_a_log_without_a_sound_batch_goes_on_at_the_recovery_point_in_a_new_segment(
    tmp_path: Path, content: bytes
) -> None:
    batches = written(tmp_path)
    path, position = where(tmp_path, COUNT - 2, len(batches[0]))
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(position + 10)
        file.seek(position + 10)
        file.write(content * (size - position - 30))
    before = path.read_bytes()
    for clean in (True, False):
        log = opened(tmp_path, clean=clean)
        assert [(each.position, each.end) for each in log.recovery.damages] == [(position, len(before))]
        assert served(log, batches) == set(range(COUNT - 2))
        assert log.log_end_offset == log.recovery_point == COUNT
    append(log, batch(COUNT, producer_id=3, sequence=COUNT))
    assert logs(tmp_path)[-1].stem == segment_name(COUNT)
    log.close()
    log = opened(tmp_path, clean=True, point=COUNT + 1)
    assert log.recovery.clean
    assert path.read_bytes() == before
    assert served(log, batches) == set(range(COUNT - 2))
    assert read_header(log.read(COUNT, 1, NEVER).read()).base_offset == COUNT


def test_batches_behind_damage_across_the_recovery_point_are_cut(tmp_path: Path) -> None:
    batches = written(tmp_path, config=WIDE)
    size = len(batches[0])
    damage(logs(tmp_path)[0], 9 * size, bytes(2 * size))
    log = opened(tmp_path, point=10, config=WIDE)
    assert [(each.position, each.end) for each in log.recovery.damages] == [(9 * size, 11 * size)]
    assert [(each.position, each.size) for each in log.recovery.cuts] == [(11 * size, (COUNT - 11) * size)]
    assert (log.log_end_offset, log.recovery_point) == (10, 10)
    append(log, batches[10])
    assert log.read(10, 1, NEVER).read() == batches[10]
    with pytest.raises(CorruptBatch):
        log.read(9, 1, NEVER)


def test_replaying_stops_at_damage_or_is_told_of_it(tmp_path: Path) -> None:
    batches = written(tmp_path)
    path, position = where(tmp_path, 4, len(batches[0]))
    damage(path, position + 8, b"\0\0\0\0")
    log = opened(tmp_path)
    with pytest.raises(CorruptBatch, match=f"{path} at {position}: "):
        list(log.iter_batches(0))
    passed: list[tuple[Path, int]] = []
    found = log.iter_batches(2, lambda each: passed.append((each.path, each.position)))
    assert [header.base_offset for header, _ in found] == [2, 3, *range(5, COUNT)]
    assert passed == [(path, position)]


def test_an_index_entry_may_stand_for_several_batches(tmp_path: Path) -> None:
    """Kafka's cleaner and followers append several batches at once: the entry names the last offset of the last one."""
    batches = written(tmp_path, config=WIDE)
    size = len(batches[0])
    entries = [struct.pack(">ii", first + 2, first * size) for first in range(3, COUNT, 3)]
    logs(tmp_path)[0].with_suffix(".index").write_bytes(b"".join(entries))
    log = opened(tmp_path, clean=True, config=WIDE)
    log.segments[0].find(0)  # the first look-up opens the files
    found = [log.segments[0].find(offset, cached=True) for offset in range(COUNT)]
    assert [place and place[0] for place in found] == [offset * size for offset in range(COUNT)]


def test_times_are_found_around_it(tmp_path: Path) -> None:
    batches = written(tmp_path)
    path, position = where(tmp_path, 4, len(batches[0]))
    damage(path, position + 16, b"\x07")
    log = opened(tmp_path)
    assert [find_time(log, 1000 + n, NEVER) for n in (3, 5)] == [(1003, 3, 0), (1005, 5, 0)]


def test_a_batch_that_is_marked_as_damaged_is_rejected_and_the_rest_served(tmp_path: Path) -> None:
    batches = written(tmp_path)
    log = opened(tmp_path, clean=True)
    size = len(batches[0])
    log.segments[0].mark(2 * size, "the CRC does not match", 3 * size)
    assert served(log, batches) == set(range(COUNT)) - {2}


MAX_DAMAGES = 20


@pytest.fixture
def few_damages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a segment keep few damages."""
    monkeypatch.setattr("odradek.storage.segments.segment_file.MAX_DAMAGES", MAX_DAMAGES)


@pytest.mark.usefixtures("few_damages")
def test_a_segment_that_is_damaged_all_over_costs_a_bounded_list(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1 << 20)
    batches = written(tmp_path, config=config)
    log = opened(tmp_path, clean=True, config=config)
    segment, size = log.segments[0], len(batches[0])
    for n in range(MAX_DAMAGES):
        segment.mark(n, "bad", n + 1)
    segment.mark(20 * size, "bad", 21 * size)
    # What lies between the last two is given up, and not what lies behind them.
    assert len(segment.damages) == MAX_DAMAGES
    assert segment.damages[-1][1:3] == (MAX_DAMAGES - 1, 21 * size)
    assert served(log, batches) == set(range(21, COUNT))
    segment.mark(22 * size, "bad", 23 * size)
    assert served(log, batches) == {23}


@pytest.mark.usefixtures("few_damages")
@pytest.mark.parametrize("point", [-1, 1, 2 * MAX_DAMAGES + 5])
def test_more_damage_than_a_segment_keeps_costs_nothing_behind_it(tmp_path: Path, point: int) -> None:
    count = 2 * MAX_DAMAGES + 6
    batches = {n: batch(n) for n in range(count)}
    size = len(batches[0])
    content = bytearray(b"".join(batches.values()))
    magic = 16
    for n in range(2, count, 2):
        content[n * size + magic] = 0
    path = tmp_path / f"{segment_name(0)}.log"
    path.write_bytes(content)
    log = opened(tmp_path, point=point, config=LogConfig())
    if point == 1:
        # A crash explains what follows the recovery point.
        assert (log.log_end_offset, log.recovery.damages) == (2, [])
        return
    assert (log.log_end_offset, log.recovery.cuts, len(log.recovery.damages)) == (count, [], MAX_DAMAGES)
    for n in (0, 1, 3, MAX_DAMAGES + 1, count - 1):
        assert log.read(n, 1, NEVER).read() == batches[n]
    append(log, batch(count))
    assert path.read_bytes() == content + batch(count)


def test_damaged_leader_epochs_are_read_from_the_batches_again(tmp_path: Path) -> None:
    log = opened(tmp_path, point=0)
    for n in range(12):
        append(log, batch(n, leader_epoch=n // 5))
    log.close()
    (tmp_path / "leader-epoch-checkpoint").write_text("0\nnonsense\n")
    log = opened(tmp_path, clean=True, point=12)
    assert log.epochs.entries == ((0, 0), (1, 5), (2, 10))
    assert tmp_path / "leader-epoch-checkpoint" in log.recovery.rebuilt
    log.close()
    assert opened(tmp_path, clean=True, point=12).recovery.rebuilt == []


# By how much it moves an offset: within the segment, into others, beyond any, below 0.
BITS = range(64) if IS_SOAK else (0, 1, 2, 3, 4, 8, 16, 31, 32, 47, 62, 63)

# -- Offsets and last offsets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("wide", [True, False])
def test_a_smaller_last_offset_in_the_last_batch_gives_no_offset_away_again(
    tmp_path: Path, clean: bool, wide: bool
) -> None:
    log = opened(tmp_path, point=0)
    append(log, batch(0, 2))
    append(log, batch(2, 5))
    if not wide:
        roll(log)
        append(log, batch(7, 5))
    log.close()
    end = log.log_end_offset
    path = logs(tmp_path)[-1]
    position = path.stat().st_size - len(batch(2, 5))
    damage(path, position + 23, (1).to_bytes(4))
    log = opened(tmp_path, clean=clean, point=end)
    assert (log.log_end_offset, log.recovery.cuts) == (end, [])
    assert [(each.path, each.position) for each in log.recovery.damages] == [(path, position)]
    append(log, batch(end, 1))
    for offset in range(end - 5, end):
        with pytest.raises(CorruptBatch):
            log.read(offset, 1, NEVER)


@pytest.mark.parametrize("bit", BITS)
@pytest.mark.parametrize("clean", [True, False])
def test_a_flipped_bit_in_the_offset_of_the_last_batch_is_found(tmp_path: Path, bit: int, clean: bool) -> None:
    batches = written(tmp_path, config=WIDE)
    path, position = where(tmp_path, COUNT - 1, len(batches[0]))
    flip(path, position + 7 - bit // 8, bit % 8)
    log = opened(tmp_path, clean=clean, config=WIDE)
    assert (log.log_end_offset, log.recovery.cuts) == (COUNT, [])
    assert served(log, batches) == set(range(COUNT - 1))
    append(log, batch(COUNT, producer_id=3, sequence=COUNT))
    assert read_header(log.read(COUNT, 1, NEVER).read()).base_offset == COUNT


@pytest.mark.parametrize("point", [0, 8, 9, 10, 23])
def test_a_flipped_bit_in_any_other_offset_costs_its_batch_and_cuts_nothing(tmp_path: Path, point: int) -> None:
    batches = written(tmp_path, config=WIDE)
    path, position = where(tmp_path, 9, len(batches[0]))
    for bit in BITS:
        flip(path, position + 7 - bit // 8, bit % 8)
        log = opened(tmp_path, point=point, config=WIDE)
        assert (log.log_end_offset, log.recovery.cuts) == (COUNT, []), bit
        assert served(log, batches) == set(range(COUNT)) - {9}, bit
        flip(path, position + 7 - bit // 8, bit % 8)


@pytest.mark.parametrize("offset", range(12) if IS_SOAK else (0, 1, 5, 11))
def test_a_flipped_bit_in_an_offset_of_a_closed_segment_serves_no_other_record(tmp_path: Path, offset: int) -> None:
    batches = written(tmp_path)
    path, position = where(tmp_path, offset, len(batches[0]))
    assert path != logs(tmp_path)[-1]
    for bit in BITS:
        flip(path, position + 7 - bit // 8, bit % 8)
        log = opened(tmp_path, clean=True)
        assert log.recovery.clean
        assert served(log, batches) == set(range(COUNT)) - {offset}, bit
        flip(path, position + 7 - bit // 8, bit % 8)
