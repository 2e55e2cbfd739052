"""Simulated replicas, thousands of times. A failure names its seed, which does it again."""

from __future__ import annotations

import pytest
from odradek.tests.support.simulations.replica_simulation import Broken, Simulation

HUNDRED = 100


@pytest.mark.parametrize("nodes", [2, 3, 5])
@pytest.mark.parametrize("first", range(1_000, 3_000, HUNDRED))
def test_acknowledged_records_stay_and_replicas_agree(first: int, nodes: int) -> None:
    for seed in range(first, first + HUNDRED):
        try:
            Simulation(seed, nodes=nodes, min_isr=1 + seed % 2).run()
        except Broken as broken:
            raise AssertionError(f"Simulation({seed}, nodes={nodes}, min_isr={1 + seed % 2}): {broken}") from broken
