"""Assignors in real groups: what the leader sees of the members, and what stays when members come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.client import (
    Admin,
    Assignor,
    Consumer,
    NewTopic,
    StickyAssignor,
    TopicPartition,
)
from odradek.client.assignors import Member, Racks
from odradek.client.assignors.sticky import Claim, decode_sticky

PARTITIONS = 7


@pytest.fixture
async def address(config: BrokerConfig) -> AsyncIterator[str]:
    async with Broker(replace(config, broker_rack="here")) as broker:
        async with Admin(broker.address) as admin:
            await admin.create_topics([NewTopic("t", PARTITIONS)])
        yield broker.address


def member_of(address: str, strategy: type[Assignor], **options: Any) -> Consumer:
    quick = {"heartbeat_interval_ms": 20, "session_timeout_ms": 6_000, "auto_offset_reset": "earliest"}
    return Consumer(
        "t", bootstrap_servers=address, group_id="g", partition_assignment_strategy=[strategy], **quick | options
    )


async def until(consumers: Sequence[Consumer], true: Callable[[], bool]) -> None:
    """Poll with all until something is true."""
    async with asyncio.timeout(20):
        while not true():
            await asyncio.gather(*(consumer.getmany(timeout_ms=10) for consumer in consumers))


def are_shared(consumers: Sequence[Consumer]) -> bool:
    """Whether each partition has one owner, and loads are even."""
    hands = [consumer.assignment() for consumer in consumers]
    loads = sorted(map(len, hands))
    everything = {TopicPartition("t", number) for number in range(PARTITIONS)}
    return sum(loads) == PARTITIONS and loads[-1] - loads[0] <= 1 and frozenset().union(*hands) == everything


async def test_partitions_stay_when_members_come_and_go(address: str) -> None:
    async with AsyncExitStack() as stack:
        consumers: list[Consumer] = []
        for _ in range(3):
            before = [consumer.assignment() for consumer in consumers]
            consumers.append(await stack.enter_async_context(member_of(address, StickyAssignor)))
            await until(consumers, lambda: are_shared(consumers))
            hands = [consumer.assignment() for consumer in consumers]
            # What the newcomer has was taken from the others, and nothing else moved.
            assert all(now <= then for now, then in zip(hands, before, strict=False))
        leader, *others = consumers
        before = [consumer.assignment() for consumer in others]
        await leader.stop()
        await until(others, lambda: are_shared(others))
        assert all(now >= then for now, then in zip((each.assignment() for each in others), before, strict=True))


async def test_the_leader_sees_what_members_had_since_when_and_where_all_is(address: str) -> None:
    seen: list[tuple[Sequence[Member], Racks]] = []

    class Watching(StickyAssignor):
        def assign_with_racks(
            self, members: Sequence[Member], partitions: Mapping[str, int], racks: Racks
        ) -> dict[str, list[TopicPartition]]:
            seen.append((members, racks))
            return super().assign_with_racks(members, partitions, racks)

    async with member_of(address, Watching, client_rack="here", allow_auto_create_topics=False) as consumer:
        await until([consumer], lambda: len(consumer.assignment()) == PARTITIONS)
        consumer.subscribe("t", "u")
        await until([consumer], lambda: len(seen) > 1 and len(consumer.assignment()) == PARTITIONS)
    ((first,), racks), ((second,), _), *_ = seen
    assert first.user_data is None
    assert (first.generation_id, first.rack_id, first.owned) == (-1, "here", ())
    assert racks == {"t": [frozenset({"here"})] * PARTITIONS}
    assert decode_sticky(second.user_data) == Claim([TopicPartition("t", number) for number in range(PARTITIONS)], 1)
    assert (second.generation_id, second.owned) == (1, ())
