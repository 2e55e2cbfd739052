"""Every error code at every request of a consumer: survived, or raised to the user once.

A member reads 20 records of two partitions, commits after each poll, and goes through an election, while the broker
answers with errors. A retriable one is met twice in a row. Here are the codes that Kafka's handlers answer with, and a
sample of the others; `make soak` has all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop
from odradek.client import Consumer, KafkaError, TopicPartition
from odradek.client.errors import CommitFailed
from odradek.protocol.apis import ApiKey, message
from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Struct
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import Call, Step, do_and_drop, do_it, drop
from odradek.tests.support.seeds import IS_SOAK

PARTITIONS = [TopicPartition("t", number) for number in range(2)]
CODES = [code for code in ErrorCode if code is not ErrorCode.NONE]
COORDINATOR = ["COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"]
GROUP = [*COORDINATOR, "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "GROUP_AUTHORIZATION_FAILED"]
MEMBER = [*GROUP, "FENCED_INSTANCE_ID", "INCONSISTENT_GROUP_PROTOCOL"]
LEADER = [
    "NOT_LEADER_OR_FOLLOWER",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "REPLICA_NOT_AVAILABLE",
    "KAFKA_STORAGE_ERROR",
    "OFFSET_NOT_AVAILABLE",
    "TOPIC_AUTHORIZATION_FAILED",
]
SESSION = ["FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR"]
# What Kafka's handlers answer with.
ANSWERS: dict[ApiKey, list[str]] = {
    ApiKey.METADATA: [
        "LEADER_NOT_AVAILABLE",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "TOPIC_AUTHORIZATION_FAILED",
        "INVALID_TOPIC_EXCEPTION",
    ],
    ApiKey.FIND_COORDINATOR: [*COORDINATOR[:2], "GROUP_AUTHORIZATION_FAILED", "INVALID_GROUP_ID"],
    ApiKey.JOIN_GROUP: [
        *MEMBER,
        "MEMBER_ID_REQUIRED",
        "INVALID_GROUP_ID",
        "INVALID_SESSION_TIMEOUT",
        "GROUP_MAX_SIZE_REACHED",
    ],
    ApiKey.SYNC_GROUP: MEMBER,
    ApiKey.HEARTBEAT: MEMBER,
    ApiKey.OFFSET_FETCH: [*GROUP, "UNSTABLE_OFFSET_COMMIT", "UNKNOWN_TOPIC_ID", "TOPIC_AUTHORIZATION_FAILED"],
    ApiKey.OFFSET_COMMIT: [
        *MEMBER,
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
        "REQUEST_TIMED_OUT",
        "TOPIC_AUTHORIZATION_FAILED",
        "INVALID_COMMIT_OFFSET_SIZE",
        "OFFSET_METADATA_TOO_LARGE",
    ],
    ApiKey.FETCH: [
        *LEADER,
        *SESSION,
        "UNKNOWN_TOPIC_ID",
        "INCONSISTENT_TOPIC_ID",
        "CORRUPT_MESSAGE",
        "OFFSET_OUT_OF_RANGE",
        "UNKNOWN_SERVER_ERROR",
    ],
    ApiKey.LIST_OFFSETS: [*LEADER, "UNSUPPORTED_FOR_MESSAGE_FORMAT"],
    ApiKey.OFFSET_FOR_LEADER_EPOCH: LEADER,
}
# A retriable code is survived, and another one raised, but for these.
_REJOIN = {"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"}
SURVIVED_ALSO: dict[ApiKey, set[str]] = {
    ApiKey.FIND_COORDINATOR: _REJOIN,
    ApiKey.JOIN_GROUP: {*_REJOIN, "MEMBER_ID_REQUIRED"},
    ApiKey.SYNC_GROUP: _REJOIN,
    ApiKey.HEARTBEAT: _REJOIN,
    ApiKey.OFFSET_FETCH: _REJOIN,
    ApiKey.FETCH: {"OFFSET_OUT_OF_RANGE"},  # reset, as auto_offset_reset says
}
# A retry changes nothing, and without an error the damage would look like the end of the log.
RAISED_ALSO: dict[ApiKey, set[str]] = {ApiKey.FETCH: {"CORRUPT_MESSAGE"}}
# The group has ended the member: what it had not committed is read again.
REJOINS = {"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"}


def sample(key: ApiKey) -> list[ErrorCode]:
    """The codes that Kafka answers a request with, and every eighth of the others."""
    return [code for number, code in enumerate(CODES) if IS_SOAK or number % 8 == 0 or code.name in ANSWERS[key]]


def is_survived(key: ApiKey, code: ErrorCode) -> bool:
    """Whether the user is not told of an error."""
    if code.retriable:
        return code.name not in RAISED_ALSO.get(key, ())
    return code.name in SURVIVED_ALSO.get(key, ())


def spoil(code: ErrorCode) -> Step:
    """Answer every item of a request with an error, and do nothing."""

    async def step(call: Call) -> Any:
        if call.key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP):
            return type(await _empty(call))(error_code=code)
        group = call.node.cluster.group  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]
        before = dict(group.committed)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        response = await call.default()
        group.committed = before
        if call.key is ApiKey.FETCH and code.name in SESSION:
            return type(response)(error_code=code)
        _stamp(response, code, deep=call.key is not ApiKey.METADATA)
        return response

    return step


async def _empty(call: Call) -> Any:
    return message(call.key, "response")()


def _stamp(value: Any, code: ErrorCode, *, deep: bool) -> None:
    """Set the error code of the items farthest down (of the topics, if not `deep`), and drop their records."""
    lists = [getattr(value, name) for name in type(value).__slots__]
    items = [item for some in lists if isinstance(some, list) for item in some if isinstance(item, Struct)]
    if hasattr(value, "error_code") and (not items or (not deep and hasattr(value, "partitions"))):
        value.error_code = code
        if hasattr(value, "records"):
            value.records = None
        if not deep:
            value.partitions = []
    else:
        for item in items:
            _stamp(item, code, deep=deep)


class Run:
    """A member that reads what is there, commits after each poll, and notes what it is told."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.read: dict[TopicPartition, list[int]] = {partition: [] for partition in PARTITIONS}
        self.errors: list[KafkaError] = []
        self.consumer = Consumer(
            "t",
            bootstrap_servers=cluster.address,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=3,
            retry_backoff_ms=1,
            retry_backoff_max_ms=3,
            max_poll_records=7,
        )

    @property
    def complete(self) -> bool:
        return all(set(offsets) == set(range(10)) for offsets in self.read.values())

    async def go(self, key: ApiKey, *, to_error: bool = False) -> None:
        """Read everything, go through the election, and be asked `key` until all its steps were taken, or an error."""
        elected = False
        async with self.consumer:
            while not (self.complete and elected and not self.cluster.steps[key] and not to_error) and not self.errors:
                try:
                    await self.poll()
                except KafkaError as error:
                    self.errors.append(error)
                if not elected and any(self.read.values()):
                    elected = True
                    for partition in PARTITIONS:
                        log = self.cluster.log(*partition)
                        log.truncate(log.end, leader=3 - log.leader)
                if self.complete and key is ApiKey.OFFSET_FETCH:
                    await self.consumer.committed()

    async def poll(self) -> None:
        for partition, records in (await self.consumer.getmany(timeout_ms=3)).items():
            self.read[partition] += [record.offset for record in records]
        if any(self.read.values()) and self.consumer.assignment():
            await self.consumer.commit()


