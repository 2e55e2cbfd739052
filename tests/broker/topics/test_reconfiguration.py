"""How the partitions of many topics get other configs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.broker.configs.topic_config import TopicConfig
from odradek.tests.support.brokers.slices import end_slices_after


def limits(broker: Broker) -> list[int]:
    return [each.max_message_bytes for each in broker.topics.partitions()]


async def test_partitions_follow_a_change_of_configs_some_in_each_turn(broker: Broker) -> None:
    topics = [broker.topics.create(name, 2, {}) for name in ("a", "b", "c")]
    end_slices_after(2)
    broker.services.reconfiguration.alter("", {"message.max.bytes": "2000"})
    assert limits(broker) == [2000] * 2 + [1048588] * 4
    # A later change, and a deletion, come in between.
    broker.topics.alter(topics[1], {"max.message.bytes": "3000"})
    broker.services.delete_topic(topics[2])
    for _ in range(4):
        await asyncio.sleep(0)
    assert limits(broker) == [2000] * 2 + [3000] * 2
    assert topics[2].partitions[0].max_message_bytes == 1048588


async def test_the_same_configs_of_many_topics_are_checked_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        broker.topics.create(f"t{number}", 1, {"retention.ms": f"{number % 2 + 1}000"})
    resolve, checked = TopicConfig.resolve, list[dict[str, str]]()

    def count(config: Any, configs: dict[str, str]) -> TopicConfig:
        checked.append(configs)
        return resolve(config, configs)

    monkeypatch.setattr(TopicConfig, "resolve", count)
    broker.services.reconfiguration.alter("", {"message.max.bytes": "2000"})
    assert checked == [{"retention.ms": "1000"}, {"retention.ms": "2000"}]
    assert limits(broker) == [2000] * 10


async def test_a_topic_that_is_being_created_follows_a_change_of_the_broker(broker: Broker) -> None:
    created = asyncio.ensure_future(broker.topics.begin("a", 3, {"segment.bytes": "2000000"}).wait())
    await asyncio.sleep(0)
    assert broker.topics.get("a") is None
    broker.services.reconfiguration.alter("", {"message.max.bytes": "2000"})
    topic = await created
    assert (topic.config.max_message_bytes, topic.config.segment_bytes) == (2000, 2_000_000)
    assert limits(broker) == [2000] * 3
