"""Coordinators move over simulated replicas, by seed: nothing committed is lost, no member loses its partitions."""

from __future__ import annotations

import asyncio

import pytest
from odradek.tests.support.seeds import IS_SOAK, seeds
from odradek.tests.support.simulations.coordinator_simulation import CoordinatorSimulation
from odradek.tests.support.simulations.replica_simulation import Broken

SEEDS = 3


def play(seed: int, bug: str = "") -> CoordinatorSimulation:
    async def run() -> CoordinatorSimulation:
        simulation = CoordinatorSimulation(seed, bug, min_isr=1 + seed % 2)
        await simulation.play()
        return simulation

    return asyncio.run(run(), debug=False)


def test_nothing_committed_is_lost_and_no_stable_member_loses_its_partitions() -> None:
    moves = told = accepted = 0
    for seed in seeds(range(SEEDS), range(1_000, 2_000)):
        try:
            found = play(seed)
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")
        moves, told = moves + found.moves, told + sum(found.told.values())
        accepted += len(found.share_leader.told)
    # Otherwise nothing has been shown.
    assert moves > 3 * SEEDS
    assert told > 10 * SEEDS
    assert accepted > 10 * SEEDS


# From the first seed on that finds the bug today.
@pytest.mark.parametrize(
    ("bug", "first"),
    [
        ("answer before the ISR has it", 7),
        ("do not load", 0),
        ("load up to the high watermark", 50),
        ("tell transactions apart by clocks", 6),
        # This one takes a hundred seeds.
        *([("keep what was loaded before", 0)] if IS_SOAK else ()),
    ],
)
def test_a_planted_bug_is_found(bug: str, first: int) -> None:
    for seed in range(first, first + (1_000 if IS_SOAK else 50)):
        try:
            play(seed, bug)
        except Broken:
            return
    pytest.fail(f"no run has found coordinators that {bug}")
