"""Test simulated worlds for a user's own service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.client import Producer
from odradek.testing import Simulation, simulate
from odradek.tests.support.documents.page import begin, python_of

_PAGE = Path(__file__).parents[3] / "docs" / "simulation.md"


def test_the_page_runs_a_service_in_virtual_time_and_a_test() -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for line, code in python_of(_PAGE.read_text(encoding="utf-8"), {}):
        assert begin(code, names, "simulation.md", line) is None
    assert names["world"].now_s >= 43_200
    assert [mark.kwargs for mark in names["test_no_order_is_lost"].pytestmark] == [{"seeds": 20}]
    with simulate(8) as world:
        names["test_no_order_is_lost"](world)


@pytest.mark.simulated(seeds=3, nodes=1)
def test_a_service_outlives_a_kill_of_the_broker(simulation: Simulation) -> None:
    async def write(value: bytes) -> int:
        async with Producer(simulation.address) as producer:
            return (await producer.send_and_wait("t", value, partition=0)).offset

    assert simulation.run(write(b"one")) == 0
    simulation.kill()
    simulation.start()
    assert simulation.run(write(b"two")) == 1
