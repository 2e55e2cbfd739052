"""A consumer of one broker, as the first Kafka clients had it: no group, no metadata, no retries, no position.

    async with SimpleConsumer("127.0.0.1:9092") as consumer:
        leader = await consumer.find_leader("flights", 0)
        found = await consumer.fetch("flights", 0, offset=0)

Each call is one request to this broker, and ends within `default_api_timeout_ms`. A partition that the broker does not
lead is an error: ask `find_leader`, and connect to the leader.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ...protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ...protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ...protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from ..core.clock import api_result
from ..core.connection import Connection
from ..core.coordinator import GROUP, coordinator_in, coordinator_request
from ..core.handshakes import TlsContexts
from ..core.leaders import ISOLATION_LEVELS, rows_in
from ..core.lifetime import Lifetime, StartedClient
from ..core.metadata import ClusterView, Node
from ..core.option_values import broker_address
from ..core.options import check_choice, check_options, checked_offset, items_of, security_options
from ..core.security import SecurityArguments
from ..errors import ClientStopped, UnsupportedVersion, answered, error_of, raise_error, results_of
from ..record import EARLIEST, LATEST, ConsumerRecord, OffsetAndMetadata, TopicPartition, by_topic
from .fetched_batch import CompletedFetch

P = ParamSpec("P")
T = TypeVar("T")

_LAST_NAMED_FETCH = 12  # Fetch 13 goes by topic id
_SEVERAL_OFFSETS = 0  # ListOffsets 0 returns several offsets, later versions one
# Of OffsetCommit and OffsetFetch, by where the offsets are: the last version with one group and topics by name at the
# group's coordinator; and the only one that goes to ZooKeeper, at any broker of a cluster that has one.
_LAST_OFFSETS = {"kafka": 7, "zookeeper": 0}


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one partition's part of a fetch brought. `next_offset` is where the next fetch goes on."""

    records: list[ConsumerRecord]
    next_offset: int
    high_watermark: int
    log_start_offset: int


def _in_time(
    method: Callable[Concatenate[SimpleConsumer, P], Awaitable[T]],
) -> Callable[Concatenate[SimpleConsumer, P], Coroutine[Any, Any, T]]:
    """Have a call raise RequestTimedOut after `default_api_timeout_ms`."""

    @wraps(method)
    async def call(self: SimpleConsumer, *args: P.args, **options: P.kwargs) -> T:
        return await api_result(method(self, *args, **options), self._default_api_timeout_ms)  # pyright: ignore

    return call


