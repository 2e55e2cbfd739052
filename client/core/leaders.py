"""Requests about many partitions or other items: what is retriable is asked again, and what failed is told for each.

`for_items` sends one request about all of them. `request_from_leaders` asks the leaders of partitions, also where these
have moved; among such requests is ListOffsets (key 2). `rows_in` and `errors_in` read what an answer says of each
partition, by the shape of its API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from ...protocol.apis import key_of
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ...protocol.schema import Message
from ...protocol.shapes.shape import Items
from ...protocol.shapes.table import SHAPES
from ..errors import UnknownTopic, answered, error_of, results_of
from ..record import OffsetAndTimestamp, TopicPartition, by_topic
from .cluster import Cluster
from .metadata import NO_LEADER
from .options import whole_number

K = TypeVar("K")
P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W")
F = TypeVar("F")
# Sends partitions of one broker to it, by its node id. Returns what became of each.
Request = Callable[[int, Mapping[TopicPartition, W]], Awaitable[Mapping[TopicPartition, F | KafkaError]]]


async def for_items(
    cluster: Cluster, items: Collection[K], attempt: Callable[[list[K]], Awaitable[Mapping[K, R | KafkaError]]]
) -> dict[K, R]:
    """Return the result of each item. `attempt` sends a request about some items, and returns what became of each.

    Items with a retriable error are tried again; the others are not sent twice. Raises the error of a single item as it
    is, and ItemsFailed if some of several items failed.
    """
    left, found = list(items), dict[K, R | KafkaError]()

    async def once() -> None:
        nonlocal left
        found.update(answered(left, await attempt(left)))
        errors = {item: error for item in left if isinstance(error := found[item], KafkaError) and error.retriable}
        left = list(errors)
        for error in errors.values():
            raise error

    try:
        if left:
            await cluster.retry(once)
    except KafkaError as error:
        found.update({item: error for item in left if not isinstance(found.get(item), KafkaError)})
    return results_of({item: found[item] for item in items})


async def one_by_one(cluster: Cluster, items: Collection[K], request: Callable[[K], Awaitable[R]]) -> dict[K, R]:
    """Do as `for_items` where each item needs a request of its own, whose error is raised."""

    async def attempt(some: list[K]) -> dict[K, R | KafkaError]:
        found: dict[K, R | KafkaError] = {}
        for each in some:
            try:
                found[each] = await request(each)
            except KafkaError as error:
                found[each] = error
        return found

    return await for_items(cluster, items, attempt)


def timeout_of(cluster: Cluster, timeout_ms: int | None = None) -> int:
    """Return how long a broker may take for a request."""
    return int(cluster.options.request_timeout_ms) if timeout_ms is None else timeout_ms


def retried(
    function: Callable[Concatenate[Cluster, P], Awaitable[R]],
) -> Callable[Concatenate[Cluster, P], Coroutine[Any, Any, R]]:
    """Have a function of a cluster tried again while its error is retriable, as `Cluster.retry` does."""

    @wraps(function)
    async def call(cluster: Cluster, *args: P.args, **options: P.kwargs) -> R:
        return await cluster.retry(lambda: function(cluster, *args, **options))

    return call


def rows_in(response: Message, names: Mapping[bytes, str] | None = None) -> dict[TopicPartition, Any]:
    """Return what a response says of each partition: its row. `names` are those of topics that it has by id."""
    return {partition: row for _, partition, row in _rows(response, names or {})}


def errors_in(response: Message, what: Callable[[TopicPartition], str]) -> dict[TopicPartition, KafkaError | None]:
    """Return the error of each partition in a response, None where it has none; `what` says what failed."""
    return {
        partition: error_of(getattr(row, rows.error), getattr(row, rows.text) if rows.text else None, what(partition))
        for rows, partition, row in _rows(response, {})
    }


def _rows(response: Message, names: Mapping[bytes, str]) -> Iterator[tuple[Items, TopicPartition, Any]]:
    assert response.KEY is not None
    for topics in SHAPES[key_of(response.KEY)].lists:
        rows = topics.inner
        if rows is None or rows.kind != "partition":
            continue
        for topic in getattr(response, topics.results):
            called = [getattr(topic, field) for _, field in topics.names]
            name = called[0] or names.get(called[-1], "")
            for row in getattr(topic, rows.results):
                yield rows, TopicPartition(name, getattr(row, rows.names[0][1])), row


# -- Leaders of partitions


async def request_from_leaders(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, W],
    request: Request[W, F],
    missing_text: Callable[[TopicPartition], str],
) -> dict[TopicPartition, F | KafkaError]:
    """Return what the leaders of `wanted` say of each partition: a result, or an error that is not retriable.

    Partitions that a leader leaves out, or that have a retriable error, are requested again until
    `default_api_timeout_ms` is over: then their last error is what became of them. Raises UnknownTopic, and KafkaError
    where nothing is known of any partition.
    """
    found: dict[TopicPartition, F | KafkaError] = {}
    last_errors: dict[TopicPartition, KafkaError] = {}

    async def request_the_rest() -> None:
        await know_leaders(cluster, wanted.keys() - found.keys())
        await _ask_leaders(cluster, wanted, request, found, last_errors)
        missing = [partition for partition in wanted if partition not in found]
        if missing:
            # Another broker may lead by now.
            await cluster.learn({partition.topic for partition in missing})
            nobody = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, missing_text(missing[0]))
            raise last_errors.get(missing[0], nobody)

    try:
        await cluster.retry(request_the_rest)
    except KafkaError as error:
        if not found:
            raise
        # What others said is an answer, too.
        return found | {each: last_errors.get(each, error) for each in wanted if each not in found}
    return found


async def _ask_leaders(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, W],
    request: Request[W, F],
    found: dict[TopicPartition, F | KafkaError],
    passing: dict[TopicPartition, KafkaError],
) -> None:
    """Add what the leaders say of those that are not `found` yet. Retriable errors go to `passing`."""

    async def ask(leader: int, led: list[TopicPartition]) -> None:
        try:
            said = await request(leader, {each: wanted[each] for each in led})
        except KafkaError as error:
            said = dict.fromkeys(led, error)
        for each, value in answered(led, said).items():
            if isinstance(value, KafkaError) and value.retriable:
                passing[each] = value
            else:
                found[each] = value

    leaders = group_by_leader(cluster, (each for each in wanted if each not in found))
    # All at once: one that hangs takes no time from the others.
    await asyncio.gather(*(ask(*each) for each in leaders.items()))


async def know_leaders(cluster: Cluster, partitions: Collection[TopicPartition]) -> None:
    """Request the metadata of these partitions where a leader is not known. Raises UnknownTopic."""
    topics = sorted({partition.topic for partition in partitions})
    for topic in topics:
        await cluster.topic(topic)
    if any(cluster.leader(partition) == NO_LEADER for partition in partitions):
        await cluster.learn(topics)
    for partition in partitions:
        if cluster.view.partition(partition) is None:
            raise UnknownTopic(f"topic {partition.topic!r} has no partition {partition.partition}")


def group_by_leader(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
    """Return the partitions by their leader's node id, without those that have no leader."""
    leaders: dict[int, list[TopicPartition]] = {}
    for each in partitions:
        if (leader := cluster.leader(each)) != NO_LEADER:
            leaders.setdefault(leader, []).append(each)
    return leaders


