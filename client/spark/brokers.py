"""Requests of driver and tasks to a cluster: its topics, the leaders of partitions, the ends of their logs.

`retry` repeats requests with growing pauses, while errors are retriable and `default.api.timeout.ms` is not over. Clock
and sleep are passed in, so that tests need neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ...protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ..errors import ConnectionLost, NoBrokerReachable, UnknownTopic
from ..metadata import ClusterView
from ..network.addresses import Address
from ..network.backoff import Backoff
from ..record import TopicPartition
from .connection import BlockingConnection
from .options import ClientOptions

T = TypeVar("T")


class Brokers:
    """The cluster behind the bootstrap servers. Keeps no connection open."""

    def __init__(
        self,
        options: ClientOptions,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.options = options
        self.clock = clock
        self._sleep = sleep
        self._backoff = Backoff(options.numbers["retry.backoff.ms"], options.numbers["retry.backoff.max.ms"])

    def retry(self, attempt: Callable[[], T]) -> T:
        """Return the result of `attempt`, repeated while its error is retriable and time is left."""
        deadline = self.clock() + self.options.numbers["default.api.timeout.ms"] / 1000
        failures = 0
        while True:
            try:
                return attempt()
            except KafkaError as error:
                failures += 1
                if not error.retriable or isinstance(error, UnknownTopic) or not self.pause(failures, deadline):
                    raise

    def pause(self, failures: int, deadline: float) -> bool:
        """Pause after so many failures in a row. Return False at once if the pause would end after the deadline."""
        seconds = self._backoff.pause_ms(failures) / 1000
        if self.clock() + seconds > deadline:
            return False
        self._sleep(seconds)
        return True

    def view(self, topics: Collection[str] | None) -> ClusterView:
        """Return the cluster's brokers and these topics (None: all). Raises NoBrokerReachable, KafkaError."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        with self._connect_any() as connection:
            response = connection.request(
                MetadataRequest(topics=wanted, allow_auto_topic_creation=False), MetadataResponse
            )
        return ClusterView().updated(response, whole=True)

    def _connect_any(self) -> BlockingConnection:
        reasons: list[str] = []
        for address in self.options.bootstrap:
            try:
                return BlockingConnection(address, self.options)
            except ConnectionLost as error:
                reasons.append(error.message.removeprefix("cannot connect to "))
        raise NoBrokerReachable("; ".join(reasons))

    def leader_of(self, partition: TopicPartition, topic_id: bytes) -> Address:
        """Return the address of the partition's leader.

        Raises UnknownTopic if the topic was deleted, also if a new topic has its name.
        """
        view = self.view([partition.topic])
        known_id = view.topic_id(partition.topic)
        if any(topic_id) and any(known_id) and known_id != topic_id:
            raise UnknownTopic(f"topic '{partition.topic}' was deleted and created again")
        return _leader(view, partition)

    def offsets(self, partitions: Collection[TopicPartition], timestamp: int) -> Mapping[TopicPartition, int]:
        """Return the offset of each partition at `timestamp`, which may be EARLIEST or LATEST."""
        view = self.view({partition.topic for partition in partitions})
        by_leader: dict[Address, list[TopicPartition]] = {}
        for partition in partitions:
            by_leader.setdefault(_leader(view, partition), []).append(partition)
        found: dict[TopicPartition, int] = {}
        for address, led in by_leader.items():
            with BlockingConnection(address, self.options) as connection:
                response = connection.request(self._offsets_request(led, timestamp), ListOffsetsResponse)
            found.update(_offsets_of(response))
        missing = set(partitions) - set(found)
        if missing:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the brokers returned no offsets of {sorted(missing)}")
        return found

    def _offsets_request(self, partitions: Collection[TopicPartition], timestamp: int) -> ListOffsetsRequest:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=number, timestamp=timestamp))
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self.options.isolation_level,
            topics=[ListOffsetsTopic(name=name, partitions=numbers) for name, numbers in topics.items()],
            timeout_ms=self.options.numbers["request.timeout.ms"],
        )


def _leader(view: ClusterView, partition: TopicPartition) -> Address:
    topic, number = partition
    with suppress(KeyError):
        code = view.errors[topic]
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic(f"topic '{topic}' does not exist")
        raise KafkaError(code, f"topic '{topic}': {code.text}")
    if view.partition(partition) is None:
        raise UnknownTopic(f"topic '{topic}' has no partition {number}")
    node = view.nodes.get(view.leader(partition))
    if node is None:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{number} has no leader at the moment")
    return node.host, node.port


def _offsets_of(response: ListOffsetsResponse) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic in response.topics:
        for each in topic.partitions:
            code = ErrorCode.of(each.error_code)
            if code is not ErrorCode.NONE:
                raise KafkaError(code, f"offsets of {topic.name}-{each.partition_index}: {code.text}")
            found[TopicPartition(topic.name, each.partition_index)] = each.offset
    return found
