"""A coordinator whose partition moves away again before its load has had a turn gives it up for good."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest
from odradek.broker.replication.coordinator_moves import CoordinatorMoves
from odradek.broker.topics.topic_names import OFFSETS_TOPIC
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.coordination.classic.world import World


class FakePartition(NamedTuple):
    topic: str
    index: int


@pytest.fixture
async def moves() -> tuple[World, Any]:
    world = World()
    return world, CoordinatorMoves(world.groups, world.groups, world.groups)  # type: ignore[arg-type]


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_partition_that_is_given_up_at_once_is_not_loaded(moves: tuple[World, Any]) -> None:
    world, of = moves
    index = world.groups.shards.partition_of("g")
    of.begun(FakePartition(OFFSETS_TOPIC, index))
    assert world.groups.shards.check("g") == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    of.ended(FakePartition(OFFSETS_TOPIC, index))
    assert world.groups.shards.check("g") == ErrorCode.NOT_COORDINATOR
    await turns()
    assert world.groups.shards.check("g") == ErrorCode.NOT_COORDINATOR


async def test_a_partition_that_comes_back_at_once_is_loaded_once(moves: tuple[World, Any]) -> None:
    world, of = moves
    index = world.groups.shards.partition_of("g")
    reads: list[int] = []
    world.log.partitions[index] = []
    world.log.entries = lambda partition: (reads.append(partition), iter(()))[1]  # type: ignore[assignment]
    for _ in range(3):
        of.begun(FakePartition(OFFSETS_TOPIC, index))
        of.ended(FakePartition(OFFSETS_TOPIC, index))
    of.begun(FakePartition(OFFSETS_TOPIC, index))
    await turns()
    assert world.groups.shards.check("g") == ErrorCode.NONE
    assert reads == [index]
