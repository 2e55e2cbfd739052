"""A real ZooKeeper for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from odradek.tests.support.clusters.zookeeper import ZooKeeperProcess, why_missing, zookeeper


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    if why_missing():
        pytest.skip(why_missing())
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as process:
        yield process
