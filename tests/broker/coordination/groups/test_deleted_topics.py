"""Offsets of topics that are deleted, and of topics that are made again under their names."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.protocol.primitives import ZERO_UUID
from odradek.tests.broker.coordination.classic.world import TOPIC_ID, FakeContext, World
from odradek.tests.support.brokers.slices import end_slices_after
from odradek.tests.support.waiting import until


async def test_a_deleted_topic_loses_its_offsets_in_every_group(world: World) -> None:
    leader, _ = world.stable_pair()
    world.commit(1, leader, 2)
    world.commit(2, group="other")
    world.groups.forget_topic("t", TOPIC_ID)
    assert world.committed() == world.committed("other") == -1
    assert set(world.groups.groups) == {"g", "other"}
    assert world.restarted().committed() == -1


async def test_many_groups_lose_the_offsets_of_a_deleted_topic_a_few_a_turn(world: World) -> None:
    for number in range(many := 30):
        world.commit(7, group=f"g-{number}")
    end_slices_after(10)
    world.groups.forget_topic("t", TOPIC_ID)
    assert [world.committed(f"g-{number}") for number in (9, 10)] == [-1, 7]
    world.topics.topics[0] = replace(world.topics.topics[0], id=bytes(range(16, 32)))
    world.commit(8, group=f"g-{many - 1}")
    await until(lambda: sum(bool(actor.state.offsets) for actor in world.groups.groups.values()) <= 1)
    assert world.committed(f"g-{many - 1}") == 8, "of the new topic"


async def test_offsets_without_a_topic_id_are_not_those_of_a_topic_that_was_made_again(world: World) -> None:
    """Earlier versions wrote none, nor does Kafka before 4.1."""
    old = world.topics.topics[0]
    world.topics.topics[0] = replace(old, id=ZERO_UUID)
    for number in range(11):
        world.commit(7, group=f"g-{number}")
    end_slices_after(10)
    world.topics.topics[0] = old
    last = "g-10"
    assert world.committed(last) == 7
    world.groups.forget_topic("t", TOPIC_ID)
    world.topics.topics[0] = replace(old, id=bytes(range(16, 32)))
    world.commit(8, group=last, partition=1)
    await asyncio.sleep(0)
    assert (world.committed(last), world.committed(last, 1)) == (-1, 8)


async def test_a_topic_that_was_made_again_has_no_offsets_of_the_one_before(world: World) -> None:
    world.commit(1)
    world.commit(2, group="other", partition=1)
    new = world.topics.topics[0] = replace(world.topics.topics[0], id=bytes(range(16, 32)))
    # The tombstones are missing: a power cut took them.
    assert world.committed() == world.committed("other", 1) == -1
    everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
    (group,) = world.groups.fetch_offsets(FakeContext(9), everything).groups
    assert [topic.partitions for topic in group.topics] == [[]]
    world.commit(3, group="other")
    world.groups.drop_lost_topics()
    assert (world.committed(), world.committed("other"), world.committed("other", 1)) == (-1, 3, -1)
    again = world.restarted()
    assert set(again.groups.groups) == {"other"}
    again.topics.topics[0] = new
    assert (again.committed("other"), again.committed("other", 1)) == (3, -1)


async def test_offsets_of_a_topic_that_is_not_there_are_dropped_at_a_start(world: World) -> None:
    world.commit(1)
    world.topics.topics.clear()
    world.groups.drop_lost_topics()
    world.wait(60_000)
    assert not world.groups.groups
    assert world.restarted().committed() == -1


async def test_offsets_of_a_topic_before_take_none_of_an_open_transaction_with_them(world: World) -> None:
    world.commit(7)
    world.topics.topics[0] = replace(world.topics.topics[0], id=bytes(range(16, 32)))
    assert world.commit_in_transaction(8, producer_id=1) == 0
    world.groups.forget_topic("t", TOPIC_ID)
    assert world.committed() == -1
    world.groups.end_transaction(world.groups.shards.partition_of("g"), 1, True)
    assert world.committed() == 8
