"""The lag of a group in time, also where a partition may not be read."""

from __future__ import annotations

import asyncio

from odradek.client import Consumer, TopicPartition
from odradek.client.unread_ages import READER_OPTIONS, ages_ms
from odradek.testing import kafka


def test_a_partition_that_may_not_be_read_is_missing_and_the_others_are_there() -> None:
    async def ages(address: str) -> dict[TopicPartition, int]:
        async with Consumer(bootstrap_servers=address, auto_offset_reset="earliest", **READER_OPTIONS) as consumer:
            return await ages_ms(consumer, {TopicPartition(each, 0): 0 for each in ("denied", "read")}, 2.0)

    with kafka() as cluster:
        for topic in ("denied", "read"):
            cluster.create_topic(topic)
            cluster.put(topic, ["x"])
        with cluster.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", topic="denied", must_fire=True):
            found = asyncio.run(ages(cluster.address))
    assert found.keys() == {TopicPartition("read", 0)}
