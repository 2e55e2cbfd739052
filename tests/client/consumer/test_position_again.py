"""A search for a committed offset that fails is told once and made again: the consumer is not lost for it."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.client import Consumer, TopicPartition
from odradek.client.errors import ErrorCode, KafkaError
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.wire import Call

T0 = TopicPartition("t", 0)


async def refused(_: Call) -> Any:
    group = OffsetFetchResponseGroup("g", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return OffsetFetchResponse(groups=[group])


async def position(consumer: Consumer) -> object:
    return await consumer.position(T0)


async def poll(consumer: Consumer) -> object:
    return await consumer.getmany(timeout_ms=10_000)


@pytest.mark.parametrize("call", [position, poll])
async def test_the_offset_is_looked_for_again(cluster: FakeCluster, call: Any) -> None:
    cluster.group.committed["t", 0] = 3
    cluster.on(ApiKey.OFFSET_FETCH, refused)
    async with Consumer(bootstrap_servers=cluster.address, group_id="g") as consumer:
        consumer.assign([T0])
        with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
            await call(consumer)
        assert await consumer.position(T0) == 3
