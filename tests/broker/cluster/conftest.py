"""A real ZooKeeper for the tests of this folder, and a cluster in a tree of its own for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from odradek.tests.support.clusters.members import Members, members
from odradek.tests.support.clusters.zookeeper import ZooKeeperProcess, why_missing, zookeeper


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    if why_missing():
        pytest.skip(why_missing())
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as process:
        yield process


@pytest.fixture
async def cluster(tmp_path: Path, ensemble: ZooKeeperProcess) -> AsyncIterator[Members]:
    async with members(tmp_path, ensemble, f"{tmp_path.parent.name}-{tmp_path.name}") as made:
        yield made
