"""Brokers of a cluster in one event loop, with a real ZooKeeper."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from odradek.broker import Broker, BrokerConfig
from odradek.broker.cluster.member import Member
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.clusters.zookeeper import ZooKeeperProcess


class Members:
    """Makes brokers of one cluster, and stops them at the end."""

    def __init__(self, folder: Path, connect: str, stack: AsyncExitStack) -> None:
        self.folder = folder
        self.stack = stack
        self.base = BrokerConfig(
            listeners=("PLAINTEXT://127.0.0.1:0",),
            zookeeper_connect=connect,
            zookeeper_session_timeout_ms=10_000,
            zookeeper_connection_timeout_ms=30_000,
            group_initial_rebalance_delay_ms=0,
            offsets_topic_num_partitions=1,
            transaction_state_log_num_partitions=1,
            share_coordinator_state_topic_num_partitions=1,
            offsets_topic_replication_factor=1,
            transaction_state_log_replication_factor=1,
            controlled_shutdown_retry_backoff_ms=20,
            replica_fetch_backoff_ms=20,
            num_network_threads=1,
        )

    def config(self, name: str, **configs: Any) -> BrokerConfig:
        """Return the config of a broker whose data directory has this name."""
        return replace(self.base, log_dirs=(str(self.folder / name),), **configs)

    async def start(self, number: int, **configs: Any) -> Broker:
        """Start a broker with this number; it is stopped at the end of the test."""
        name = configs.pop("name", f"broker-{number}")
        broker = Broker(self.config(name, broker_id=number, **configs))
        await broker.start()
        self.stack.push_async_callback(broker.stop)
        return broker

    async def raw(self, broker: Broker) -> Raw:
        """Return a connection to a broker."""
        return await self.stack.enter_async_context(await Raw.connect(broker.address))


def member(broker: Broker) -> Member:
    """Return the membership of a broker."""
    found = broker.services.cluster
    assert found is not None
    return found


@asynccontextmanager
async def members(folder: Path, ensemble: ZooKeeperProcess, name: str) -> AsyncIterator[Members]:
    """Yield a cluster with a chroot of its own."""
    async with AsyncExitStack() as stack:
        yield Members(folder, f"{ensemble.address}/{name}", stack)
