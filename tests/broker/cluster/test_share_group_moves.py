"""A share group in a cluster whose brokers stop one after the other: leaders, coordinators and states move."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from odradek.broker import Broker
from odradek.client import KafkaError, Producer, ShareConsumer, TopicPartition
from odradek.tests.broker.cluster.test_changes import assign, view
from odradek.tests.support.clusters.members import Members
from odradek.tests.support.waiting import until

OWN = {
    "share_coordinator_state_topic_num_partitions": 3,
    "share_coordinator_state_topic_replication_factor": 3,
    "share_coordinator_state_topic_min_isr": 1,
    "offsets_topic_replication_factor": 3,
    "group_share_min_heartbeat_interval_ms": 50,
    "group_share_heartbeat_interval_ms": 50,
    "group_share_assignment_interval_ms": 0,
}
PARTITIONS = 2
WITHIN_S = 120


class Worker:
    """A member that takes records, and notes which acceptances the leaders have answered."""

    def __init__(self, addresses: Sequence[str], accepted: dict[TopicPartition, set[int]]) -> None:
        self.accepted = accepted
        self.consumer: ShareConsumer[Any, Any] = ShareConsumer(
            "t", bootstrap_servers=addresses, group_id="g", acknowledgement_listener=self._told
        )
        self.again: list[tuple[TopicPartition, int]] = []
        self.delivered: dict[TopicPartition, set[int]] = defaultdict(set)

    def _told(self, place: TopicPartition, offsets: Sequence[int], error: KafkaError | None) -> None:
        if error is None:
            self.accepted[place].update(offsets)

    async def run(self) -> None:
        async with self.consumer:
            while True:
                with suppress(KafkaError):
                    for place, records in (await self.consumer.getmany(timeout_ms=200, max_records=7)).items():
                        offsets = {each.offset for each in records}
                        self.again += [(place, offset) for offset in offsets & self.accepted[place]]
                        self.delivered[place] |= offsets
                await asyncio.sleep(0)


async def test_no_record_is_lost_and_none_comes_again_after_its_acceptance(cluster: Members) -> None:
    brokers = {number: await cluster.start(number, **OWN) for number in (1, 2, 3)}
    await assign(await cluster.raw(brokers[1]), [[1, 2, 3], [2, 3, 1]])
    await until(lambda: all(each.topics.get("t") is not None for each in brokers.values()))
    addresses = [each.address for each in brokers.values()]
    accepted: dict[TopicPartition, set[int]] = defaultdict(set)
    workers = [Worker(addresses, accepted) for _ in range(2)]
    async with asyncio.TaskGroup() as group, asyncio.timeout(WITHIN_S):
        tasks = [group.create_task(each.run()) for each in workers]
        # A new group begins at the end: what is written before it has begun is not for it.
        written = await write_until_some_are_accepted(addresses, accepted)
        async with Producer(addresses) as producer:
            for number in (1, 2, 3, 1):
                stopped = asyncio.create_task(brokers[number].stop())
                await write(producer, written, 40)
                await stopped
                others = [each for each in brokers if each != number]
                await until(lambda others=others: all(_led(brokers[others[0]], index, others) for index in range(2)))
                await write(producer, written, 40)
                listeners = (f"PLAINTEXT://{addresses[number - 1]}",)
                brokers[number] = await cluster.start(number, listeners=listeners, **OWN)
                await write(producer, written, 40)
        await until(lambda: not any(written[place] - accepted[place] for place in written))
        for task in tasks:
            task.cancel()
    assert [each.again for each in workers] == [[], []]


def _led(broker: Broker, index: int, by: Sequence[int]) -> bool:
    return view(broker, "t", index).leader in by


async def write(producer: Producer[Any, Any], written: dict[TopicPartition, set[int]], count: int) -> None:
    for number in range(count):
        record = await producer.send_and_wait("t", b"%d" % number, partition=number % PARTITIONS)
        written[TopicPartition("t", record.partition)].add(record.offset)


async def write_until_some_are_accepted(
    addresses: Sequence[str], accepted: dict[TopicPartition, set[int]]
) -> dict[TopicPartition, set[int]]:
    """Return the records that are for the group in any case."""
    written: dict[TopicPartition, set[int]] = defaultdict(set)
    async with Producer(addresses) as producer:
        while len([place for place in accepted if accepted[place]]) < PARTITIONS:
            await write(producer, written, PARTITIONS)
            await asyncio.sleep(0.02)
    return {place: {offset for offset in written[place] if offset >= min(accepted[place])} for place in written}
