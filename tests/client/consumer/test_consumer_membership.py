"""Life in a group of the consumer protocol (KIP-848), through every rejection that a coordinator has."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from odradek.client import Consumer, KafkaError, TopicPartition
from odradek.client.assignors import RoundRobinAssignor
from odradek.client.errors import InvalidOption
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from odradek.protocol.messages.leave_group import LeaveGroupResponse
from odradek.protocol.messages.offset_commit import OffsetCommitResponse
from odradek.protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from odradek.tests.support import waiting
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import Call, answer, do_and_drop, drop

from .test_membership import Told, until

BEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member_of(cluster: FakeCluster, *topics: str, **options: Any) -> Consumer:
    quick = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "auto_offset_reset": "earliest", "group_id": "g"}
    quick |= {"bootstrap_servers": cluster.address, "group_protocol": "consumer"}
    return Consumer(*topics, **quick | options)


def beats(cluster: FakeCluster) -> list[ConsumerGroupHeartbeatRequest]:
    return [call.request for call in cluster.calls(BEAT)]


def rejection(code: ErrorCode, text: str = "") -> Any:
    return answer(ConsumerGroupHeartbeatResponse(error_code=code, error_message=text))


# No offsets are read while the coordinator loads them.
LOADING = answer(
    OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g", error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)])
)


async def further_beats(cluster: FakeCluster, consumer: Consumer, count: int = 2) -> None:
    seen = len(beats(cluster))
    await until(consumer, lambda: len(beats(cluster)) >= seen + count)


# What brokers answer while a coordinator that was killed has no successor yet.
AWAY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


async def test_a_member_that_stops_while_the_coordinator_moves_leaves_all_the_same(cluster: FakeCluster) -> None:
    rejections = iter(AWAY)

    async def beat(call: Call) -> Any:
        cluster.on(BEAT, beat)
        code = next(rejections, None) if call.request.member_epoch < 0 else None
        return await call.default() if code is None else ConsumerGroupHeartbeatResponse(error_code=code)

    cluster.on(BEAT, beat)
    async with member_of(cluster, "t") as consumer:
        await until(consumer, lambda: bool(consumer.assignment()))
        member = cluster.group.member_id
    assert cluster.group.left == [member], "the group would wait for the end of its session"


async def test_a_stop_does_not_wait_for_a_coordinator_that_never_comes(cluster: FakeCluster) -> None:
    consumer = member_of(cluster, "t")
    await consumer.start()
    await until(consumer, lambda: bool(consumer.assignment()))
    cluster.defaults[BEAT] = rejection(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    async with asyncio.timeout(10):
        await consumer.stop(timeout_ms=300)
    assert len([each for each in beats(cluster) if each.member_epoch < 0]) > 1
    assert cluster.group.left == []


async def test_a_heartbeat_says_only_what_has_changed() -> None:
    async with FakeCluster({"t": 1, "u": 1}) as cluster, member_of(cluster, "t") as consumer:
        await until(consumer, lambda: consumer.assignment() == {T0})
        await further_beats(cluster, consumer, 3)
        join, told, quiet = beats(cluster)[0], beats(cluster)[1], beats(cluster)[-1]
        assert (join.member_epoch, join.subscribed_topic_names, join.topic_partitions) == (0, ["t"], [])
        assert join.rebalance_timeout_ms == 300_000
        assert told.subscribed_topic_names is None
        assert [topic.partitions for topic in told.topic_partitions or ()] == [[0]]
        unchanged = quiet.subscribed_topic_names, quiet.subscribed_topic_regex, quiet.topic_partitions
        assert (*unchanged, quiet.rebalance_timeout_ms) == (None, None, None, -1)
        consumer.subscribe("u")
        await until(consumer, lambda: consumer.assignment() == {TopicPartition("u", 0)})
        assert cluster.group.reads == ["u"]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ],
)
async def test_a_rejection_for_good_is_raised_by_the_poll_with_the_brokers_reason(code: ErrorCode) -> None:
    async with FakeCluster({"t": 1}) as cluster:
        cluster.on(BEAT, rejection(code, "for this reason"))
        async with member_of(cluster, "t") as consumer:
            with pytest.raises(KafkaError, match="for this reason") as caught:
                await consumer.getmany(timeout_ms=5_000)
            assert caught.value.code is code


@pytest.mark.parametrize("step", [drop, do_and_drop, rejection(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)])
async def test_after_a_heartbeat_without_an_answer_the_next_one_says_everything(step: Any) -> None:
    async with FakeCluster({"t": 1}) as cluster, member_of(cluster, "t") as consumer:
        await until(consumer, lambda: consumer.assignment() == {T0})
        epoch, seen = cluster.group.generation, len(beats(cluster))
        cluster.on(BEAT, step)
        await further_beats(cluster, consumer, 3)
        whole = [each for each in beats(cluster)[seen:] if each.subscribed_topic_names == ["t"]]
        assert [topic.partitions for topic in whole[0].topic_partitions or ()] == [[0]]
        assert (cluster.group.generation, consumer.assignment()) == (epoch, {T0})


async def test_a_partition_goes_when_its_records_are_processed_and_the_others_are_read_on() -> None:
    async with FakeCluster({"t": 2}) as cluster:
        write(cluster.log("t", 0), 10)
        async with member_of(cluster, "t") as consumer:
            while not await consumer.getmany(timeout_ms=50, max_records=4):
                pass
            cluster.group.target = {("t", 1)}
            seen = len(beats(cluster))
            # the user works on: the member holds the partition, and heartbeats
            await waiting.until(lambda: len(beats(cluster)) >= seen + 4)
            assert cluster.group.owned == {("t", 0), ("t", 1)}
            assert cluster.group.committed == {}
            write(cluster.log("t", 1), 3)
            found = await until(consumer, lambda: cluster.group.owned == {("t", 1)})
            assert cluster.group.committed[("t", 0)] == 4
            while len(found) < 3:
                found += [r.offset for rs in (await consumer.getmany(timeout_ms=50)).values() for r in rs]
            assert found == [0, 1, 2]


async def test_a_listener_is_told_only_what_comes_and_goes() -> None:
    async with FakeCluster({"t": 2}) as cluster:
        cluster.group.target = {("t", 0)}
        consumer = member_of(cluster)
        told = Told(lambda partitions: consumer.commit(dict.fromkeys(partitions, 5)))
        consumer.subscribe("t", listener=told)
        async with consumer:
            await until(consumer, lambda: consumer.assignment() == {T0})
            cluster.group.target = {("t", 1)}
            await until(consumer, lambda: consumer.assignment() == {T1})
            cluster.on(BEAT, rejection(ErrorCode.UNKNOWN_MEMBER_ID))
            await until(consumer, lambda: len(told.calls) == 5)
        kinds = ["assigned", "revoked", "assigned", "lost", "assigned", "revoked"]
        assert [kind for kind, _ in told.calls] == kinds
        assert [min(partitions) for _, partitions in told.calls] == [T0, T0, T1, T1, T1, T1]
        assert cluster.group.committed == {("t", 0): 5, ("t", 1): 5}


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_a_listener_is_told_of_partitions_whose_offsets_come_at_the_second_attempt(protocol: str) -> None:
    told = Told()
    async with FakeCluster({"t": 1}) as cluster:
        offsets = cluster.defaults[ApiKey.OFFSET_FETCH]
        cluster.defaults[ApiKey.OFFSET_FETCH] = LOADING
        consumer = member_of(cluster, group_protocol=protocol, default_api_timeout_ms=20)
        consumer.subscribe("t", listener=told)
        async with consumer:
            # Far more than one attempt of the member asks in 20 ms, with the pauses in between.
            await until(consumer, lambda: len(cluster.calls(ApiKey.OFFSET_FETCH)) > 30)
            assert told.calls == []
            cluster.defaults[ApiKey.OFFSET_FETCH] = offsets
            await until(consumer, lambda: bool(told.calls))
        assert told.calls == [("assigned", {T0}), ("revoked", {T0})]


async def test_a_listener_is_not_told_that_partitions_go_of_which_it_has_not_heard() -> None:
    told = Told()
    async with FakeCluster({"t": 2}) as cluster:
        offsets = cluster.defaults[ApiKey.OFFSET_FETCH]
        cluster.defaults[ApiKey.OFFSET_FETCH] = LOADING
        cluster.group.target = {("t", 0)}
        consumer = member_of(cluster, default_api_timeout_ms=20)
        consumer.subscribe("t", listener=told)
        async with consumer:
            await until(consumer, lambda: len(beats(cluster)) > 2)
            cluster.group.target = {("t", 1)}
            await until(
                consumer,
                lambda: [1] in [each.partitions for beat in beats(cluster) for each in beat.topic_partitions or ()],
            )
            cluster.defaults[ApiKey.OFFSET_FETCH] = offsets
            await until(consumer, lambda: bool(told.calls))
            assert told.calls == [("assigned", {T1})]


async def test_a_listener_of_a_consumer_that_stops_while_it_takes_partitions_hears_nothing() -> None:
    told = Told()
    async with FakeCluster({"t": 1}) as cluster:
        cluster.defaults[ApiKey.OFFSET_FETCH] = LOADING
        consumer = member_of(cluster)
        consumer.subscribe("t", listener=told)
        async with consumer:
            await until(consumer, lambda: len(cluster.calls(ApiKey.OFFSET_FETCH)) > 1)
        assert told.calls == []
        assert len(cluster.group.left) == 1


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_a_stop_while_a_stalled_member_leaves_does_not_forget_to_leave(protocol: str) -> None:
    leaving: list[Call] = []
    async with FakeCluster({"t": 1}) as cluster:
        key = BEAT if protocol == "consumer" else ApiKey.LEAVE_GROUP
        handle = cluster.defaults[key]

        async def busy(call: Call) -> Any:
            if key is BEAT and call.request.member_epoch >= 0:
                return await handle(call)
            leaving.append(call)
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            response = ConsumerGroupHeartbeatResponse if key is BEAT else LeaveGroupResponse
            return response(error_code=code)

        write(cluster.log("t"), 10)
        cluster.defaults[key] = busy
        options = {"max_poll_interval_ms": 20, "retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}
        async with member_of(cluster, "t", group_protocol=protocol, enable_auto_commit=False, **options) as consumer:
            while not await consumer.getmany(timeout_ms=50, max_records=4):
                pass
            # the third attempt comes after the pause
            await waiting.until(lambda: len(leaving) >= 2)
            assert await consumer.getmany(timeout_ms=1) == {}, "others may have these records by now"
            member = cluster.group.member_id
            cluster.defaults[key] = handle
        assert cluster.group.left == [member], "the group would wait for the end of its session"


async def test_a_static_member_that_stops_says_that_it_will_be_back(cluster: FakeCluster) -> None:
    async with member_of(cluster, "t", group_instance_id="i1") as consumer:
        await until(consumer, lambda: bool(consumer.assignment()))
    last = beats(cluster)[-1]
    assert (last.member_epoch, last.instance_id) == (-2, "i1")


async def test_a_static_member_whose_join_was_not_answered_makes_room_for_itself(cluster: FakeCluster) -> None:
    cluster.on(BEAT, do_and_drop)
    async with member_of(cluster, "t", group_instance_id="i1") as consumer:
        await until(consumer, lambda: bool(consumer.assignment()))
        assert [each.member_epoch for each in beats(cluster)][:3] == [0, -2, 0]
        assert len({each.member_id for each in beats(cluster)}) == 1


# -- Offsets


def stale(key: ApiKey) -> Any:
    async def step(call: Call) -> Any:
        if key is ApiKey.OFFSET_FETCH:
            group = OffsetFetchResponseGroup("g", error_code=ErrorCode.STALE_MEMBER_EPOCH)
            return OffsetFetchResponse(groups=[group])
        response: OffsetCommitResponse = await call.default()
        for topic in response.topics:
            for each in topic.partitions:
                each.error_code = ErrorCode.STALE_MEMBER_EPOCH
        return response

    return step


async def test_members_name_their_epoch_to_commit_and_to_read_offsets() -> None:
    async with FakeCluster({"t": 1}) as cluster, member_of(cluster, "t") as consumer:
        await until(consumer, lambda: bool(consumer.assignment()))
        await consumer.commit({T0: 3})
        commit = cluster.calls(ApiKey.OFFSET_COMMIT)[-1].request
        read = cluster.calls(ApiKey.OFFSET_FETCH)[-1].request.groups[0]
        member = cluster.group.member_id, cluster.group.generation
        assert (commit.member_id, commit.generation_id_or_member_epoch) == member
        assert (read.member_id, read.member_epoch) == member


@pytest.mark.parametrize("key", [ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH])
async def test_an_epoch_that_is_out_of_date_is_brought_up_to_date(cluster: FakeCluster, key: ApiKey) -> None:
    write(cluster.log("t"), 10)
    cluster.group.committed[("t", 0)] = 7
    cluster.on(key, stale(key), stale(key))
    async with member_of(cluster, "t", enable_auto_commit=False) as consumer:
        while T0 not in consumer.assignment():
            await consumer.getmany(timeout_ms=5, max_records=1)
        assert await consumer.position(T0) in (7, 8)
        await consumer.commit({T0: 9})
        assert cluster.group.committed[("t", 0)] == 9
        assert not cluster.steps[key]


# -- Patterns and options


async def test_a_pattern_goes_to_the_broker() -> None:
    async with FakeCluster({"t1": 1, "t2": 1}) as cluster:
        cluster.group.target = {("t1", 0), ("t2", 0)}
        consumer = member_of(cluster)
        consumer.subscribe(pattern="T[0-9](?P<rest>.*)")
        async with consumer:
            await until(consumer, lambda: len(consumer.assignment()) == 2)
        assert beats(cluster)[0].subscribed_topic_regex == "T[0-9](?P<rest>.*)"
        assert beats(cluster)[0].subscribed_topic_names == []


async def test_a_broker_that_matches_no_patterns_ends_the_membership_with_a_reason(cluster: FakeCluster) -> None:
    cluster.versions[BEAT] = (0, 0)
    consumer = member_of(cluster)
    consumer.subscribe(pattern="t.*")
    async with consumer:
        with pytest.raises(KafkaError, match="matches no patterns"):
            await consumer.getmany(timeout_ms=5_000)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"session_timeout_ms": 10_000}, "session_timeout_ms is for group_protocol='classic'"),
        ({"heartbeat_interval_ms": 100}, "heartbeat_interval_ms is for group_protocol='classic'"),
        ({"group_protocol": "newest"}, "group_protocol must be one of"),
        ({"group_protocol": "classic", "group_remote_assignor": "range"}, "needs group_protocol='consumer'"),
        (
            {"group_protocol": "auto", "group_remote_assignor": "range", "session_timeout_ms": 10_000},
            "group_remote_assignor is for group_protocol='consumer', and session_timeout_ms for 'classic'",
        ),
    ],
)
def test_options_of_the_other_protocol_are_rejected(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        Consumer("t", **{"group_id": "g", "group_protocol": "consumer"} | options)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        # The classic protocol reads the topics that are not denied.
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ],
)
async def test_with_auto_a_group_that_takes_no_new_members_is_joined_by_the_classic_protocol(code: ErrorCode) -> None:
    async with FakeCluster({"t": 1}) as cluster:
        cluster.on(BEAT, rejection(code))
        async with member_of(cluster, "t", group_protocol="auto") as consumer:
            await until(consumer, lambda: consumer.assignment() == {T0})
        assert len(cluster.calls(BEAT)) == 1
        assert cluster.calls(ApiKey.JOIN_GROUP)


async def polled_error(consumer: Consumer) -> ErrorCode:
    """Return the error that a poll raises next."""
    async with asyncio.timeout(10):
        while True:
            try:
                await consumer.getmany(timeout_ms=5)
            except KafkaError as error:
                return error.code


@pytest.mark.parametrize("protocol", ["auto", "consumer"])
async def test_a_topic_that_is_denied_after_the_join_is_told_and_the_member_goes_on(protocol: str) -> None:
    async with FakeCluster({"t": 1, "u": 1}) as cluster:
        async with member_of(cluster, "t", group_protocol=protocol) as consumer:
            await until(consumer, lambda: consumer.assignment() == {T0})
            cluster.on(BEAT, *[rejection(ErrorCode.TOPIC_AUTHORIZATION_FAILED)] * 2)
            consumer.subscribe("t", "u")
            assert await polled_error(consumer) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert consumer.assignment() == {T0}
            write(cluster.log("t"), 3)
            offsets: list[int] = []
            async with asyncio.timeout(10):
                while len(offsets) < 3 or len(consumer.assignment()) < 2:
                    await asyncio.sleep(0)  # a poll that raises at once gives nobody a turn
                    with contextlib.suppress(KafkaError):
                        found = await consumer.getmany(timeout_ms=5)
                        offsets += [record.offset for records in found.values() for record in records]
        assert not cluster.calls(ApiKey.JOIN_GROUP)
        assert [request.member_epoch for request in beats(cluster)].count(0) == 1, "it has joined once"


async def test_a_topic_that_is_denied_while_a_listener_works_does_not_assign_twice(cluster: FakeCluster) -> None:
    assigned: list[TopicPartition] = []

    class Listener:
        async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None: ...

        async def on_partitions_assigned(self, new: list[TopicPartition]) -> None:
            assigned.extend(new)
            cluster.on(BEAT, rejection(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            await waiting.until(lambda: not cluster.steps[BEAT])

    consumer = member_of(cluster)
    consumer.subscribe("t", listener=Listener())
    async with consumer:
        assert await polled_error(consumer) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await until(consumer, lambda: consumer.assignment() == {T0})
        await further_beats(cluster, consumer)
    assert assigned == [T0]


async def test_a_member_whose_topic_is_denied_at_the_join_joins_once_it_may(cluster: FakeCluster) -> None:
    cluster.on(BEAT, rejection(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    async with member_of(cluster, "t") as consumer:
        assert await polled_error(consumer) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await until(consumer, lambda: consumer.assignment() == {T0})


async def test_with_auto_a_member_goes_on_by_the_classic_protocol_when_its_coordinator_is_rolled_back() -> None:
    async with FakeCluster({"t": 1}) as cluster:
        async with member_of(cluster, "t", group_protocol="auto") as consumer:
            await until(consumer, lambda: consumer.assignment() == {T0})
            cluster.on(BEAT, *[rejection(ErrorCode.UNSUPPORTED_VERSION)] * 2)
            await until(consumer, lambda: bool(cluster.calls(ApiKey.JOIN_GROUP)))
            await until(consumer, lambda: consumer.assignment() == {T0})


async def test_a_member_that_asks_for_an_assignor_of_the_broker_joins_by_no_protocol_without_one() -> None:
    async with FakeCluster({"t": 1}) as cluster:
        del cluster.versions[BEAT]
        options = {"group_protocol": "auto", "group_remote_assignor": "range"}
        async with member_of(cluster, "t", **options) as consumer:
            with pytest.raises(KafkaError) as caught:
                await consumer.getmany(timeout_ms=10_000)
            assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


async def test_with_auto_a_broker_without_the_consumer_protocol_gets_the_classic_one(cluster: FakeCluster) -> None:
    del cluster.versions[BEAT]
    async with member_of(cluster, "t", group_protocol="auto") as consumer:
        await until(consumer, lambda: consumer.assignment() == {T0})


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({}, BEAT),
        ({"group_remote_assignor": "range"}, BEAT),
        ({"session_timeout_ms": 10_000}, ApiKey.JOIN_GROUP),
        ({"partition_assignment_strategy": [RoundRobinAssignor]}, ApiKey.JOIN_GROUP),
    ],
)
async def test_the_default_is_the_consumer_protocol_unless_an_option_asks_for_the_classic_one(
    cluster: FakeCluster, options: dict[str, Any], first: ApiKey
) -> None:
    async with Consumer("t", bootstrap_servers=cluster.address, group_id="g", **options) as consumer:
        await until(consumer, lambda: consumer.assignment() == {T0})
    assert [bool(cluster.calls(key)) for key in (BEAT, ApiKey.JOIN_GROUP)] == [first is BEAT, first is not BEAT]