def cluster_with_records() -> FakeCluster:
    cluster = FakeCluster({"t": 2}, nodes=2)
    for partition in PARTITIONS:
        write(cluster.log(*partition), 10, per_batch=1)
    return cluster


async def error_that_passes(key: ApiKey, code: ErrorCode) -> None:
    """It loses, doubles and reorders nothing."""
    async with cluster_with_records() as cluster:
        cluster.on(key, *[spoil(code)] * 2)
        run = Run(cluster)
        await run.go(key)
        if code.name in REJOINS and [type(error) for error in run.errors] == [CommitFailed]:
            return  # between a poll and its commit: the user is told
        assert run.errors == []
        for offsets in run.read.values():
            assert offsets == list(range(10)) or code.name in REJOINS
        assert cluster.group.committed == {("t", 0): 10, ("t", 1): 10}


async def error_that_does_not_pass(key: ApiKey, code: ErrorCode) -> None:
    """It is raised, and what the user was given until then is in order."""
    async with cluster_with_records() as cluster:
        cluster.on(key, spoil(code))
        run = Run(cluster)
        await run.go(key, to_error=True)
        assert [error.code for error in run.errors] == [code]
        assert run.errors[0].message
        assert all(offsets == list(range(len(offsets))) for offsets in run.read.values())


