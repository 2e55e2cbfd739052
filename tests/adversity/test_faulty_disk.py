"""The log on a faulty disk (torn and lost writes, errors, flipped bits), by seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.disks import rewritten_log, torn_log
from odradek.tests.support.seeds import seeds

# Each found something once: a bit of an index that hid records or led to none, a sound batch of a cleaned segment that
# was taken for damage, damage that the next start cut off, a recovery that left a hole before what it had on disk, a
# batch that the disk could not read for a moment, which cost the batches behind it for good.
ONCE_FAILED = (74, 377, 633, 1277, 2264, 2298, 2400, 3522, 5085, 7019)


@pytest.mark.parametrize("seed", seeds([*range(16), *ONCE_FAILED], range(1_000, 6_000)))
def test_a_log_is_what_a_list_says_whatever_the_disk_does(tmp_path: Path, seed: int) -> None:
    torn_log.run(tmp_path, seed)


# The last one needs a batch whose last offset is wrong to be the last below the recovery point.
@pytest.mark.parametrize("seed", seeds([*range(8), 255], range(1_000, 3_000)))
def test_very_large_batches_are_whole_or_not_there(tmp_path: Path, seed: int) -> None:
    torn_log.run(tmp_path, seed, stages=True)


# 170 finds a flush that stops at a clean segment before a dirty one, 194 a gap that is not flushed when it is kept.
@pytest.mark.parametrize("seed", seeds([*range(8), 170, 194], range(1_000, 6_000)))
def test_gaps_between_segments_and_rewritten_segments_cost_nothing(tmp_path: Path, seed: int) -> None:
    rewritten_log.run(tmp_path, seed)


@pytest.mark.parametrize("seed", seeds(range(6), range(1_000, 2_000)))
def test_a_process_without_descriptors_loses_nothing_and_closes_no_log(tmp_path: Path, seed: int) -> None:
    torn_log.run(tmp_path, seed, descriptors=True)
