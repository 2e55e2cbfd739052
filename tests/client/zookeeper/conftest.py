"""A broker of a cluster for each test, in a tree of its own of a real ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import uvloop
from odradek.tests.client.zookeeper.world import World
from odradek.tests.support.clusters.members import Members, members
from odradek.tests.support.clusters.zookeeper import ZooKeeperProcess


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run these tests once, because each starts a broker."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def cluster(tmp_path: Path, ensemble: ZooKeeperProcess) -> AsyncIterator[Members]:
    async with members(tmp_path, ensemble, f"{tmp_path.parent.name}-{tmp_path.name}") as made:
        yield made


@pytest.fixture
async def world(cluster: Members) -> AsyncIterator[World]:
    broker = await cluster.start(1)
    raw = await cluster.raw(broker)
    async with AsyncExitStack() as stack:
        yield World(cluster, broker, raw, stack)