async def each_error(key: ApiKey, codes: list[ErrorCode]) -> None:
    for code in codes:
        meet: Callable[[ApiKey, ErrorCode], Awaitable[None]]
        meet = error_that_passes if is_survived(key, code) else error_that_does_not_pass
        try:
            async with asyncio.timeout(20):
                await meet(key, code)
        except BaseException as error:
            error.add_note(f"{key.name} was answered with {code.name}")
            raise


@pytest.mark.parametrize("key", ANSWERS, ids=lambda key: key.name)
def test_each_error_is_survived_or_raised_once(key: ApiKey) -> None:
    uvloop.run(each_error(key, sample(key)))


async def test_a_partition_that_cannot_be_reset_holds_up_no_other() -> None:
    async def step(call: Call) -> Any:
        response = await call.default()
        [topic] = response.topics
        for each in topic.partitions:
            if each.partition_index == 0:
                each.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return response

    async with FakeCluster({"t": 2}) as cluster, asyncio.timeout(20):
        for partition in PARTITIONS:
            write(cluster.log(*partition), 1)
        cluster.on(ApiKey.LIST_OFFSETS, step)
        consumer = Consumer(bootstrap_servers=cluster.address, auto_offset_reset="earliest", retry_backoff_ms=1)
        consumer.assign(PARTITIONS)
        async with consumer:
            told: list[KafkaError] = []
            found: list[TopicPartition] = []
            while len(found) < 2:
                try:
                    found += await consumer.getmany(timeout_ms=3)
                except KafkaError as error:
                    told.append(error)
        assert set(found) == set(PARTITIONS)
        assert [error.code for error in told] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]  # once, of the one partition


async def test_no_request_of_a_consumer_is_forgotten() -> None:
    async with cluster_with_records() as cluster, asyncio.timeout(20):
        run = Run(cluster)
        cluster.on(ApiKey.OFFSET_FOR_LEADER_EPOCH, do_it)
        await run.go(ApiKey.OFFSET_FOR_LEADER_EPOCH)
        # A connection that cannot agree on versions is as good as lost; nothing depends on a LeaveGroup.
        sent = {call.key for node in cluster.nodes.values() for call in node.calls}
        assert sent - {ApiKey.API_VERSIONS, ApiKey.LEAVE_GROUP} == set(ANSWERS)


@pytest.mark.parametrize("step", [drop, do_and_drop])
@pytest.mark.parametrize("key", ANSWERS, ids=lambda key: key.name)
async def test_a_connection_that_breaks_loses_doubles_and_reorders_nothing(key: ApiKey, step: Step) -> None:
    async with cluster_with_records() as cluster, asyncio.timeout(20):
        cluster.on(key, *[step] * 2)
        run = Run(cluster)
        if key is ApiKey.METADATA:
            cluster.steps[key].appendleft(lambda call: call.default())  # start() says at once that nobody responds
        await run.go(key)
        assert run.errors == []
        assert [offsets for offsets in run.read.values() if offsets != list(range(10))] == []
        assert cluster.group.committed == {("t", 0): 10, ("t", 1): 10}
