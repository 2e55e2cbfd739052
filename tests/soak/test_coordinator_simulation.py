"""Coordinators on simulated replicas, by a thousand seeds. A failure names its seed, which does it again."""

from __future__ import annotations

import pytest
from odradek.tests.broker.coordination.test_moves_by_seed import play
from odradek.tests.support.simulations.coordinator_simulation import BUGS
from odradek.tests.support.simulations.replica_simulation import Broken

HUNDRED = 100


@pytest.mark.parametrize("first", range(1_000, 2_000, HUNDRED))
def test_nothing_committed_is_lost_and_no_stable_member_loses_its_partitions(first: int) -> None:
    for seed in range(first, first + HUNDRED):
        try:
            play(seed)
        except Broken as broken:
            raise AssertionError(f"play({seed}): {broken}") from broken


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    for seed in range(1_000):
        try:
            play(seed, bug)
        except Broken:
            return
    pytest.fail(f"no run has found coordinators that {bug}")
