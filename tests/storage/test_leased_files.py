"""Ranges of a log as parts of files, and links that outlive the files' own names."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from odradek.protocol.records.batch import iter_headers
from odradek.storage import leased_files
from odradek.storage.deleted_directory import deleted_path, remove_directory
from odradek.storage.errors import CorruptBatch, DiskError, OffsetOutOfRange, StaleView
from odradek.storage.files import DISK
from odradek.storage.leased_files import Extent, find_extent, link_files
from odradek.storage.log import Log
from odradek.tests.storage.batches import append, batch
from odradek.tests.storage.test_log import filled, names, opened
from odradek.tests.storage.transactions import Written
from odradek.tests.support.seeds import seeds

ANY_FILES = 100


def find(log: Log, start: int, end: int, up_to: int | None = None, **rest) -> Extent:
    limit = log.log_end_offset if up_to is None else up_to
    return find_extent(log.view(), start, end, limit, **{"with_aborted": False, "max_files": ANY_FILES, **rest})


def held(extent: Extent) -> list[tuple[int, int]]:
    """The base and last offset of every batch in the parts."""
    found = []
    for part in extent.parts:
        data = DISK.read(part.file, part.end - part.position, part.position)
        found += [(header.base_offset, header.last_offset) for _, header in iter_headers(data)]
    return found


@pytest.mark.parametrize("seed", seeds(range(8), range(8, 200)))
def test_the_parts_hold_exactly_the_batches_of_the_range(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    log = opened(tmp_path / "t-0", segment_bytes=chance.choice([300, 700, 5000]), index_interval_bytes=100)
    for _ in range(chance.randrange(1, 30)):
        # Compaction leaves gaps between batches.
        gap = chance.choice([0, 0, 3])
        append(log, batch(log.log_end_offset + gap, chance.randrange(1, 5)))
    everything = [(each.base_offset, each.last_offset) for each, _ in log.iter_batches(0)]
    for _ in range(10):
        start = chance.randrange(log.log_end_offset + 1)
        end = chance.randrange(start, log.log_end_offset + 1)
        up_to = chance.choice([log.log_end_offset, end, *(last + 1 for _, last in everything)])
        wanted = [(first, last) for first, last in everything if last >= start and first < end]
        expected = [each for each in wanted if start < end and each[1] < up_to]
        most = chance.choice([1, 2, ANY_FILES])
        got, at = [], start
        for _ in range(ANY_FILES):
            extent = find(log, at, end, up_to, max_files=most)
            assert len(extent.parts) <= most
            got += held(extent)
            if not extent.parts or extent.parts[-1].next_offset >= min(end, up_to):
                break
            assert extent.parts[-1].next_offset > at
            at = extent.parts[-1].next_offset
        assert got == expected


def test_a_range_before_the_start_or_behind_the_end_is_an_error(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", 10, segment_bytes=200)
    log.advance_log_start(6)
    for start in (5, 21):
        with pytest.raises(OffsetOutOfRange):
            find(log, start, 100, up_to=100)


def test_the_parts_end_at_damage_and_from_there_the_damage_is_an_error(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", 10, segment_bytes=10_000)
    log.segments[0].mark(log.view().locate(8, 20).position, "test")
    extent = find(log, 0, 20)
    assert held(extent) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert extent.parts[-1].next_offset == 0
    with pytest.raises(CorruptBatch):
        find(log, 8, 20)


def test_links_stay_when_the_log_drops_its_segments_and_when_its_directory_goes(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", 10, segment_bytes=200)
    extent = find(log, 0, 20)
    expected = held(extent)
    target = deleted_path(log.directory, "lease1")
    link_files(extent.parts, target, DISK)
    log.advance_log_start(20)
    for segment in log.take_retired():
        segment.unlink()
    log.set_aside()
    remove_directory(log.directory)
    assert [path.name for path in tmp_path.iterdir()] == ["t-0.lease1-delete"]
    kept = []
    for part in extent.parts:
        data = (target / part.name).read_bytes()[part.position : part.end]
        kept += [(header.base_offset, header.last_offset) for _, header in iter_headers(data)]
    assert kept == expected == [(at, at + 1) for at in range(0, 20, 2)]
    remove_directory(target)
    assert not list(tmp_path.iterdir())


def test_a_name_that_has_gone_or_is_another_file_by_now_is_not_linked(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", 10, segment_bytes=200)
    extent = find(log, 0, 20)
    first = extent.parts[0].file.path
    target = deleted_path(log.directory, "lease1")
    first.rename(first.with_suffix(".deleted"))
    with pytest.raises(DiskError):
        link_files(extent.parts, target, DISK)
    first.write_bytes(b"another")
    with pytest.raises(StaleView):
        link_files(extent.parts, target, DISK)
    assert names(tmp_path) == ["t-0"]


def test_a_long_name_is_cut_to_what_file_systems_take(tmp_path: Path) -> None:
    long = tmp_path / ("t" * 247 + "-0")
    assert len(deleted_path(long, "lease0123456789abcdef").name) == 255


def test_an_extent_ends_early_where_there_are_too_many_aborted_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leased_files, "MAX_ABORTED", 5)
    log = opened(tmp_path / "t-0", segment_bytes=1000, index_interval_bytes=100)
    written = Written(log)
    for number in range(20):
        written.write(number)
        written.finish(number, commit=False)
    at, found, seen = 0, set(), []
    while at < log.log_end_offset:
        extent = find(log, at, log.log_end_offset, with_aborted=True)
        assert len(extent.aborted) <= 10
        found |= {each.producer_id for each in extent.aborted}
        seen += held(extent)
        assert extent.parts[-1].next_offset > at
        at = extent.parts[-1].next_offset
    assert found == set(range(20))
    assert seen == [(at, at) for at in range(40)]
