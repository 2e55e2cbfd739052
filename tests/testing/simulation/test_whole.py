"""Run some seeds of the whole cluster under load and faults, and plant a mistake that they must find."""

from __future__ import annotations

from itertools import product

import pytest
from odradek.tests.support.seeds import seeds
from odradek.tests.support.simulations.whole.planted import PLANTS, Plant, find, planted
from odradek.tests.support.simulations.whole.run import run
from odradek.tests.support.simulations.whole.story import told


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


def test_a_time_line_begins_with_what_became_of_the_brokers_and_leaves_out_what_is_about_others() -> None:
    noise = [(2 + at / 1000, "member1", f"joining failed {at} times") for at in range(500)]
    story = [
        (0.1, "10.0.0.1", "serves"),
        (0.2, "zookeeper", "plain-0 is led by 1 at epoch 0, ISR [1, 2]"),
        (0.2, "zookeeper", "plain-1 is led by 2 at epoch 0, ISR [2, 1]"),
        (0.3, "plain1", "b'plain1.1:7' is acknowledged at offset 7 of plain-0"),
        (0.4, "plain1", "b'plain1.1:8' is acknowledged at offset 8 of plain-0"),
        (1.0, "operator", "FAULT kill: node 1, for 1.00 s"),
        (1.1, "10.0.0.1", "is dead"),
        *noise,
    ]
    lines = told(story, ["plain-0: the acknowledged record b'plain1.1:7' (offset 7) is lost"])
    assert [each.split(maxsplit=3)[3] for each in lines[:-1]] == [
        "serves",
        "plain-0 is led by 1 at epoch 0, ISR [1, 2]",
        "b'plain1.1:7' is acknowledged at offset 7 of plain-0",
        "FAULT kill: node 1, for 1.00 s",
        "is dead",
        "joining failed 400 times",
        "... 99 more like this, the last: joining failed 499 times",
    ]
    assert lines[-1] == "(left out: 402 lines that name nothing of it)"


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.what)
def test_what_is_planted_is_still_in_the_code(plant: Plant) -> None:
    with planted(plant):
        pass
