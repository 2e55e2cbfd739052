"""Idempotent producers on simulated replicas, thousands of times. A failure names its seed, which does it again."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.simulations.producer_simulation import ProducerSimulation
from odradek.tests.support.simulations.replica_simulation import Broken

HUNDRED = 100


@pytest.mark.parametrize("first", range(1_000, 3_000, HUNDRED))
def test_nothing_is_written_twice_and_nothing_is_left_out(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + HUNDRED):
        try:
            ProducerSimulation(seed, tmp_path / str(seed), min_isr=1 + seed % 2).run()
        except Broken as broken:
            raise AssertionError(f"ProducerSimulation({seed}, min_isr={1 + seed % 2}): {broken}") from broken
