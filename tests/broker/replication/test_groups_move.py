"""A group whose coordinator moves at each of the five stages of a rebalance.

Joining, leader chosen, assignment under way, some members synced, stable: clients that wait are sent to the next
coordinator (NOT_COORDINATOR), it answers COORDINATOR_LOAD_IN_PROGRESS while it loads, what was told to a member holds
there, and the members agree on one generation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.broker.coordination.partition_hash import partition_for
from odradek.broker.coordination.shards import Shards
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.coordination.groups import wire_requests as wire
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.waiting import until

OFFSETS = "__consumer_offsets"
# How many partitions the internal topics of a HandCluster have.
INDEX = partition_for("g", 2)
NONE, MOVED, LOADING = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Member:
    """A member of group g. `node` is the broker that it takes for the coordinator."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.id = ""
        self.generation = -1
        self.assignment = b""
        self.joined: Any = None

    async def connect(self, node: int | None = None) -> Raw:
        return await self.stage.cluster.connect(node or self.stage.node)

    async def join(self) -> ErrorCode:
        patient = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000}
        async with await self.connect() as raw:
            answer = await wire.join(raw, self.id, 5, **patient)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = answer.member_id
            return await self.join()
        if not answer.error_code:
            self.joined, self.generation = answer, answer.generation_id
        return ErrorCode.of(answer.error_code)

    async def sync(self) -> ErrorCode:
        given = {each.member_id: each.member_id.encode() for each in self.joined.members}
        async with await self.connect() as raw:
            answer = await wire.sync(raw, self.id, self.generation, 3, assign=given)
        self.assignment = answer.assignment
        return ErrorCode.of(answer.error_code)

    async def beat(self, node: int | None = None) -> ErrorCode:
        async with await self.connect(node) as raw:
            return ErrorCode.of(await wire.heartbeat(raw, self.id, self.generation, 3))

    async def commit(self, offset: int, node: int | None = None) -> ErrorCode:
        who = {"generation_id_or_member_epoch": self.generation, "member_id": self.id}
        async with await self.connect(node) as raw:
            (code,) = await wire.commit(raw, {0: offset}, 7, **who)
            return ErrorCode.of(code)

    @property
    def is_leader(self) -> bool:
        return self.joined.leader == self.id


class Stage:
    """Three brokers, the first of which coordinates."""

    def __init__(self, cluster: HandCluster) -> None:
        self.cluster = cluster
        self.node = 1

    def shards(self, node: int) -> Shards[Any, Any]:
        return self.cluster.brokers[node].services.groups.shards

    async def lead(self, node: int, **rest: Any) -> None:
        """Make a broker the coordinator, and have members ask it."""
        await self.cluster.assign(OFFSETS, INDEX, leader=node, **rest)
        self.node = node
        await until(lambda: INDEX in self.shards(node).owned)

    async def stable(self, count: int) -> list[Member]:
        """Bring so many members into one generation; the first is the leader."""
        return await self.settle([Member(self) for _ in range(count)])

    async def settle(self, members: list[Member]) -> list[Member]:
        """Have all join and sync until they have their assignments in one generation."""
        for each in members:
            each.assignment = b""

        def is_settled() -> bool:
            same = len({each.generation for each in members}) == 1
            return same and all(each.assignment and each.assignment == each.id.encode() for each in members)

        async def settle(member: Member) -> None:
            while not is_settled():
                code = await member.join()
                if code is ErrorCode.UNKNOWN_MEMBER_ID:
                    member.id = ""
                if code or await member.sync():
                    continue
                while not is_settled() and await member.beat() is NONE:
                    await asyncio.sleep(0.002)

        async with asyncio.timeout(30):
            await asyncio.gather(*map(settle, members))
        return sorted(members, key=lambda each: not each.is_leader)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with HandCluster(tmp_path, replica_fetch_wait_max_ms=20) as cluster:
        await cluster.assign("t", leader=1)
        made = Stage(cluster)
        await made.lead(1)
        yield made


async def waiting(stage: Stage, *calls: Any) -> list[asyncio.Future[ErrorCode]]:
    """Send requests, and return once the coordinator has them."""
    started = [asyncio.ensure_future(each) for each in calls]
    actor = stage.shards(stage.node).actors["g"]
    await until(lambda: len(parked(actor)) >= len(started))
    assert not any(each.done() for each in started)
    return started


