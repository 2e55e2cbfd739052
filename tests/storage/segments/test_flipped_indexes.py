"""Flipped bits in the indexes: whatever bit it is, look-ups find what they found before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from odradek.storage.config import LogConfig
from odradek.storage.log import Log
from odradek.tests.storage.batches import append, batch, find_time, flip, max_timestamp, roll
from odradek.tests.storage.transactions import Written, read_committed

CONFIG = LogConfig(segment_bytes=1 << 20, index_interval_bytes=1)
# Neither ascending nor distinct.
TIMES = (1000, 1003, 1001, 1007, 1005, 1007, 1012, 1011, 1015, 1013)


def opened(directory: Path, point: int) -> Log:
    return Log.open(directory, CONFIG, clean=True, now_ms=2000, recovery_point=point)


def flips(path: Path, bits: tuple[int, ...]) -> Iterator[tuple[Path, tuple[int, int]]]:
    """Copies of a log, each with another bit of one file flipped: the directory, and which bit it is."""
    for position, bit in product(range(path.stat().st_size), bits):
        directory = Path(shutil.copytree(path.parent, path.parent.with_name(f"{position}-{bit}")))
        flip(directory / path.name, position, bit)
        yield directory, (position, bit)
        shutil.rmtree(directory)


@pytest.mark.parametrize("segment", [0, 1], ids=["closed", "newest"])
def test_no_bit_of_a_time_index_changes_what_is_found_by_time(tmp_path: Path, segment: int) -> None:
    log = Log.open(tmp_path / "whole", CONFIG, clean=True, now_ms=2000)
    for offset, timestamp_ms in enumerate(TIMES):
        if offset == 6:
            roll(log, 2000)
        append(log, batch(offset, timestamp_ms=timestamp_ms))
    log.close()
    expected = [next((o for o, t in enumerate(TIMES) if t >= asked), None) for asked in range(1000, 1017)]
    path = sorted((tmp_path / "whole").glob("*.timeindex"))[segment]
    for directory, place in flips(path, (0, 2, 7)):
        log = opened(directory, len(TIMES))
        assert max_timestamp(log) == (1015, 8), place
        assert log.segments[0].max_timestamp[0] == 1007, place
        answers = [find_time(log, asked) for asked in range(1000, 1017)]
        assert [None if found is None else found[1] for found in answers] == expected, place
        log.close()


def test_no_bit_of_an_offset_index_hides_an_aborted_transaction(tmp_path: Path) -> None:
    written = Written(Log.open(tmp_path / "whole", CONFIG, clean=True, now_ms=2000))
    for _ in range(2):
        written.write(-1, 2, transactional=False)
        written.write(7, 2)
        written.write(8)
        written.finish(7, commit=False)
        written.finish(8, commit=True)
    roll(written.log, 2000)
    end = written.log.log_end_offset
    written.log.close()
    path = tmp_path / "whole" / f"{0:020d}.index"
    for directory, place in flips(path, (0, 1)):
        log = opened(directory, end)
        for max_bytes in (150, 500):
            assert list(read_committed(log, max_bytes)) == written.model.visible(), place
        log.close()
