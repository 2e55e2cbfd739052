"""Hundreds of runs of simulated replicas keep their promises, and planted bugs break them."""

from __future__ import annotations

import pytest
from odradek.tests.support.seeds import IS_SOAK, seeds
from odradek.tests.support.simulations.replica_simulation import BUGS, Broken, Simulation

SEEDS = 60


@pytest.mark.parametrize("nodes", [2, 3, 5] if IS_SOAK else [3])
def test_acknowledged_records_stay_and_replicas_agree(nodes: int) -> None:
    acknowledged = 0
    for seed in seeds(range(SEEDS), range(1_000, 3_000)):
        simulation = Simulation(seed, nodes=nodes, min_isr=1 + seed % 2)
        try:
            simulation.run()
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")
        acknowledged += simulation.acknowledged
    # Otherwise nothing has been shown.
    assert acknowledged > 3 * SEEDS


# Where the search begins: the bug shows soon after.
FIRST = {"forget the epoch": 60, "forget a change under way": 25}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    for seed in range(FIRST.get(bug, 0), 10 * SEEDS):
        try:
            Simulation(seed, bug).run()
        except Broken:
            return
    pytest.fail(f"no run has found that the replicas {bug}")
