"""Static members that come under an id that another member has, or that they had without an instance id."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.broker.coordination.consumer.state import ConsumerGroup
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, encode_versioned
from odradek.tests.broker.coordination.classic.world import FakeContext, World


@pytest.fixture
async def world() -> World:
    world = World()
    world.config.group_consumer_assignment_interval_ms = 0
    world.groups.start()
    world.topics.add("t", 4)
    return world


def beat(world: World, member: str, epoch: int = 0, instance: str | None = None) -> Any:
    response = world.beat(member, epoch, instance_id=instance)
    assert response.error_code == 0, response
    return response


def body_of(world: World) -> ConsumerGroup:
    body = world.groups.groups["g"].state.consumer
    assert body is not None
    return body


def check_whole(world: World, *members: str) -> None:
    """Check that these are the members, also after a restart, and that all partitions have an owner."""
    described: Any = world.groups.describe_consumers(FakeContext(1), ConsumerGroupDescribeRequest(["g"]))
    assert {each.member_id for each in described.groups[0].members} == set(members)
    before = body_of(world)
    for body in (before, body_of(world.restarted())):
        assert body.members.keys() == set(members)
        assert {place[1] for place in body.owners} == set(range(4)), body.owners
        assert all(member.said is not None for member in body.members.values())


async def test_a_member_that_joins_again_under_an_instance_id_keeps_its_partitions(world: World) -> None:
    beat(world, "m1")
    answer = beat(world, "m1", 0, "i1")
    # As Kafka 4.4.0: the epoch stays, and the member has all partitions.
    assert answer.member_epoch == 2 and len(answer.assignment.topic_partitions[0].partitions) == 4
    assert body_of(world).static == {"i1": "m1"}
    check_whole(world, "m1")


async def test_a_member_that_takes_another_instance_id_keeps_its_partitions(world: World) -> None:
    beat(world, "m1", 0, "i1")
    assert beat(world, "m1", 0, "i2").member_epoch == 2
    assert body_of(world).static == {"i2": "m1"}
    check_whole(world, "m1")


@pytest.mark.parametrize("interval_ms", [0, 1000])
async def test_a_member_that_takes_the_place_of_another_one_leaves_its_own(world: World, interval_ms: int) -> None:
    world.config.group_consumer_assignment_interval_ms = interval_ms
    first = beat(world, "m1", 0, "i1")
    beat(world, "m2")
    world.wait(2000)
    first = beat(world, "m1", first.member_epoch, "i1")
    owned = [] if first.assignment is None else first.assignment.topic_partitions
    world.beat("m1", first.member_epoch, instance_id="i1", topic_partitions=owned)
    world.wait(2000)
    beat(world, "m2", body_of(world).members["m2"].current.epoch)
    assert len(set(body_of(world).owners.values())) == 2
    beat(world, "m1", -2, "i1")
    beat(world, "m2", 0, "i1")
    world.wait(2000)
    beat(world, "m2", body_of(world).members["m2"].current.epoch, "i1")
    check_whole(world, "m2")


async def test_a_classic_member_with_an_id_that_is_no_static_member_is_unknown(world: World) -> None:
    beat(world, "m1")
    metadata = encode_versioned(ConsumerProtocolSubscription(topics=["t"]), 0)
    answer = world.join("m1", group_instance_id="i1", metadata=metadata)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    check_whole(world, "m1")


async def test_a_full_group_takes_a_static_member_that_comes_back(world: World) -> None:
    world.config.group_consumer_max_size = 2
    beat(world, "m1", 0, "i1")
    beat(world, "m2")
    # As Kafka 4.4.0: its place counts, whether it is free or not.
    assert world.beat("m3", 0, instance_id="i1").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    beat(world, "m1", -2, "i1")
    assert world.beat("m3", 0, instance_id="i2").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    beat(world, "m3", 0, "i1")
    assert body_of(world).static == {"i1": "m3"}
