"""Test simulated worlds for a user's own service."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.broker.configs.definition import ConfigError
from odradek.client import Producer
from odradek.testing import Simulation, plugin, simulate
from odradek.testing.errors import Unavailable
from odradek.testing.simulation import program
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


@pytest.mark.parametrize(
    ("given", "error", "why"),
    [
        ({"seed": "7"}, Unavailable, "seed is a whole number, not '7'"),
        ({"seed": 7, "nodes": "3"}, Unavailable, "nodes is a whole number"),
        ({"seed": 7, "nodes": 0}, Unavailable, "a broker at least"),
        ({"seed": 7, "configs": {"num_partitions": 2}}, ConfigError, "did you mean num.partitions"),
    ],
)
def test_a_world_that_cannot_be_is_refused_in_words(given: Any, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        simulate(**given)


def test_a_broker_that_does_not_start_says_why_and_nothing_of_its_world_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds: list[Any] = []
    make = program.Cluster
    monkeypatch.setattr(program, "Cluster", lambda *given: worlds.append(make(*given)) or worlds[-1])
    configs = {"listener.security.protocol.map": "PLAINTEXT:SSL"}
    with (
        pytest.raises(Unavailable, match=r"broker 1 does not start: .*needs a certificate"),
        simulate(1, configs=configs),
    ):
        pass
    monkeypatch.setattr(program.Node, "start", lambda _: 1 // 0)
    with pytest.raises(ZeroDivisionError), simulate(1):
        pass
    assert [each.folder.exists() for each in worlds] == [False, False] and gc.isenabled()


def test_what_a_world_cannot_do_is_told_in_words() -> None:
    async def within() -> None:
        for call in (lambda: world.run(asyncio.sleep(1)), world.start, simulate(2).__enter__):
            with pytest.raises(Unavailable, match=r"runs the world|not async"):
                call()

    with simulate(1) as world:
        world.run(within())
        for call, why in (
            (lambda: world.kill(2), "there is no broker 2 in this world, which has 1, from 1 on"),
            (world.start, "broker 1 runs already"),
        ):
            with pytest.raises(Unavailable, match=why):
                call()
        world.kill()
        for call in (world.kill, world.cut_power):
            with pytest.raises(Unavailable, match="broker 1 does not run"):
                call()
    for call in (lambda: world.run(asyncio.sleep(1)), world.start):
        with pytest.raises(Unavailable, match="inside its `with` block"):
            call()


@pytest.mark.parametrize("mark", [pytest.mark.simulated(20), pytest.mark.simulated(seed=20)])
def test_a_marker_that_means_nothing_is_refused(mark: pytest.MarkDecorator) -> None:
    node = SimpleNamespace(get_closest_marker=lambda _: mark.mark)
    with pytest.raises(pytest.UsageError, match=r"takes \['configs', 'first', 'nodes', 'seeds'\] by name, not"):
        plugin._simulated(node)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("given", [{"seeds": 0}, {"seeds": "20"}, {"first": 1.5}])
def test_a_number_of_seeds_that_is_none_is_refused(given: dict[str, Any]) -> None:
    definition = SimpleNamespace(get_closest_marker=lambda _: pytest.mark.simulated(**given).mark)
    with pytest.raises(pytest.UsageError, match="one seed at least"):
        plugin.pytest_generate_tests(SimpleNamespace(fixturenames=["simulation"], definition=definition))  # type: ignore[arg-type]
