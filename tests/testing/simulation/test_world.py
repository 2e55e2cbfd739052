"""Test the simulated world: a seed decides everything, in one process and in another with other hashes of texts."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from odradek.client import Admin, Consumer, NewTopic, Producer
from odradek.testing.simulation.cluster import Cluster
from odradek.testing.simulation.loop import CannotBeSimulated
from odradek.testing.simulation.world import NothingLeft, TooLate, World

_DAY_S, _LATE_S = 86_400, 6
_PROGRAM = """
import pathlib, sys
from odradek.tests.testing.simulation.test_world import written_and_read
print(written_and_read(int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])))
"""


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


def written_and_read(seed: int, nodes: int, folder: Path) -> str:
    """Write and read in a world of this seed; return the hash of all that was sent and stored."""
    world = World(seed)
    with Cluster(world, folder / f"{seed}", nodes) as cluster:
        client = cluster.client("10.1.0.1")
        assert client.run(_write_and_read(cluster.addresses), 60) == [b"%d" % number for number in range(20)]
        assert [each.errors for each in cluster.processes if each.errors] == []
        return cluster.fingerprint()


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_seed_decides_everything(nodes: int, tmp_path: Path) -> None:
    first = [written_and_read(seed, nodes, tmp_path / "first") for seed in range(3)]
    again = [written_and_read(seed, nodes, tmp_path / "again") for seed in range(3)]
    assert first == again
    assert len(set(first)) == 3


def test_another_process_has_the_same_history(tmp_path: Path) -> None:
    found = [
        subprocess.run(
            [sys.executable, "-c", _PROGRAM, "7", "3", str(tmp_path / hashes)],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        ).stdout
        for hashes in ("1", "2")
    ]
    assert found[0] == found[1] == f"{written_and_read(7, 3, tmp_path / '0')}\n"


def test_a_virtual_day_passes_at_once() -> None:
    world = World(1)
    with Cluster(world, Path("/nowhere"), 0) as cluster:
        cluster.client("10.1.0.1").run(_passed(_DAY_S), 100_000)
    assert world.now_s >= _DAY_S


def test_a_wait_that_cannot_end_says_so() -> None:
    with Cluster(World(1), Path("/nowhere"), 0) as cluster:
        client = cluster.client("10.1.0.1")
        with pytest.raises(NothingLeft):
            client.run(asyncio.Event().wait())
        with pytest.raises(TooLate, match="within 5 s"):
            client.run(_passed(_LATE_S), 5)


def test_what_cannot_be_simulated_is_refused_by_name() -> None:
    with Cluster(World(1), Path("/nowhere"), 0) as cluster:
        client = cluster.client("10.1.0.1")
        with pytest.raises(CannotBeSimulated, match="a subprocess"):
            client.run(asyncio.create_subprocess_exec("true"))
        with pytest.raises(CannotBeSimulated, match="TLS"):
            client.run(asyncio.open_connection("10.0.0.1", 9092, ssl=True))
