"""Batches of a query under crashes of coordinator and drivers, by seed: each is in the log once and whole."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from odradek.tests.support.simulations.query_simulation import Simulation

# Some 0.1 s for each seed.
SEEDS_A_TEST = 50


@pytest.mark.parametrize("first", range(1_000, 2_000, SEEDS_A_TEST))
def test_each_batch_is_written_once_whatever_crashes(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        simulation = Simulation(Random(seed), batches=8)
        asyncio.run(simulation.run())
        simulation.check()
