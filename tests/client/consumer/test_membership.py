"""Life in a group, through every rejection that a coordinator has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from odradek.client import Consumer, KafkaError, TopicPartition
from odradek.client.errors import CommitFailed
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupResponse
from odradek.tests.support import waiting
from odradek.tests.support.fakes.fake_cluster import FakeCluster, FakeLog
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import Call, answer, drop

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member_of(cluster: FakeCluster, *topics: str, **options: Any) -> Consumer:
    quick = {
        "retry_backoff_ms": 1,
        "retry_backoff_max_ms": 5,
        "heartbeat_interval_ms": 5,
        "auto_offset_reset": "earliest",
        "group_id": "g",
    }
    return Consumer(*topics or ("t",), bootstrap_servers=cluster.address, **quick | options)


async def until(consumer: Consumer, true: Callable[[], bool]) -> list[int]:
    """Poll until something is true; the offsets that were read meanwhile."""
    offsets: list[int] = []
    async with asyncio.timeout(10):
        while not true():
            for records in (await consumer.getmany(timeout_ms=5)).values():
                offsets += [record.offset for record in records]
    return offsets


class Told:
    """A listener that notes what it is told. `revoked` is called with partitions that go."""

    def __init__(self, revoked: Callable[[frozenset[TopicPartition]], Awaitable[object]] | None = None) -> None:
        self.calls: list[tuple[str, set[TopicPartition]]] = []
        self._revoked = revoked

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.calls.append(("revoked", set(partitions)))
        if self._revoked is not None:
            await self._revoked(partitions)

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.calls.append(("assigned", set(partitions)))

    async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self.calls.append(("lost", set(partitions)))


@pytest.mark.parametrize("newest", [0, 3, 4, 5, 9])
async def test_every_version_of_joining_works(cluster: FakeCluster, newest: int) -> None:
    for key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP):
        cluster.versions[key] = (0, min(newest, cluster.versions[key][1]))
    async with member_of(cluster) as consumer:
        await until(consumer, lambda: bool(consumer.assignment()))
    assert cluster.group.left == ["member-1"]


async def heartbeats_go_on(cluster: FakeCluster, consumer: Consumer) -> None:
    """Wait until the coordinator has seen a heartbeat of the present generation."""
    beats = len(cluster.calls(ApiKey.HEARTBEAT))
    await until(consumer, lambda: len(cluster.calls(ApiKey.HEARTBEAT)) > beats)


@pytest.mark.parametrize(
    ("code", "same_member"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, True),
        (ErrorCode.ILLEGAL_GENERATION, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, False),
    ],
)
async def test_what_a_heartbeat_is_told_leads_to_a_new_generation(code: ErrorCode, same_member: bool) -> None:
    async with FakeCluster({"t": 1}) as cluster, member_of(cluster) as consumer:
        await until(consumer, lambda: bool(consumer.assignment()))
        generation, member = cluster.group.generation, cluster.group.member_id
        cluster.on(ApiKey.HEARTBEAT, answer(HeartbeatResponse(error_code=code)))
        await until(consumer, lambda: cluster.group.generation > generation)
        await until(consumer, lambda: bool(consumer.assignment()))
        assert (cluster.group.member_id == member) is same_member
        await heartbeats_go_on(cluster, consumer)


async def test_a_membership_that_has_ended_hears_of_no_metadata_any_more() -> None:
    async with FakeCluster({"t": 1}) as cluster, member_of(cluster) as consumer:
        await until(consumer, lambda: bool(consumer.assignment()))
        assert consumer._session is not None
        metadata = consumer._session.cluster
        before = len(metadata._listeners)
        for _ in range(3):
            cluster.on(ApiKey.HEARTBEAT, answer(HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)))
            with pytest.raises(KafkaError):
                await until(consumer, lambda: False)
            assert len(metadata._listeners) == before - 1
            consumer.subscribe("t")
            await until(consumer, lambda: bool(consumer.assignment()))
        assert len(metadata._listeners) == before


async def test_records_that_were_handed_out_hold_the_rebalance_up_and_are_committed_before_it() -> None:
    async with FakeCluster({"t": 1}) as cluster:
        write(cluster.log("t"), 10)
        async with member_of(cluster) as consumer:
            while not (batches := await consumer.getmany(timeout_ms=50, max_records=4)):
                pass
            assert len(batches[T0]) == 4
            generation = cluster.group.generation
            cluster.on(ApiKey.HEARTBEAT, *[answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))] * 5)
            # The user works on its records: heartbeats go on, and the group waits.
            await waiting.until(lambda: not cluster.steps[ApiKey.HEARTBEAT])
            assert (cluster.group.generation, cluster.group.committed) == (generation, {})
            offsets = await until(consumer, lambda: cluster.group.generation > generation)
            assert cluster.group.committed == {("t", 0): 4}
            while len(offsets) < 6:
                offsets += [r.offset for rs in (await consumer.getmany(timeout_ms=50)).values() for r in rs]
            assert offsets == [4, 5, 6, 7, 8, 9]


async def test_a_commit_that_comes_too_late_says_so_and_the_member_joins_again(cluster: FakeCluster) -> None:
    async with member_of(cluster, heartbeat_interval_ms=40_000) as consumer:
        await until(consumer, lambda: bool(consumer.assignment()))
        cluster.group.generation += 1
        with pytest.raises(CommitFailed, match="did not take the commit"):
            await consumer.commit({T0: 3})
        generation = cluster.group.generation
        await until(consumer, lambda: cluster.group.generation > generation)


async def test_after_an_error_of_the_users_its_last_record_is_not_committed(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 10)
    with pytest.raises(ZeroDivisionError):
        async with member_of(cluster) as consumer:
            async for record in consumer:
                if record.offset == 6:
                    raise ZeroDivisionError
    assert cluster.group.committed == {("t", 0): 6}


async def test_auto_commit_takes_only_what_was_processed(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 10)
    async with member_of(cluster, auto_commit_interval_ms=5) as consumer:
        async with asyncio.timeout(10):
            async for record in consumer:
                if record.offset == 3:
                    break
            await waiting.until(lambda: cluster.group.committed.get(("t", 0)) == 3)
        assert cluster.group.committed == {("t", 0): 3}
    assert cluster.group.committed == {("t", 0): 4}


async def test_more_partitions_make_the_leader_share_out_anew(cluster: FakeCluster) -> None:
    async with member_of(cluster, metadata_max_age_ms=10) as consumer:
        await until(consumer, lambda: consumer.assignment() == {T0})
        cluster.topics["t"].append(FakeLog(1))
        await until(consumer, lambda: consumer.assignment() == {T0, T1})


async def test_a_topic_that_is_made_later_is_shared_out_when_it_is_there() -> None:
    async with FakeCluster() as cluster, member_of(cluster, "later") as consumer:
        await until(consumer, lambda: cluster.group.generation > 0)
        cluster.topics["later"] = [FakeLog(1)]
        await until(consumer, lambda: consumer.assignment() == {TopicPartition("later", 0)})


async def test_another_subscription_is_told_to_the_group() -> None:
    async with FakeCluster({"t": 1, "u": 1}) as cluster, member_of(cluster) as consumer:
        await until(consumer, lambda: consumer.assignment() == {T0})
        consumer.subscribe("u")
        await until(consumer, lambda: consumer.assignment() == {TopicPartition("u", 0)})
        await consumer.unsubscribe()
        assert consumer.assignment() == frozenset()
        assert cluster.group.left == ["member-1"]


async def test_a_listener_is_told_what_comes_and_goes_and_can_commit(cluster: FakeCluster) -> None:
    consumer = member_of(cluster)
    told = Told(lambda partitions: consumer.commit(dict.fromkeys(partitions, 5)))
    consumer.subscribe("t", listener=told)
    async with consumer:
        await until(consumer, lambda: bool(consumer.assignment()))
        cluster.on(ApiKey.HEARTBEAT, answer(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)))
        await until(consumer, lambda: len(told.calls) == 3)
    assert [event for event, _ in told.calls] == ["assigned", "lost", "assigned", "revoked"]
    assert all(partitions == {T0} for _, partitions in told.calls)
    assert cluster.group.committed == {("t", 0): 5}


async def test_a_member_that_stops_while_the_coordinator_moves_leaves_all_the_same(cluster: FakeCluster) -> None:
    async with member_of(cluster) as consumer:
        await until(consumer, lambda: bool(consumer.assignment()))
        away = (
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        )
        cluster.on(ApiKey.LEAVE_GROUP, drop, *(answer(LeaveGroupResponse(error_code=each)) for each in away))
    assert cluster.group.left == ["member-1"], "the group would wait for the end of its session"


async def test_static_members_do_not_leave(cluster: FakeCluster) -> None:
    async with member_of(cluster, group_instance_id="i1") as consumer:
        await until(consumer, lambda: bool(consumer.assignment()))
    assert cluster.group.left == []
    assert cluster.calls(ApiKey.JOIN_GROUP)[-1].request.group_instance_id == "i1"


async def test_a_group_of_another_kind_ends_the_membership_with_a_reason(cluster: FakeCluster) -> None:
    async def garbage(call: Call) -> JoinGroupResponse:
        response = await call.default()
        if response.members:
            response.members[0].metadata = b"\xff"
        return response

    cluster.on(ApiKey.JOIN_GROUP, garbage, garbage)
    async with member_of(cluster) as consumer:
        with pytest.raises(KafkaError, match="what the members tell each other cannot be read"):
            await consumer.getmany(timeout_ms=5_000)


async def test_stopping_in_the_middle_of_a_rebalance_still_commits_what_was_processed(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 10)
    async with member_of(cluster) as consumer:
        while not await consumer.getmany(timeout_ms=50, max_records=4):
            pass
        cluster.on(ApiKey.HEARTBEAT, *[answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))] * 3)
        await waiting.until(lambda: not cluster.steps[ApiKey.HEARTBEAT])
    assert cluster.group.committed == {("t", 0): 4}
    assert cluster.group.left == ["member-1"]
