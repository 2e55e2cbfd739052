"""Run some seeds of the whole cluster under load and faults, and plant a mistake that they must find."""

from __future__ import annotations

from itertools import product

import pytest
from odradek.tests.support.seeds import seeds
from odradek.tests.support.simulations.whole.planted import PLANTS, Plant, find, planted
from odradek.tests.support.simulations.whole.run import run


# Seed 14 compacts. Seed 26 finds a transaction that a start had found in the page cache alone, and had told its
# producer to be open.
@pytest.mark.parametrize(("seed", "nodes"), [*product(seeds(range(3), range(1_000)), (1, 3)), (14, 1), (26, 1)])
def test_the_judge_has_no_objection(seed: int, nodes: int) -> None:
    result = run(seed, nodes)
    assert not result.violations, result.report()


def test_a_planted_mistake_is_found() -> None:
    plant = next(each for each in PLANTS if each.what.startswith("read_committed"))
    found = find(plant, 5)
    assert found is not None
    assert "prefix" in found[1].report()


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.what)
def test_what_is_planted_is_still_in_the_code(plant: Plant) -> None:
    with planted(plant):
        pass
