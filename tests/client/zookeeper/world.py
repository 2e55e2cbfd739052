"""One broker of a cluster, topics, and connectors of a test."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from odradek.broker import Broker
from odradek.client import Producer
from odradek.client.zookeeper import ConsumerConnector
from odradek.client.zookeeper.reading import MessageStream
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.clusters.members import Members

WAIT_S = 60


class World:
    """One broker, topics, and the connectors of a test."""

    def __init__(self, members: Members, broker: Broker, raw: Raw, stack: AsyncExitStack) -> None:
        self.members = members
        self.broker = broker
        self.raw = raw
        self.stack = stack

    def connector(self, group: str = "g", **options: Any) -> ConsumerConnector:
        """A connector that is quick to try again."""
        defaults: dict[str, Any] = {
            "zookeeper_connect": self.members.base.zookeeper_connect,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "rebalance_backoff_ms": 10,
            "rebalance_max_retries": 400,
        }
        return ConsumerConnector(**(defaults | options))

    async def join(
        self, topics: dict[str, int], **options: Any
    ) -> tuple[ConsumerConnector, dict[str, list[MessageStream]]]:
        """A member of the group, and its streams."""
        connector = await self.stack.enter_async_context(self.connector(**options))
        return connector, await connector.create_message_streams(topics)

    async def send(self, topic: str, partition: int, *values: str) -> None:
        async with Producer(bootstrap_servers=self.broker.address) as producer:
            for value in values:
                await producer.send_and_wait(topic, value.encode(), partition=partition)


async def take(stream: MessageStream, count: int) -> list[str]:
    async with asyncio.timeout(WAIT_S):
        return [((await anext(stream)).value or b"").decode() for _ in range(count)]