# -- Offsets

# How long one who takes a partial answer waits for leaders that do not answer: long enough for one that has moved.
_PATIENCE_MS = 3_000


async def led_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation_level: int
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Do as `list_offsets` for those partitions that answer. The others are left out.

    A partition without a leader is not waited for, and one whose leader does not answer only for some seconds. Raises
    KafkaError where no partition answers, unless none of them has a leader.
    """
    found: dict[TopicPartition, OffsetAndTimestamp | KafkaError] = {}
    passing: dict[TopicPartition, KafkaError] = {}
    request = _offsets_from(cluster, isolation_level)

    async def attempt() -> None:
        rest = [each for each in timestamps if each not in found]
        if passing or any(cluster.leader(each) == NO_LEADER for each in rest):
            await cluster.learn({each.topic for each in rest})
        passing.clear()
        await _ask_leaders(cluster, timestamps, request, found, passing)
        for error in passing.values():
            raise error

    try:
        if timestamps:
            await cluster.retry(attempt, timeout_ms=min(_PATIENCE_MS, cluster.options.default_api_timeout_ms))
    except KafkaError:
        if not found:
            raise
    failed = [value for value in found.values() if isinstance(value, KafkaError)]
    if failed and len(failed) == len(found):
        raise failed[0]
    return {each: value for each, value in found.items() if not isinstance(value, KafkaError)}


READ_UNCOMMITTED = 0
READ_COMMITTED = 1
_CONSUMER = -1
# Replicas that are not the leader's answer only to it.
_DEBUGGING_CONSUMER = -2
ISOLATION_LEVELS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


async def list_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation_level: int = READ_UNCOMMITTED
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return for each partition the first offset at or after a timestamp (ms), or an end of its log (LATEST, EARLIEST).

    Retries for `default_api_timeout_ms`. Raises UnknownTopic, KafkaError, ItemsFailed if some of several partitions
    fail.
    """
    request = _offsets_from(cluster, isolation_level)
    return results_of(await request_from_leaders(cluster, timestamps, request, "no offset was found for {}".format))


async def list_replica_offsets(
    cluster: Cluster, node_id: int, timestamps: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Ask a broker for the offsets of its own replicas, which reach to the end of its log; once.

    Raises ConnectionLost, KafkaError, ItemsFailed if some of several partitions fail.
    """
    said = await _offsets_from(cluster, READ_UNCOMMITTED, _DEBUGGING_CONSUMER)(node_id, timestamps)
    return results_of(answered(timestamps, said))


def _offsets_from(
    cluster: Cluster, isolation_level: int, replica_id: int = _CONSUMER
) -> Request[int, OffsetAndTimestamp]:
    async def request(
        node_id: int, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
        request = offsets_request(wanted, isolation_level, cluster.options.request_timeout_ms, replica_id)
        return offsets_in(await cluster.request(node_id, request, ListOffsetsResponse))

    return request


def offsets_request(
    timestamps: Mapping[TopicPartition, int], isolation_level: int, timeout_ms: float, replica_id: int = _CONSUMER
) -> ListOffsetsRequest:
    """Return the request for the first offsets at or after these times."""
    what = "a time, or LATEST or EARLIEST,"
    rows = [
        (name, ListOffsetsPartition(partition_index=number, timestamp=whole_number(timestamp, what)))
        for (name, number), timestamp in timestamps.items()
    ]
    topics = [ListOffsetsTopic(*each) for each in by_topic(rows).items()]
    return ListOffsetsRequest(
        replica_id=replica_id, isolation_level=isolation_level, topics=topics, timeout_ms=int(timeout_ms)
    )


def offsets_in(response: ListOffsetsResponse) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
    """Return the offset of each partition in a response, or its error."""
    return {
        partition: error_of(row.error_code, None, str(partition))
        # A broker of Kafka 0.10.0 speaks version 0 alone.
        or OffsetAndTimestamp((row.old_style_offsets or [row.offset])[0], row.timestamp, row.leader_epoch)
        for partition, row in rows_in(response).items()
    }