def parked(actor: Any) -> list[Any]:
    """Return the requests that wait in a group."""
    roster = actor.state.roster
    return [*roster.joins.values(), *roster.syncs.values()]


async def test_while_members_join(stage: Stage) -> None:
    leader, follower = await stage.stable(2)
    third = Member(stage)
    joins = await waiting(stage, leader.join(), third.join())
    assert await follower.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    await stage.lead(2)
    assert [await each for each in joins] == [MOVED, MOVED]
    # What the log has is the generation before, with both of its members.
    assert [await each.beat() for each in (leader, follower)] == [NONE, NONE]
    assert await follower.commit(5) is NONE
    assert await third.join() is ErrorCode.UNKNOWN_MEMBER_ID
    third.id = ""
    generation = leader.generation
    await stage.settle([leader, follower, third])
    assert leader.generation > generation


async def test_when_the_leader_is_chosen(stage: Stage) -> None:
    leader, follower = await stage.stable(2)
    third = Member(stage)
    (join,) = await waiting(stage, third.join())
    assert await asyncio.gather(leader.join(), follower.join(), join) == [NONE] * 3
    (sync,) = await waiting(stage, follower.sync())
    await stage.lead(2)
    assert await sync is MOVED
    # Nobody was told an assignment of that generation, and it is as if it had never been.
    assert await leader.sync() is ErrorCode.ILLEGAL_GENERATION
    assert await third.sync() is ErrorCode.UNKNOWN_MEMBER_ID
    third.id = ""
    await stage.settle([leader, follower, third])


async def test_while_the_assignment_is_under_way(stage: Stage) -> None:
    leader, follower = await stage.stable(2)
    assert await asyncio.gather(leader.join(), follower.join()) == [NONE, NONE]
    # The followers fetch no more, so that no record is committed.
    await stage.cluster.assign(OFFSETS, INDEX, leader=1, to=(1,))
    epoch = stage.cluster.controller.states[OFFSETS, INDEX].leader_epoch
    assert stage.cluster.partition(1, OFFSETS, INDEX).leader_epoch == epoch
    end = stage.cluster.partition(1, OFFSETS, INDEX).log.log_end_offset
    syncs = [asyncio.ensure_future(each.sync()) for each in (leader, follower)]
    await until(lambda: stage.cluster.partition(1, OFFSETS, INDEX).log.log_end_offset > end)
    await stage.lead(2)
    assert [await each for each in syncs] == [MOVED, MOVED]
    assert [await each.sync() for each in (leader, follower)] == [ErrorCode.ILLEGAL_GENERATION] * 2
    await stage.settle([leader, follower])


async def test_when_some_members_are_synced(stage: Stage) -> None:
    leader, follower = await stage.stable(2)
    assert await asyncio.gather(leader.join(), follower.join()) == [NONE, NONE]
    assert await leader.sync() is NONE
    await stage.lead(2)
    # The assignment is in the log: the other gets its part from there, in the same generation.
    assert await follower.sync() is NONE
    assert follower.assignment == follower.id.encode()
    assert [await each.beat() for each in (leader, follower)] == [NONE, NONE]


async def test_a_stable_group_stays_as_it_is(stage: Stage) -> None:
    members = await stage.stable(3)
    assert await members[0].commit(7) is NONE
    for node in (2, 3, 1):
        old = stage.node
        await stage.lead(node)
        assert await members[0].beat(old) is MOVED
        assert await members[0].commit(9, old) is MOVED
        assert [await each.beat() for each in members] == [NONE] * 3
        assert [await each.commit(8) for each in members] == [NONE] * 3


async def test_a_coordinator_that_loads_says_so(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = await stage.stable(2)
    is_read = asyncio.Event()
    load = Shards._load

    def slow(shards: Shards[Any, Any], partition: int) -> Iterator[None]:
        shards.loading.add(partition)
        while not is_read.is_set():
            yield
        yield from load(shards, partition)

    monkeypatch.setattr(Shards, "_load", slow)
    await stage.cluster.assign(OFFSETS, INDEX, leader=2)
    stage.node = 2
    assert await leader.commit(1) is LOADING
    assert await leader.join() is LOADING
    assert await leader.sync() is LOADING
    # A member that only says that it lives cannot be wrong.
    assert await follower.beat() is NONE
    is_read.set()
    await until(lambda: INDEX in stage.shards(2).owned)
    assert [await each.beat() for each in (leader, follower)] == [NONE, NONE]
    assert await leader.commit(1) is NONE
