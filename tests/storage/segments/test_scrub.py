"""Reading closed segments again: what has gone bad is found with its place, once, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.storage.files import DISK, Buffer, Disk, File
from odradek.storage.log import Log, LogConfig
from odradek.storage.segments.damage import Damage
from odradek.storage.segments.scrub import Stopped, scrub
from odradek.storage.segments.segment import Segment
from odradek.storage.segments.segment_file import MAX_DAMAGES
from odradek.tests.storage.batches import append, batch, roll

CONFIG = LogConfig(segment_bytes=1000)
NEVER = 2**63 - 1


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log.open(tmp_path, CONFIG, clean=False, now_ms=1000)
    for n in range(40):
        append(log, batch(n))
    return log


def size_of(log: Log) -> int:
    return log.segments[0].size // (log.segments[1].base_offset - log.segments[0].base_offset)


def flip(segment: Segment, position: int) -> None:
    path = segment.path(".log")
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def found(segment: Segment, disk: Disk = DISK, up_to: int = NEVER) -> list[Damage]:
    return [each for each in scrub(segment, up_to, disk) if isinstance(each, Damage)]


def test_a_sound_segment_is_read_to_its_end(log: Log) -> None:
    for segment in log.segments:
        steps = list(scrub(segment.twin(), NEVER, DISK))
        assert sum(step for step in steps if isinstance(step, int)) == segment.size


@pytest.mark.parametrize("at", [0, 4, 7, 8, 11, 16, 17, 30, 60, 70])
def test_a_flipped_bit_costs_its_batch_and_no_other(log: Log, at: int) -> None:
    segment, size = log.segments[1], size_of(log)
    flip(segment, 2 * size + at)
    twin = segment.twin()
    up_to = log.segments[2].base_offset
    (damage,) = found(twin, up_to=up_to)
    assert (damage.path, damage.position, damage.end) == (segment.path(".log"), 2 * size, 3 * size)
    assert found(twin, up_to=up_to) == []
    assert segment.damages == ()


@pytest.mark.parametrize("offset", [2, 3, 4, 5, 7])
def test_one_offset_that_is_wrong_costs_one_batch(log: Log, offset: int) -> None:
    segment, size = log.segments[0], size_of(log)
    path, data = segment.path(".log"), bytearray(segment.path(".log").read_bytes())
    data[3 * size : 3 * size + 8] = offset.to_bytes(8, "big")
    path.write_bytes(data)
    expected = [] if offset == 3 else [(3 * size, 4 * size)]
    assert [(each.position, each.end) for each in found(segment.twin(), up_to=log.segments[1].base_offset)] == expected


def test_damage_up_to_the_end_is_one(log: Log) -> None:
    segment, size = log.segments[0], size_of(log)
    path = segment.path(".log")
    path.write_bytes(path.read_bytes()[: 3 * size] + bytes(segment.size - 3 * size))
    (damage,) = found(segment.twin())
    assert (damage.position, damage.end) == (3 * size, segment.size)


def test_a_file_that_was_cut_is_damaged_from_there_on(log: Log) -> None:
    segment, size = log.segments[0], size_of(log)
    path = segment.path(".log")
    path.write_bytes(path.read_bytes()[: 3 * size + 20])
    (damage,) = found(segment.twin())
    assert (damage.position, damage.end) == (3 * size, segment.size)


def test_damage_all_over_is_a_bounded_list(tmp_path: Path) -> None:
    log = Log.open(tmp_path, LogConfig(segment_bytes=1 << 20), clean=False, now_ms=1000)
    for n in range(2 * MAX_DAMAGES + 10):
        append(log, batch(n))
    roll(log, 1000)
    segment = log.segments[0]
    size, path = size_of(log), segment.path(".log")
    data = bytearray(path.read_bytes())
    for at in range(0, segment.size, 2 * size):
        data[at + 30] ^= 1
    path.write_bytes(data)
    damages = found(segment.twin())
    assert len(damages) <= MAX_DAMAGES + 1
    assert damages[-1].end == segment.size


class Counting(Disk):
    """Knows what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_cached = False

    def read_nowait(self, file: File, size: int, position: int) -> bytearray | None:
        return super().read_nowait(file, size, position) if self.is_cached else None

    def read_into(self, file: File, target: memoryview, position: int) -> int:
        self.asked.append("read")
        return super().read_into(file, target, position)

    def forget(self, file: File, size: int, position: int) -> None:
        self.asked.append("forget")
        super().forget(file, size, position)

    def write(self, file: File, data: Buffer, position: int) -> None:
        raise AssertionError("a scrub writes nothing")


@pytest.mark.parametrize(("is_cached", "asked"), [(True, ["forget", "read"]), (False, ["forget", "read", "forget"])])
def test_the_disk_is_read_and_the_page_cache_left_as_it_was(log: Log, is_cached: bool, asked: list[str]) -> None:
    disk = Counting()
    disk.is_cached = is_cached
    found(log.segments[0].twin(), disk)
    assert disk.asked == asked


def test_it_stops_in_the_middle_of_a_search(log: Log) -> None:
    segment = log.segments[0]
    segment.path(".log").write_bytes(bytes(segment.size))
    asked = iter([False, True])
    with pytest.raises(Stopped):
        list(scrub(segment.twin(), NEVER, DISK, lambda: next(asked)))
