"""The offset and time index, alone: against a sorted list, and in Kafka's bytes."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from struct import iter_unpack
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.storage.errors import CorruptBatch, DamagedFile, DiskError
from odradek.storage.log import Log, LogConfig
from odradek.storage.segments.segment_indexes import OffsetIndex, TimeIndex
from odradek.storage.segments.sparse_index import BLOCK_ENTRIES, PENDING_BYTES
from odradek.tests.storage.batches import append, batch, flip
from odradek.tests.support.disks.disk import FaultyDisk
from odradek.tests.support.disks.ruled_disk import RuledDisk

BASE = 1_000_000_000_000
LOG_SIZE = 2**31 - 1

steps = st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 10_000), st.booleans()), max_size=60)


@given(steps, st.lists(st.integers(0, 60_000), max_size=20), st.booleans())
def test_offset_look_ups_agree_with_bisect(
    steps: list[tuple[int, int, bool]], targets: list[int], reopen: bool
) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "x.index"
        index = OffsetIndex.create(path, BASE)
        model: list[tuple[int, int]] = []
        for offset_step, position_step, write in steps:
            offset, position = model[-1] if model else (BASE, 0)
            model.append((offset + offset_step, position + position_step))
            index.append(*model[-1])
            index.lookup(BASE + 500)
            if write:
                index.write()
        if reopen:
            index.write()
            index = OffsetIndex.load(path, BASE, LOG_SIZE)
        for target in [*targets, *(offset - BASE for offset, _ in model)]:
            slot = bisect_right(model, BASE + target, key=lambda entry: entry[0])
            assert index.lookup(BASE + target) == (model[slot - 1] if slot else (BASE, 0))
        assert len(index) == len(model)
        assert index.last_entry() == (model[-1] if model else (BASE, 0))


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 10), st.booleans()), max_size=60), st.booleans())
def test_time_look_ups_agree_with_bisect(entries: list[tuple[int, int, bool]], reopen: bool) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "x.timeindex"
        index = TimeIndex.create(path, BASE)
        model: list[tuple[int, int]] = []
        offset = BASE
        for timestamp, step, write in entries:
            offset += step
            index.maybe_append(timestamp, offset)
            if not model or timestamp > model[-1][0]:
                model.append((timestamp, offset))
            if write:
                index.write()
        if reopen and model:
            index.write()
            index = TimeIndex.load(path, BASE, LOG_SIZE)
        for target in range(-1, 102):
            slot = bisect_right(model, target, key=lambda entry: entry[0])
            assert index.lookup(target) == (model[slot - 1] if slot else (-1, BASE))
        assert index.last_entry() == (model[-1] if model else (-1, BASE))


@given(st.integers(0, 50), st.integers(0, 50), st.integers(-3, 55))
def test_truncating_keeps_what_is_below(written: int, pending: int, cut: int) -> None:
    with TemporaryDirectory() as directory:
        offsets = OffsetIndex.create(Path(directory) / "x.index", BASE)
        times = TimeIndex.create(Path(directory) / "x.timeindex", BASE)
        for number in range(1, written + pending + 1):
            if number == written + 1:
                offsets.write()
                times.write()
            offsets.append(BASE + number, 10 * number)
            times.maybe_append(5 * number, BASE + number)
        kept = max(0, min(cut - 1, written + pending))
        offsets.truncate_to(BASE + cut)
        times.truncate_to(BASE + cut)
        assert (len(offsets), len(times)) == (kept, kept)
        offsets.append(BASE + 200, 2000)
        times.maybe_append(5000, BASE + 200)
        assert [offsets.entry(slot) for slot in range(kept + 1)] == [
            *((BASE + number, 10 * number) for number in range(1, kept + 1)),
            (BASE + 200, 2000),
        ]
        assert times.last_entry() == (5000, BASE + 200)


def test_the_bytes_are_kafkas(tmp_path: Path) -> None:
    offsets = OffsetIndex.create(tmp_path / "x.index", BASE)
    offsets.append(BASE + 7, 4100)
    offsets.append(BASE + 9, 8300)
    offsets.write()
    assert (tmp_path / "x.index").read_bytes() == bytes.fromhex("00000007 00001004 00000009 0000206c")
    times = TimeIndex.create(tmp_path / "x.timeindex", BASE)
    times.maybe_append(1_700_000_000_000, BASE + 7)
    times.write()
    assert (tmp_path / "x.timeindex").read_bytes() == bytes.fromhex("0000018bcfe56800 00000007")


def test_entries_reach_the_file_in_chunks(tmp_path: Path) -> None:
    index = OffsetIndex.create(tmp_path / "x.index", 0)
    for number in range(1, PENDING_BYTES // 8 + 1):
        assert not index.wants_write
        index.append(number, number)
    assert index.wants_write
    index.write()
    assert [entry[0] for entry in iter_unpack(">ii", (tmp_path / "x.index").read_bytes())] == list(range(1, 513))


@pytest.mark.parametrize("zeros", [1, 2, 100])
def test_the_zero_tail_of_a_preallocated_file_is_no_entry(tmp_path: Path, zeros: int) -> None:
    index = OffsetIndex.create(tmp_path / "x.index", BASE)
    for number in range(1, 4):
        index.append(BASE + number, 100 * number)
    index.write()
    with (tmp_path / "x.index").open("ab") as file:
        file.write(bytes(8 * zeros))
    index = OffsetIndex.load(tmp_path / "x.index", BASE, LOG_SIZE)
    assert len(index) == 3
    assert index.lookup(BASE + 50) == (BASE + 3, 300)
    assert (tmp_path / "x.index").stat().st_size == 24


@pytest.mark.parametrize(
    ("content", "log_size"),
    [
        ("00000001", 1000),  # half an entry
        ("00000001 00000400", 1000),  # behind the log's end
        ("80000001 00000010", 1000),  # a negative offset
        ("00000002 00000010 00000001 00000020", 1000),  # descending
    ],
)
def test_an_offset_index_that_cannot_belong_to_the_log_is_damaged(tmp_path: Path, content: str, log_size: int) -> None:
    path = tmp_path / "x.index"
    path.write_bytes(bytes.fromhex(content))
    with pytest.raises(DamagedFile) as caught:
        OffsetIndex.load(path, 0, log_size)
    assert caught.value.path == path


def test_a_file_that_got_shorter_is_an_error_and_not_a_dead_process(tmp_path: Path) -> None:
    index = OffsetIndex.create(tmp_path / "x.index", 0)
    for number in range(1, 1000):
        index.append(number, number)
    index.write()
    (tmp_path / "x.index").write_bytes(b"")
    with pytest.raises(DamagedFile):
        index.lookup(500)
    with pytest.raises(DamagedFile):
        index.entry(500)


def test_a_full_disk_keeps_the_entries_in_memory(tmp_path: Path) -> None:
    disk = FaultyDisk()
    index = OffsetIndex.create(tmp_path / "x.index", 0, disk)
    for number in range(1, 11):
        index.append(number, number)
    disk.room_bytes = 13
    with pytest.raises(DiskError):
        index.write()
    assert index.lookup(7) == (7, 7)
    disk.room_bytes = None
    index.write()
    assert [index.entry(slot) for slot in range(10)] == [(number, number) for number in range(1, 11)]


@pytest.mark.parametrize("bit", [31, 33, 40, 63])
def test_an_offset_too_large_for_an_index_is_damage_when_the_index_is_built_again(tmp_path: Path, bit: int) -> None:
    config = LogConfig(index_interval_bytes=0)
    log = Log.open(tmp_path, config, clean=False, now_ms=0)
    for n in range(100):
        append(log, batch(n, size=100))
    log.close()
    (path,) = tmp_path.glob("*.log")
    flip(path, len(batch(0, size=100)) * 60 + 7 - bit // 8, bit % 8)
    for index in tmp_path.glob("*index"):
        index.unlink()
    for clean in (True, False):
        log = Log.open(tmp_path, config, clean=clean, now_ms=0, recovery_point=100)
        assert log.log_end_offset == 100
        with pytest.raises(CorruptBatch):
            log.read(60, 1, 100)
        assert log.read(61, 1, 100).read() == batch(61, size=100)


def test_a_start_opens_an_index_once_and_keeps_no_file_open(tmp_path: Path) -> None:
    opened: list[str] = []

    def note(operation: str, path: Path) -> None:
        if operation == "open":
            opened.append(path.name)

    path = tmp_path / "x.timeindex"
    index = TimeIndex.create(path, 0)
    for number in range(2 * BLOCK_ENTRIES):
        index.maybe_append(number, number)
    index.write()
    loaded = TimeIndex.load(path, 0, LOG_SIZE, RuledDisk(note))
    assert loaded.last_entry() == (2 * BLOCK_ENTRIES - 1, 2 * BLOCK_ENTRIES - 1)
    assert opened == [path.name]
    assert loaded._file is None
