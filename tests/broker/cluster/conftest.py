"""A cluster for each test, in a tree of its own of a real ZooKeeper."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from odradek.tests.support.clusters.members import Members, members
from odradek.tests.support.clusters.zookeeper import ZooKeeperProcess


@pytest.fixture
async def cluster(tmp_path: Path, ensemble: ZooKeeperProcess) -> AsyncIterator[Members]:
    async with members(tmp_path, ensemble, f"{tmp_path.parent.name}-{tmp_path.name}") as made:
        yield made