class SimpleConsumer(StartedClient):
    """Fetches from one broker: "host:port", or host and port apart. Use `async with`, or `start()` and `stop()`."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int | None = None,
        *,
        client_id: str = "odradek-simple-consumer",
        isolation_level: str = "read_uncommitted",
        request_timeout_ms: float = 30_000,
        default_api_timeout_ms: float = 60_000,
        check_crcs: bool = True,
        **security: Unpack[SecurityArguments],
    ) -> None:
        check_options(locals())
        self._address = broker_address(host, port)
        self._client_id = client_id
        self._isolation_level = ISOLATION_LEVELS[isolation_level]
        self._request_timeout_ms = request_timeout_ms
        self._default_api_timeout_ms = default_api_timeout_ms
        self._check_crcs = check_crcs
        self._security = security_options("SimpleConsumer", security)
        self._connection: Connection | None = None
        self._lifetime = Lifetime("consumer")

    async def _start(self) -> None:
        self._connection = await Connection.open(
            *self._address,
            client_id=self._client_id,
            request_timeout_ms=self._request_timeout_ms,
            security=self._security,
            tls=TlsContexts(self._security).current() if self._security.uses_tls else None,
        )

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    # -- Records

    async def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = 1_048_576,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
    ) -> Fetched:
        """Return records from `offset` on; at least one batch if there is one. Raises KafkaError."""
        place = TopicPartition(topic, partition)
        limits = {"max_bytes": max_bytes, "min_bytes": min_bytes, "max_wait_ms": max_wait_ms}
        return results_of(await self.multifetch({place: offset}, **limits))[place]

    @_in_time
    async def multifetch(
        self,
        offsets: Mapping[TopicPartition, int],
        *,
        max_bytes: int = 1_048_576,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
    ) -> dict[TopicPartition, Fetched | KafkaError]:
        """Return for each partition its records from an offset on, or its error: one request for all.

        `max_bytes` is for each partition. Raises KafkaError if the whole request fails.
        """
        rows = [
            (name, FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=max_bytes))
            for (name, number), offset in offsets.items()
        ]
        topics = [FetchTopic(topic=name, partitions=some) for name, some in by_topic(rows).items()]
        request = FetchRequest(
            max_wait_ms=max_wait_ms, min_bytes=min_bytes, isolation_level=self._isolation_level, topics=topics
        )
        connection = self._running()
        version = connection.version_for(FetchRequest, _LAST_NAMED_FETCH)
        response = await connection.request(request, FetchResponse, version=version)
        raise_error(response.error_code, None, "the fetch")
        said = rows_in(response).items()
        return answered(
            offsets, {place: self._fetched(place, offsets[place], data) for place, data in said if place in offsets}
        )

    def _fetched(self, place: TopicPartition, offset: int, data: PartitionData) -> Fetched | KafkaError:
        if error := error_of(data.error_code, None, f"fetching {place} at offset {offset}"):
            return error
        aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
        records: list[ConsumerRecord] = []
        try:
            fetch = CompletedFetch(place, memoryview(data.records or b""), offset, aborted, check_crcs=self._check_crcs)
            while some := fetch.take(len(data.records or b"")):
                records += some
        except KafkaError as error:
            return error
        return Fetched(records, fetch.next_offset, data.high_watermark, data.log_start_offset)

    # -- Offsets

    @_in_time
    async def offsets_before(
        self, topic: str, partition: int, time_ms: int = LATEST, max_offsets: int = 1
    ) -> list[int]:
        """Return up to `max_offsets` offsets from which all earlier records are older than a time, the newest first.

        `time_ms` may be LATEST (the end of the log) or EARLIEST. A broker that speaks ListOffsets 0 returns where its
        segments begin; another one the offset of the time and the start of the log. Raises KafkaError.
        """
        connection = self._running()
        try:
            version = connection.version_for(ListOffsetsRequest, _SEVERAL_OFFSETS)
        except UnsupportedVersion:
            times = [time_ms] if time_ms == EARLIEST or max_offsets < 2 else [time_ms, EARLIEST]
            found = [(await self._list(connection, topic, partition, time)).offset for time in times]
            return list(dict.fromkeys(offset for offset in found if offset >= 0))[:max_offsets]
        found = await self._list(connection, topic, partition, time_ms, max_offsets, version)
        return found.old_style_offsets

    async def _list(
        self,
        connection: Connection,
        topic: str,
        partition: int,
        time_ms: int,
        max_offsets: int = 1,
        version: int | None = None,
    ) -> ListOffsetsPartitionResponse:
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=time_ms, max_num_offsets=max_offsets)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self._isolation_level,
            topics=[ListOffsetsTopic(name=topic, partitions=[wanted])],
        )
        if version is not None:
            request.isolation_level = 0
        response = await connection.request(request, ListOffsetsResponse, version=version)
        place = TopicPartition(topic, partition)
        found = results_of(answered([place], rows_in(response)))[place]
        raise_error(found.error_code, None, f"listing offsets of {place}")
        return found

    # -- Leaders

    @_in_time
    async def find_leader(self, topic: str, partition: int) -> Node:
        """Return the broker that leads a partition, as this broker knows it. Raises KafkaError."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        response = await self._running().request(request, MetadataResponse)
        view = ClusterView().updated(response, whole=True)
        if topic in view.errors:
            raise KafkaError(view.errors[topic], f"topic {topic!r}: {view.errors[topic].text}")
        place = TopicPartition(topic, partition)
        if view.partition(place) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} has no partition {partition}")
        leader = view.nodes.get(view.leader(place))
        if leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader at the moment")
        return leader

    # -- Committed offsets

    @_in_time
    async def find_coordinator(self, group_id: str) -> Node:
        """Return the broker that keeps a group's offsets: connect to it for these.

        Raises KafkaError, retriable while there is none.
        """
        connection = self._running()
        version = connection.version_for(FindCoordinatorRequest)
        request = coordinator_request(group_id, GROUP, version)
        return coordinator_in(await connection.request(request, FindCoordinatorResponse, version=version), group_id)

    @_in_time
    async def commit_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], *, storage: str = "kafka"
    ) -> None:
        """Commit offsets for a group that has no members.

        With `storage="kafka"` this broker must be the group's coordinator. With `"zookeeper"` it may be any broker of a
        cluster; the group's consumers there are of Kafka 0.8. Raises KafkaError for the first partition that fails,
        UnsupportedVersion without that storage.
        """
        connection, version = self._offset_keeper(OffsetCommitRequest, storage)
        rows: list[tuple[str, OffsetCommitRequestPartition]] = []
        for (name, number), given in offsets.items():
            at = checked_offset(given)
            rows.append((name, OffsetCommitRequestPartition(number, at.offset, committed_metadata=at.metadata)))
        topics = [OffsetCommitRequestTopic(name, partitions=some) for name, some in by_topic(rows).items()]
        request = OffsetCommitRequest(group_id, topics=topics)
        response = await connection.request(request, OffsetCommitResponse, version=version)
        for place, row in results_of(answered(offsets, rows_in(response))).items():
            raise_error(row.error_code, None, f"committing the offset of group {group_id!r} in {place}")

    @_in_time
    async def fetch_offsets(
        self,
        group_id: str,
        partitions: TopicPartition | Iterable[TopicPartition] = (),
        *more: TopicPartition,
        storage: str = "kafka",
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return a group's offsets, None where there is none. `storage` is as in `commit_offsets`.

        Raises KafkaError, UnsupportedVersion.
        """
        wanted = items_of("fetch_offsets", TopicPartition, (partitions, *more))
        connection, version = self._offset_keeper(OffsetFetchRequest, storage)
        topics = [OffsetFetchRequestTopic(*each) for each in by_topic(dict.fromkeys(wanted)).items()]
        request = OffsetFetchRequest(group_id, topics)
        response = await connection.request(request, OffsetFetchResponse, version=version)
        raise_error(response.error_code, None, f"reading the offsets of group {group_id!r}")
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for place, row in rows_in(response).items():
            # In ZooKeeper an offset that is missing is an error.
            is_missing = ErrorCode.of(row.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            code = ErrorCode.NONE if is_missing else row.error_code
            raise_error(code, None, f"reading the offset of group {group_id!r} in {place}")
            at = OffsetAndMetadata(row.committed_offset, row.metadata or "", row.committed_leader_epoch)
            found[place] = None if is_missing or at.offset < 0 else at
        return results_of(answered(wanted, found))

    def _offset_keeper(
        self, request: type[OffsetCommitRequest | OffsetFetchRequest], storage: str
    ) -> tuple[Connection, int]:
        """Return the connection, and the version that goes to that storage."""
        connection = self._running()
        check_choice("storage", storage, _LAST_OFFSETS)
        return connection, connection.version_for(request, _LAST_OFFSETS[storage])

    def _running(self) -> Connection:
        self._lifetime.check_loop()
        if self._connection is None:
            raise ClientStopped("the consumer is not connected: use `async with SimpleConsumer(...)`, or await start()")
        return self._connection
