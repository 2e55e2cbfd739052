"""For tests of clients: a cluster of one topic `t` with one partition, and Arrow columns in each way of decoding."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from odradek.tests.support.brokers.compiled_kernel import records_by
from odradek.tests.support.fakes.fake_cluster import FakeCluster


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster({"t": 1}) as started:
        yield started


@pytest.fixture(params=["Python", "kernel"], scope="module")
def arrow_way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Decode and encode by what the parameter says: `pytestmark = pytest.mark.usefixtures("arrow_way")`."""
    with records_by(request.param):
        yield request.param
