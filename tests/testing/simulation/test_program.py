"""Test simulated worlds for a user's own service."""

from __future__ import annotations

import asyncio

import pytest
from odradek.client import Consumer, Producer
from odradek.testing import Simulation, simulate

_DAY_S = 86_400


async def _service(address: str) -> bytes | None:
    async with Producer(address) as producer:
        await producer.send_and_wait("orders", b"one")
    over = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(_DAY_S, over.set_result, None)
    await over
    async with Consumer("orders", bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        return (await consumer.getone()).value


def test_a_service_runs_in_virtual_time() -> None:
    with simulate(7) as world:
        assert world.run(_service(world.address), 2 * _DAY_S) == b"one"
        assert world.now_s >= _DAY_S


@pytest.mark.simulated(seeds=3, nodes=1)
def test_a_service_outlives_a_kill_of_the_broker(simulation: Simulation) -> None:
    async def write(value: bytes) -> int:
        async with Producer(simulation.address) as producer:
            return (await producer.send_and_wait("t", value, partition=0)).offset

    assert simulation.run(write(b"one")) == 0
    simulation.kill()
    simulation.start()
    assert simulation.run(write(b"two")) == 1
