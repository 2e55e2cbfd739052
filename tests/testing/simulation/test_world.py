"""Test the simulated world: a seed decides everything."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from odradek.client import Admin, Consumer, NewTopic, Producer
from odradek.testing.simulation.cluster import Cluster
from odradek.testing.simulation.loop import CannotBeSimulated
from odradek.testing.simulation.world import NothingLeft, TooLate, World

_DAY_S, _LATE_S = 86_400, 6


async def _write_and_read(addresses: str) -> list[bytes | None]:
    async with Admin(addresses) as admin:
        await admin.create_topics([NewTopic("t", 2)])
    async with Producer(addresses) as producer:
        for number in range(20):
            await producer.send_and_wait("t", b"%d" % number, partition=0)
    async with Consumer("t", bootstrap_servers=addresses, group_id="g", auto_offset_reset="earliest") as consumer:
        return [(await anext(consumer)).value for _ in range(20)]


async def _passed(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.call_later(seconds, over.set_result, None)
    await over


def _written_and_read(seed: int, nodes: int) -> str:
    """Write and read in a world of this seed; return the hash of all that was sent and stored."""
    world = World(seed)
    with Cluster(world, nodes) as cluster:
        world.run_until(lambda: all(each.serves for each in cluster.nodes.values()), 60)
        client = cluster.client("10.1.0.1")
        assert client.run(_write_and_read(cluster.addresses), 60) == [b"%d" % number for number in range(20)]
        assert [each.errors for each in cluster.processes if each.errors] == []
        return cluster.fingerprint()


def test_a_seed_decides_everything() -> None:
    assert _written_and_read(0, 3) == _written_and_read(0, 3)
    history = _written_and_read(0, 1)
    assert _written_and_read(0, 1) == history != _written_and_read(1, 1)


def test_a_world_that_is_over_is_released() -> None:
    def play() -> weakref.ref[World]:
        world = World(2)
        with Cluster(world, 1) as cluster:
            world.run_until(lambda: cluster.nodes[1].serves, 60)
            cluster.nodes[1].kill()
            return weakref.ref(world)

    gone = play()
    gc.collect()
    assert gone() is None


def test_an_fsync_of_a_slow_disk_takes_longer_and_other_work_does_not() -> None:
    def took_s(pool: str) -> float:
        world = World(3)
        with Cluster(world, 0) as cluster:
            client = cluster.client("10.1.0.1")
            client.fsync_slowness = lambda: 1e6
            done: list[float] = []
            client.new_pool(pool, 1).submit(lambda: done.append(world.now_s))
            world.run_until(lambda: bool(done), 60)
            return done[0]

    assert took_s("odradek-fsync") == 8.0
    assert took_s("odradek-read") < 0.1


def test_a_virtual_day_passes_at_once() -> None:
    world = World(1)
    with Cluster(world, 0) as cluster:
        cluster.client("10.1.0.1").run(_passed(_DAY_S), 100_000)
    assert world.now_s >= _DAY_S


def test_a_wait_that_cannot_end_says_so() -> None:
    with Cluster(World(1), 0) as cluster:
        client = cluster.client("10.1.0.1")
        with pytest.raises(NothingLeft):
            client.run(asyncio.Event().wait())
        with pytest.raises(TooLate, match="within 5 s"):
            client.run(_passed(_LATE_S), 5)


def test_what_cannot_be_simulated_is_refused_by_name() -> None:
    with Cluster(World(1), 0) as cluster:
        client = cluster.client("10.1.0.1")
        with pytest.raises(CannotBeSimulated, match="a subprocess"):
            client.run(asyncio.create_subprocess_exec("true"))
        with pytest.raises(CannotBeSimulated, match="TLS"):
            client.run(asyncio.open_connection("10.0.0.1", 9092, ssl=True))
