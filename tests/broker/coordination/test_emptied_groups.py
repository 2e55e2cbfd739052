"""Groups of KIP-848 and KIP-932 whose last member is gone, as a running Kafka 4.4.0 answered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.tests.support.clients.raw import Raw


async def beat(raw: Raw, kind: str, member_id: str, epoch: int) -> Any:
    """Join with epoch 0, leave with -1."""
    if kind == "share":
        share = ShareGroupHeartbeatRequest("g", member_id, epoch, subscribed_topic_names=["t"])
        return await raw.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, share)
    request = ConsumerGroupHeartbeatRequest("g", member_id, epoch, rebalance_timeout_ms=60_000)
    request.subscribed_topic_names, request.topic_partitions = ["t"], []
    return await raw.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)


async def epochs(raw: Raw, kind: str) -> tuple[str, int, int]:
    if kind == "share":
        response = await raw.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, ShareGroupDescribeRequest(["g"]))
    else:
        response = await raw.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest(["g"]))
    (group,) = response.groups
    return group.group_state, group.group_epoch, group.assignment_epoch


@pytest.mark.parametrize("kind", ["consumer", "share"])
async def test_the_next_member_gets_its_partitions_at_once(config: BrokerConfig, kind: str) -> None:
    slow = {f"group_{kind}_assignment_interval_ms": 15_000}
    config = replace(config, **slow)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 2)
        assert (await beat(raw, kind, "first", 0)).error_code == 0
        assert (await beat(raw, kind, "first", -1)).error_code == 0
        emptied = await epochs(raw, kind)
        assert emptied[0] == "Empty" and emptied[1] == emptied[2]
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert await epochs(raw, kind) == emptied
        joined = await beat(raw, kind, "next", 0)
        ((topic,),) = [joined.assignment.topic_partitions]
        assert (joined.member_epoch, topic.partitions) == (emptied[1] + 1, [0, 1])
