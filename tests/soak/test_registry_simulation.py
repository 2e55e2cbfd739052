"""Groups in ZooKeeper through faults, by many seeds. A failure names its seed, which does it again."""

from __future__ import annotations

import pytest
from odradek.tests.support.simulations.registry_simulation import live_through_faults

HUNDRED = 100


@pytest.mark.parametrize("first", range(1_000, 3_000, HUNDRED))
def test_one_reader_a_partition_and_no_record_is_skipped(first: int) -> None:
    for seed in range(first, first + HUNDRED):
        try:
            live_through_faults(seed)
        except AssertionError as broken:
            raise AssertionError(f"live_through_faults({seed}): {broken}") from broken
