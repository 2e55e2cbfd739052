"""The controller in a simulated cluster, by many seeds. A failure names its seed, which does it again."""

from __future__ import annotations

import pytest
from odradek.tests.broker.cluster.controller.simulation import Simulation
from odradek.tests.broker.cluster.controller.test_simulation import run

HUNDRED = 100


@pytest.mark.parametrize("first", range(1_000, 4_000, HUNDRED))
def test_a_cluster_comes_to_rest_with_every_partition_led(first: int) -> None:
    for seed in range(first, first + HUNDRED):
        try:
            run(Simulation(seed), disks_fill=seed % 2 == 1)
        except AssertionError as broken:
            raise AssertionError(f"run(Simulation({seed}), disks_fill={seed % 2 == 1}): {broken}") from broken
