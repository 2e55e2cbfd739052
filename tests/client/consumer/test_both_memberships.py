"""Life in a group, where members of the classic and the consumer protocol (KIP-848) do the same."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from odradek.client import Consumer
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.tests.support import waiting
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import answer, keep_silent

from .test_membership import T0, T1, until


class Protocol(NamedTuple):
    """How the members of a protocol beat."""

    name: str
    beat: ApiKey
    response: Any

    def member_of(self, cluster: FakeCluster, **options: Any) -> Consumer:
        quick: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "auto_offset_reset": "earliest"}
        if self is CLASSIC:
            # In the consumer protocol the broker says how often.
            quick["heartbeat_interval_ms"] = 5
        quick |= {"bootstrap_servers": cluster.address, "group_id": "g", "group_protocol": self.name}
        return Consumer("t", **quick | options)

    async def beats_go_on(self, cluster: FakeCluster, consumer: Consumer, count: int = 2) -> None:
        seen = len(cluster.calls(self.beat))
        await until(consumer, lambda: len(cluster.calls(self.beat)) >= seen + count)


CLASSIC = Protocol("classic", ApiKey.HEARTBEAT, HeartbeatResponse)
CONSUMER = Protocol("consumer", ApiKey.CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatResponse)
both = pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER], ids=lambda each: each.name)


async def read_on(consumer: Consumer, offsets: list[int], count: int) -> list[int]:
    while len(offsets) < count:
        offsets += [r.offset for rs in (await consumer.getmany(timeout_ms=50)).values() for r in rs]
    return offsets


@both
async def test_a_member_joins_reads_commits_and_leaves(protocol: Protocol) -> None:
    async with FakeCluster({"t": 2}) as cluster:
        write(cluster.log("t"), 10)
        async with protocol.member_of(cluster) as consumer:
            offsets = await until(consumer, lambda: bool(consumer.assignment()))
            assert await read_on(consumer, offsets, 10) == list(range(10))
            assert consumer.assignment() == {T0, T1}
            member = cluster.group.member_id
        assert cluster.group.committed == {("t", 0): 10, ("t", 1): 0}
        assert cluster.group.left == [member]
        # The first join of the classic protocol only brings the member id.
        assert len(cluster.calls(ApiKey.JOIN_GROUP)) == (2 if protocol is CLASSIC else 0)


@pytest.mark.parametrize(
    ("protocol", "code"),
    [
        (CLASSIC, ErrorCode.UNKNOWN_MEMBER_ID),
        (CONSUMER, ErrorCode.UNKNOWN_MEMBER_ID),
        (CONSUMER, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
async def test_a_fenced_member_gives_up_its_partitions_without_committing(protocol: Protocol, code: ErrorCode) -> None:
    async with FakeCluster({"t": 1}) as cluster:
        write(cluster.log("t"), 10)
        async with protocol.member_of(cluster) as consumer:
            while not await consumer.getmany(timeout_ms=50, max_records=4):
                pass
            generation, member = cluster.group.generation, cluster.group.member_id
            cluster.on(protocol.beat, answer(protocol.response(error_code=code)))
            await waiting.until(lambda: not consumer.assignment())
            offsets = await until(consumer, lambda: cluster.group.generation > generation)
            assert await read_on(consumer, offsets, 10) == list(range(10)), "all again: nothing was committed"
            assert (cluster.group.member_id == member) is (protocol is CONSUMER)


@both
async def test_a_user_that_never_comes_back_leaves_and_joins_when_it_does(
    cluster: FakeCluster, protocol: Protocol
) -> None:
    write(cluster.log("t"), 10)
    async with protocol.member_of(cluster, max_poll_interval_ms=20, enable_auto_commit=False) as consumer:
        while not await consumer.getmany(timeout_ms=50, max_records=4):
            pass
        member = cluster.group.member_id
        if protocol is CLASSIC:  # also while the others join again
            busy = answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
            cluster.on(ApiKey.HEARTBEAT, *[busy] * 1000)
        await waiting.until(lambda: bool(cluster.group.left) and not consumer.assignment())
        cluster.steps[protocol.beat].clear()
        await until(consumer, lambda: bool(consumer.assignment()))
        # A busy machine may make this user late again.
        assert cluster.group.left[0] == member
        assert protocol is CONSUMER or cluster.group.member_id not in cluster.group.left


@both
async def test_a_heartbeat_that_is_never_answered_is_sent_again(cluster: FakeCluster, protocol: Protocol) -> None:
    async with protocol.member_of(cluster, request_timeout_ms=40, fetch_max_wait_ms=5) as consumer:
        await until(consumer, lambda: bool(consumer.assignment()))
        generation = cluster.group.generation
        cluster.on(protocol.beat, keep_silent)
        await protocol.beats_go_on(cluster, consumer, 3)
        assert (cluster.group.generation, consumer.assignment()) == (generation, {T0})


@both
async def test_a_coordinator_that_moves_is_followed_without_a_rebalance(protocol: Protocol) -> None:
    async with FakeCluster({"t": 1}, nodes=2) as cluster, protocol.member_of(cluster) as consumer:
        await until(consumer, lambda: bool(consumer.assignment()))
        generation = cluster.group.generation
        cluster.group.node_id = 2
        await until(consumer, lambda: any(call.key is protocol.beat for call in cluster.nodes[2].calls))
        assert cluster.group.generation == generation
        await consumer.commit({T0: 0})
        assert cluster.group.committed == {("t", 0): 0}
