"""Bad sectors in a page cache of folios: each batch on sound pages is found and read, before and behind them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from odradek.protocol.records.batch import iter_headers
from odradek.storage.errors import CorruptBatch, DiskError
from odradek.storage.log import Log, LogConfig
from odradek.tests.storage.batches import NEVER, append, batch, roll
from odradek.tests.support.disks.disk import PAGE_BYTES, FaultyDisk
from odradek.tests.support.seeds import seeds

FOLIO_BYTES = 64 * 1024
Place = tuple[int, int, int]


def filled(directory: Path, chance: random.Random) -> tuple[Log, FaultyDisk]:
    """A log whose first segment has some 300 KiB in batches of many sizes."""
    disk = FaultyDisk()
    log = Log.open(directory, LogConfig(index_interval_bytes=chance.choice([1, 4096])), clean=True, now_ms=0, disk=disk)
    sizes = chance.choice([[10, 300, 2_000], [300], [10, 3_000, 9_000]])
    while log.segments[0].size < 300_000:
        append(log, batch(log.log_end_offset, chance.randint(1, 3), size=chance.choice(sizes)))
    roll(log)
    append(log, batch(log.log_end_offset))
    return log, disk


def places(log: Log) -> list[Place]:
    """(first offset, position, end) of the batches of the first segment."""
    return [(each.base_offset, at, at + each.size_bytes) for at, each in log.segments[0].headers()]


def spoil(log: Log, disk: FaultyDisk, chance: random.Random) -> set[int]:
    """Spoil sectors of the first segment; return the numbers of their pages."""
    segment = log.segments[0]
    pages: set[int] = set()
    for _ in range(chance.choice([1, 1, 2, 3])):
        at, size = chance.randrange(segment.size), chance.choice([1, 1, 30_000])
        disk.spoil(segment.path(".log"), at, min(size, segment.size - at))
        pages.update(range(at // PAGE_BYTES, (min(at + size, segment.size) - 1) // PAGE_BYTES + 1))
    return pages


def read_as_a_broker(log: Log, offset: int, max_bytes: int) -> list[int]:
    """Return the offsets of the batches that a fetch gets. A read that fails costs a connection, and tells the log."""
    for _ in range(10):
        view = log.view()
        try:
            located = view.locate(offset, NEVER)
        finally:
            log.learn(view)
        assert located is not None
        found = log.read(offset, max_bytes, NEVER, located=located)
        try:
            return [header.base_offset for _, header in iter_headers(found.read())]
        except DiskError as error:
            view = log.view()
            view.mark_unreadable(error)
            log.learn(view)
    raise AssertionError(f"reads at {offset} fail again and again")


@pytest.mark.parametrize("seed", seeds(range(10), range(10, 200)))
def test_a_bad_sector_refuses_no_batch_of_other_pages(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    log, disk = filled(tmp_path / "t-0", chance)
    every, pages = places(log), spoil(log, disk, chance)
    disk.folio_bytes = chance.choice([FOLIO_BYTES, 4 * PAGE_BYTES, 256 * 1024])
    sound = [
        first for first, start, end in every if not pages & set(range(start // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1))
    ]
    assert 20 < len(sound) < len(every)
    max_bytes = chance.choice([1, 20_000, 1 << 20])
    order = list(every) if chance.random() < 0.5 else chance.sample(every, len(every))
    for first, _, _ in order:
        if first in sound:
            assert read_as_a_broker(log, first, max_bytes)[0] == first
        else:
            with pytest.raises(CorruptBatch):
                assert read_as_a_broker(log, first, max_bytes)[0] == first
    assert [header.base_offset for _, header in log.segments[0].sound_headers()] >= sound
    # A disk that can read them again: nothing but what it could not read was refused.
    marked = [(each.position, each.end) for each in log.segments[0].damages]
    assert not [
        first for first, start, _ in every if first in sound and any(low <= start < high for low, high in marked)
    ]
    log.close()


def test_a_read_that_fails_once_marks_nothing(tmp_path: Path) -> None:
    log, disk = filled(tmp_path / "t-0", random.Random(1))
    disk.spoil(log.segments[0].path(".log"), 100_000, 1)
    with pytest.raises(DiskError) as failed:
        log.read(0, 1 << 20, NEVER).read()
    disk.heal()
    view = log.view()
    assert view.mark_unreadable(failed.value) is None
    log.learn(view)
    assert not log.damaged_places
    log.close()
