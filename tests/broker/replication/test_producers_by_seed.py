"""Idempotent producers on simulated replicas with real logs keep their promises, and planted bugs break them."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.seeds import seeds
from odradek.tests.support.simulations.producer_simulation import BUGS, ProducerSimulation
from odradek.tests.support.simulations.replica_simulation import Broken

SEEDS = 12
# What the file of the leader epochs kept from before a crash: epochs that wrote nothing, and were forgotten.
FOUND_A_DEFECT = (326, 449)


def test_nothing_is_written_twice_and_nothing_is_left_out(tmp_path: Path) -> None:
    acknowledged = duplicates = 0
    for seed in seeds([*range(SEEDS), *FOUND_A_DEFECT], range(1_000, 3_000)):
        simulation = ProducerSimulation(seed, tmp_path / str(seed), min_isr=1 + seed % 2)
        try:
            simulation.run()
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")
        acknowledged += simulation.acknowledged
        duplicates += simulation.duplicates
    # Otherwise nothing has been shown.
    assert min(acknowledged, duplicates) > 10 * SEEDS


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(tmp_path: Path, bug: str) -> None:
    for seed in range(2 * SEEDS):
        try:
            ProducerSimulation(seed, tmp_path / str(seed), bug, min_isr=1 + seed % 2).run()
        except Broken:
            return
    pytest.fail(f"no run has found that the replicas {bug}")
