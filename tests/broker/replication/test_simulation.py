"""Hundreds of runs of simulated replicas keep their promises, and planted bugs break them."""

from __future__ import annotations

import pytest
from odradek.tests.support.simulations.replica_simulation import BUGS, Broken, Simulation

SEEDS = 60


@pytest.mark.parametrize("min_isr", [1, 2])
def test_acknowledged_records_stay_and_replicas_agree(min_isr: int) -> None:
    acknowledged = 0
    for seed in range(SEEDS):
        simulation = Simulation(seed, min_isr=min_isr)
        try:
            simulation.run()
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")
        acknowledged += simulation.acknowledged
    # Otherwise nothing has been shown.
    assert acknowledged > 3 * SEEDS


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    for seed in range(10 * SEEDS):
        try:
            Simulation(seed, bug).run()
        except Broken:
            return
    pytest.fail(f"no run has found that the replicas {bug}")
