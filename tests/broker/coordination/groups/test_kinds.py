"""One id is one kind of group, whatever meets while the log has not committed: first requests of every kind, by twos
and by seed, with appends that fail, groups that are deleted, and a coordinator that starts again.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
from odradek.broker.coordination.groups.records import decode_record
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from odradek.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.tests.broker.coordination.classic.world import FakeContext, World
from odradek.tests.support.seeds import seeds

FAILURE = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "a test's disk is full")


def consumer_beat(world: World, epoch: int = 0) -> Any:
    return world.beat("m", epoch)


def share_beat(world: World, epoch: int = 0, member: str = "m") -> Any:
    topics = ["t"] if epoch == 0 else None
    return world.groups.share.heartbeat(
        FakeContext(1), ShareGroupHeartbeatRequest("g", member, epoch, subscribed_topic_names=topics)
    )


def alter(world: World) -> Any:
    topic = AlterShareGroupOffsetsRequestTopic("t", [AlterShareGroupOffsetsRequestPartition(0, 1)])
    altered = world.groups.share.alter_offsets(FakeContext(0), AlterShareGroupOffsetsRequest("g", [topic]))
    return asyncio.ensure_future(altered)


def delete_share_offsets(world: World) -> Any:
    request = DeleteShareGroupOffsetsRequest("g", [DeleteShareGroupOffsetsRequestTopic("t")])
    return asyncio.ensure_future(world.groups.share.delete_offsets(FakeContext(0), request))


def commit(world: World) -> Any:
    return world.commit(1)


def commit_in_transaction(world: World) -> Any:
    return world.ask_in_transaction(1, 7, lambda _: ErrorCode.NONE)


def join(world: World) -> Any:
    return world.join(version=3)


def join_without_an_id(world: World) -> Any:
    return world.join(version=9)


FIRST: list[Callable[[World], Any]] = [
    consumer_beat,
    share_beat,
    alter,
    commit,
    commit_in_transaction,
    join,
    join_without_an_id,
]


def kinds_in_log(world: World) -> set[str]:
    """Return the kinds of group that the records of `g` make it."""
    last: dict[bytes, bytes | None] = {}
    for entry in world.log.partitions.get(world.groups.shards.partition_of("g"), ()):
        assert not hasattr(entry, "commit")
        key, value = entry[0], entry[1]
        last[key] = value
    found: set[str] = set()
    for key, value in last.items():
        kind = int.from_bytes(key[:2], "big")
        if value is not None:
            decode_record(key, value)
            name = "classic" if kind == 2 else "share" if 10 <= kind <= 15 else "consumer"
            found.add("offsets" if kind < 2 else name)
    return found


def check(world: World) -> None:
    """Check that the group is of one kind, in the log and in memory."""
    kinds = kinds_in_log(world)
    assert "share" not in kinds or kinds == {"share"}, kinds
    assert not {"classic", "consumer"} <= kinds, kinds
    actor = world.groups.groups.get("g")
    if actor is not None:
        group = actor.state
        assert (group.share is not None) + (group.consumer is not None) <= 1
        if group.share is not None or group.consumer is not None:
            assert not group.recorded and not group.roster.members and not group.roster.pending
        assert group.share is None or not (group.offsets or group.offsets.pending)


def futures(asked: list[Any]) -> list[asyncio.Future[Any]]:
    """Return the answers that had to wait."""
    return [each for each in asked if hasattr(each, "done")]


async def settle(world: World) -> None:
    """Let tasks run, and commit what is appended, until nothing moves."""
    for _ in range(20):
        await asyncio.sleep(0)
        while world.log.held:
            world.log.answer()
            check(world)


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(FIRST, 2)))
async def test_two_first_requests_of_an_id_make_one_kind_of_group(
    one: Callable[[World], Any], other: Callable[[World], Any]
) -> None:
    world = World()
    world.groups.start()
    world.log.hold = True
    asked = [one(world), other(world)]
    for _ in range(5):
        await asyncio.sleep(0)
    check(world)
    await settle(world)
    await asyncio.wait_for(asyncio.gather(*futures(asked)), 5)
    check(world)
    world.restarted()


STEPS: list[Callable[[World], Any]] = [
    *FIRST,
    lambda world: consumer_beat(world, -1),
    lambda world: share_beat(world, -1),
    lambda world: world.leave("client-1"),
    lambda world: world.delete("g"),
    lambda world: world.uncommit(0),
    delete_share_offsets,
    lambda world: world.groups.end_transaction(world.groups.shards.partition_of("g"), 7, True),
    lambda world: world.groups.forget_topic("t", world.topics.topics[0].id),
]


@pytest.mark.parametrize("seed", seeds(range(24), range(80, 1_000)))
async def test_an_id_is_one_kind_of_group_by_seed(seed: int) -> None:
    chance = random.Random(seed)
    world = World()
    world.groups.start()
    asked: list[Any] = []
    for _ in range(120):
        world.log.hold = chance.random() < 0.8
        roll = chance.random()
        if roll < 0.55:
            asked.append(chance.choice(STEPS)(world))
        elif roll < 0.8 and world.log.held:
            world.log.answer(FAILURE if chance.random() < 0.15 else None)
        elif roll < 0.85:
            world.wait(chance.choice([10, 12_000, 50_000]))
        elif roll < 0.87:
            await settle(world)
            old, world = world, world.restarted()
            world.persister.states, world.clock.time_ms = old.persister.states, old.clock.time_ms
        await asyncio.sleep(0)
        check(world)
    await settle(world)
    world.groups.stop()
    await settle(world)
    for each in futures(asked):
        assert each.done(), "a request was never answered"
        each.result()
