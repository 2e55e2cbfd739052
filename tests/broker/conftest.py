"""A broker in the test's own loop, and a connection to it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.tests.support.raw import Raw


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    """On a free port, in a directory of its own, with groups that do not wait for more members."""
    return BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        log_dirs=(str(tmp_path / "data"),),
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=3,
    )


@pytest.fixture
async def broker(config: BrokerConfig) -> AsyncIterator[Broker]:
    async with Broker(config) as each:
        yield each


@pytest.fixture
async def raw(broker: Broker) -> AsyncIterator[Raw]:
    async with await Raw.connect(broker.address) as each:
        yield each
