"""Offsets in ZooKeeper: what version 0 of OffsetCommit and OffsetFetch answers, and which znodes it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from odradek.broker.cluster.old_offsets import OldOffsets
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.testing.zookeeper import FakeZookeeper
from odradek.tests.broker.coordination.groups import wire_requests as wire
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.clusters.members import Members, member
from odradek.tests.support.clusters.steps import run_steps
from odradek.zookeeper.operations import SessionExpired, Steps, children, read


@dataclass
class Topic:
    name: str
    partitions: int
    id: bytes = bytes(16)

    def partition(self, index: int) -> object | None:
        return self if 0 <= index < self.partitions else None


class Topics:
    def __init__(self, *topics: Topic) -> None:
        self._topics = {each.name: each for each in topics}

    def get(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return None


@dataclass
class Config:
    offset_metadata_max_bytes: int = 4
    zookeeper_session_timeout_ms: int = 20


@dataclass
class Door:
    """Runs steps against the model of ZooKeeper."""

    zookeeper: FakeZookeeper = field(default_factory=FakeZookeeper)
    is_away: bool = False
    # Called before each operation.
    before: Callable[[], None] = lambda: None

    async def run(self, steps: Steps[Any]) -> Any:
        if self.is_away:
            await asyncio.Event().wait()
        return run_steps(self.zookeeper, steps, lambda _: self.before())


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def offsets(door: Door) -> OldOffsets:
    return OldOffsets(door, Topics(Topic("t", 3)), Config())


async def commit(
    offsets: OldOffsets, at: dict[int, int], metadata: str = "", group: str = "g", topic: str = "t"
) -> list[int]:
    partitions = [OffsetCommitRequestPartition(index, offset) for index, offset in at.items()]
    for each in partitions:
        each.committed_metadata = metadata
    response = await offsets.commit(
        OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, partitions=partitions)])
    )
    return [each.error_code for each in response.topics[0].partitions]


async def fetch(offsets: OldOffsets, *indexes: int, group: str = "g", topic: str = "t") -> list[tuple[int, int]]:
    request = OffsetFetchRequest(group, [OffsetFetchRequestTopic(topic, list(indexes))])
    partitions = (await offsets.fetch(request)).topics[0].partitions
    assert all(each.metadata == "" for each in partitions)
    return [(each.committed_offset, each.error_code) for each in partitions]


async def test_an_offset_is_the_number_as_text_in_a_persistent_znode(offsets: OldOffsets, door: Door) -> None:
    assert await commit(offsets, {0: 42, 2: 7}, "m") == [0, 0]
    assert door.zookeeper.get("/consumers/g/offsets/t/0") == b"42"
    assert door.zookeeper.nodes["/consumers/g/offsets/t/0"].owner == 0
    assert await fetch(offsets, 0, 1, 2) == [(42, 0), (-1, 3), (7, 0)]


async def test_an_offset_may_go_back(offsets: OldOffsets) -> None:
    for offset in (42, 3):
        assert await commit(offsets, {1: offset}) == [0]
        assert await fetch(offsets, 1) == [(offset, 0)]


async def test_what_is_rejected_makes_no_znode(offsets: OldOffsets, door: Door) -> None:
    before = dict(door.zookeeper.nodes)
    unknown, too_large = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert await commit(offsets, {0: 1}, topic="missing") == [unknown]
    assert await commit(offsets, {3: 1, -1: 1}) == [unknown, unknown]
    assert await commit(offsets, {0: 1}, "12345") == [too_large]
    assert await commit(offsets, {0: 1}, "\U0001f6eb12\U0001f6eb") == [too_large]
    for group in ("", ".", "..", "a/b", "a\0b"):
        assert await commit(offsets, {0: 1}, group=group) == [ErrorCode.INVALID_GROUP_ID]
        assert await fetch(offsets, 0, group=group) == [(-1, ErrorCode.INVALID_GROUP_ID)]
    assert await fetch(offsets, 0, topic="missing") == [(-1, unknown)]
    assert door.zookeeper.nodes == before


async def test_a_znode_that_holds_no_number_is_an_error_of_the_server(offsets: OldOffsets, door: Door) -> None:
    door.zookeeper.make("/consumers/g/offsets/t/0", b"many")
    assert await fetch(offsets, 0) == [(-1, ErrorCode.UNKNOWN_SERVER_ERROR)]
    assert await commit(offsets, {0: 5}) == [0]
    assert await fetch(offsets, 0) == [(5, 0)]


async def test_another_client_may_make_the_same_znodes_meanwhile(offsets: OldOffsets, door: Door) -> None:
    operations = 0

    def interfere() -> None:
        nonlocal operations
        operations += 1
        if operations == 5:
            door.zookeeper.make("/consumers/g/offsets/t/0", b"1")

    door.before = interfere
    assert await commit(offsets, {0: 9, 1: 8}) == [0, 0]
    assert await fetch(offsets, 0, 1) == [(9, 0), (8, 0)]


async def test_a_zookeeper_that_is_away_is_waited_for_with_a_bound(offsets: OldOffsets, door: Door) -> None:
    door.is_away = True
    timed_out = ErrorCode.REQUEST_TIMED_OUT
    assert await commit(offsets, {0: 1, 9: 1}) == [timed_out, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await fetch(offsets, 0) == [(-1, timed_out)]
    door.is_away = False
    assert await commit(offsets, {0: 1}) == [0]


async def test_a_session_that_has_expired_is_an_error_to_try_again(offsets: OldOffsets, door: Door) -> None:
    async def run(steps: Steps[Any]) -> Any:
        raise SessionExpired

    door.run = run
    assert await commit(offsets, {0: 1}) == [ErrorCode.REQUEST_TIMED_OUT]


async def coordinator_of(raw: Raw) -> int:
    """The coordinator of group g, -1 while there is none."""
    answer = await raw.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest("g"))
    return answer.node_id


async def test_version_0_goes_to_zookeeper_at_any_broker_and_later_ones_to_the_coordinator(cluster: Members) -> None:
    first, second = await cluster.start(1), await cluster.start(2)
    raw, other = await cluster.raw(first), await cluster.raw(second)
    await raw.create_topic("t", 2)
    by_node = {1: raw, 2: other}
    async with asyncio.timeout(30):
        while second.topics.get("t") is None or (coordinator := await coordinator_of(raw)) not in by_node:
            await asyncio.sleep(0.02)
        while await wire.commit(by_node[coordinator], {0: 5}) != [0]:
            await asyncio.sleep(0.02)
    assert await wire.commit(raw, {0: 42}, 0, metadata="dropped") == [0]
    assert await wire.commit(other, {1: 43}, 0) == [0]
    for each in (raw, other):
        (topic,) = (await wire.fetch(each, 0, indexes=(0, 1, 2))).topics
        found = [(p.partition_index, p.committed_offset, p.metadata, p.error_code) for p in topic.partitions]
        assert found == [(0, 42, "", 0), (1, 43, "", 0), (2, -1, "", 3)]
    (topic,) = (await wire.fetch(by_node[coordinator], 5, indexes=(0,))).topics
    assert topic.partitions[0].committed_offset == 5
    zookeeper = member(first).zookeeper
    assert await zookeeper.run(children("/consumers/g/offsets/t")) == ["0", "1"]
    znode = await zookeeper.run(read("/consumers/g/offsets/t/0"))
    assert znode is not None and (znode.data, znode.owner) == (b"42", 0)
