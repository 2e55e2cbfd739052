"""Blocking requests to a cluster: its topics, the leaders of partitions, the ends of their logs.

`retry` repeats requests with growing pauses, while errors are retriable and `default.api.timeout.ms` is not over. Clock
and sleep are passed in, so that tests need neither.

Who asks again and again, as a stream does at every trigger, keeps its connections: then a look at the ends of the logs
costs a Metadata request and a ListOffsets request to each leader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ...protocol.messages.list_offsets import ListOffsetsResponse
from ...protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ..core.clock import Backoff
from ..core.leaders import offsets_in, offsets_request
from ..core.metadata import ClusterView
from ..core.option_values import Address
from ..errors import ConnectionLost, NoBrokerReachable, NotConnected, RequestTimedOut, UnknownTopic, answered
from ..record import TopicPartition, by_topic
from .connection import BlockingConnection, ClientOptions

T = TypeVar("T")

# Brokers come and go at other addresses while a stream runs for months.
_MAX_KEPT = 100


class Brokers:
    """The cluster behind the bootstrap servers. Not safe for threads.

    With `keeps_connections` it is a context manager, and `close` ends the connections.
    """

    def __init__(
        self,
        options: ClientOptions,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        first: int = 0,
        *,
        keeps_connections: bool = False,
        was_reached: bool = False,
    ) -> None:
        """`first` is the bootstrap server that is tried first, modulo their number: tasks spread over them so.

        `was_reached`: the cluster was there before, as it was when the driver planned this task. Then `retry` waits for
        brokers that are all down. Otherwise an address where nobody answers is an error at once: it may be misspelt.
        """
        self.options = options
        self._first = first % len(options.bootstrap)
        self._keeps = keeps_connections
        self._was_reached = was_reached
        # Idle connections by address, each with the time of its last use; the one that was used last is at the end.
        self._kept: dict[Address, tuple[BlockingConnection, float]] = {}
        self.clock = clock
        self._sleep = sleep
        self._backoff = Backoff(options.numbers["retry.backoff.ms"], options.numbers["retry.backoff.max.ms"])

    def __enter__(self) -> Brokers:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept; may be called again."""
        while self._kept:
            self._kept.popitem()[1][0].close()

    def retry(self, attempt: Callable[[], T]) -> T:
        """Return the result of `attempt`, repeated while its error is retriable and time is left."""
        deadline = self.clock() + self.options.numbers["default.api.timeout.ms"] / 1000
        failures = 0
        while True:
            try:
                return attempt()
            except KafkaError as error:
                failures += 1
                if not self._may_pass(error) or not self.pause(failures, deadline):
                    raise

    def _may_pass(self, error: KafkaError) -> bool:
        if isinstance(error, NoBrokerReachable) and not self._was_reached:
            return False
        return error.retriable and not isinstance(error, UnknownTopic)

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
        with self.connect() as connection:
            response = connection.request(
                MetadataRequest(topics=wanted, allow_auto_topic_creation=False), MetadataResponse
            )
        return ClusterView().updated(response, whole=True)

    # -- Connections

    @contextmanager
    def connect(self) -> Generator[BlockingConnection, None, None]:
        """Give a connection to a bootstrap server; to the next one where that cannot be reached or does not answer.

        Raises NoBrokerReachable. The server that answered is asked first the next time.
        """
        reasons: list[str] = []
        listens = False
        servers = self.options.bootstrap
        for address in servers[self._first :] + servers[: self._first]:
            try:
                connection = self._open(address)
            except (ConnectionLost, RequestTimedOut) as error:
                listens = listens or not isinstance(error, NotConnected)
                reasons.append(error.message.removeprefix("cannot connect to "))
                continue
            self._first = servers.index(address)
            self._was_reached = True
            try:
                with self._used(address, connection):
                    yield connection
            except (ConnectionLost, RequestTimedOut):
                self._first = (self._first + 1) % len(servers)
                raise
            return
        raise NoBrokerReachable("; ".join(reasons), listens=listens)

    @contextmanager
    def to(self, address: Address) -> Generator[BlockingConnection, None, None]:
        """Give a connection to a broker. Raises what connecting raises."""
        with self._used(address, self._open(address)) as connection:
            yield connection

    def _open(self, address: Address) -> BlockingConnection:
        kept = self._kept.pop(address, None)
        if kept is not None:
            connection, used_s = kept
            # What stands between may have forgotten a connection that was idle for long, and say nothing.
            longest_ms = self.options.numbers["connections.max.idle.ms"]
            if connection.is_reusable and (longest_ms < 0 or self.clock() - used_s < longest_ms / 1000):
                return connection
            connection.close()
        return BlockingConnection(address, self.options)

    @contextmanager
    def _used(self, address: Address, connection: BlockingConnection) -> Generator[BlockingConnection, None, None]:
        """Keep the connection after its use, or close it: after an error always."""
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if not self._keeps:
            connection.close()
            return
        self._kept[address] = connection, self.clock()
        if len(self._kept) > _MAX_KEPT:
            self._kept.pop(next(iter(self._kept)))[0].close()

    # -- Requests

    def leader_of(self, partition: TopicPartition, topic_id: bytes) -> Address:
        """Return the address of the partition's leader.

        Raises UnknownTopic if the topic was deleted, also if a new topic has its name.
        """
        view = self.view([partition.topic])
        known_id = view.topic_id(partition.topic)
        if any(topic_id) and any(known_id) and known_id != topic_id:
            raise UnknownTopic(f"topic '{partition.topic}' was deleted and created again")
        return leader_address(view, partition)

    def offsets(
        self, partitions: Collection[TopicPartition], timestamp: int, view: ClusterView | None = None
    ) -> Mapping[TopicPartition, int]:
        """Return the offset of each partition at `timestamp`, which may be EARLIEST or LATEST."""
        return self.offsets_at(dict.fromkeys(partitions, timestamp), view)

    def offsets_at(
        self, times: Mapping[TopicPartition, int], view: ClusterView | None = None
    ) -> Mapping[TopicPartition, int]:
        """Return the offset of each partition's first record at or after its time; -1 where there is none.

        A caller that has just asked for the leaders passes its `view`.
        """
        found: dict[TopicPartition, int] = {}
        for address, led in self.by_leader(times, view).items():
            with self.to(address) as connection:
                wanted = {each: times[each] for each in led}
                request = offsets_request(
                    wanted, self.options.isolation_level, self.options.numbers["request.timeout.ms"]
                )
                response = connection.request(request, ListOffsetsResponse)
            for each, at in answered(led, offsets_in(response)).items():
                if isinstance(at, KafkaError):
                    raise at
                found[each] = at.offset
        return found

    def log_ends(
        self, partitions: Collection[TopicPartition], sentinel: int, view: ClusterView | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first or the last offset of each log, EARLIEST or LATEST, tried again as `retry` does.

        `view` knew their leaders.
        """
        # Leaders may have moved since: after a failure they are asked for again.
        views = iter([view])
        return dict(self.retry(lambda: self.offsets(partitions, sentinel, next(views, None))))

    def sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the bytes of each partition's log on its leader, as DescribeLogDirs has them. Raises KafkaError."""
        found: dict[TopicPartition, int] = {}
        for address, led in self.by_leader(partitions).items():
            request = DescribeLogDirsRequest([DescribableLogDirTopic(*each) for each in by_topic(led).items()])
            with self.to(address) as connection:
                found.update(_sizes_of(connection.request(request, DescribeLogDirsResponse)))
        missing = sorted(set(partitions) - set(found))
        if missing:
            why = "the brokers tell no sizes (DescribeLogDirs; the cluster's DESCRIBE must be allowed)"
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{why} of {missing}")
        return found

    def by_leader(
        self, partitions: Collection[TopicPartition], view: ClusterView | None = None
    ) -> dict[Address, list[TopicPartition]]:
        """Return what each leader leads. Raises UnknownTopic, and KafkaError where a partition has none."""
        view = view or self.view({partition.topic for partition in partitions})
        found: dict[Address, list[TopicPartition]] = {}
        for each in partitions:
            found.setdefault(leader_address(view, each), []).append(each)
        return found


def leader_address(view: ClusterView, partition: TopicPartition) -> Address:
    """Return the address of a partition's leader. Raises UnknownTopic, and LEADER_NOT_AVAILABLE where it has none."""
    topic, number = partition
    view.check_topic(topic)
    if view.partition(partition) is None:
        raise UnknownTopic(f"topic '{topic}' has no partition {number}")
    node = view.nodes.get(view.leader(partition))
    if node is None:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{number} has no leader at the moment")
    return node.host, node.port


def known_leader(view: ClusterView, partition: TopicPartition) -> Address | None:
    """Return the address of a partition's leader, None where the cluster had none when it was asked."""
    try:
        return leader_address(view, partition)
    except KafkaError:
        return None


def _sizes_of(response: DescribeLogDirsResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, each.partition_index): each.partition_size
        for result in response.results
        for topic in result.topics
        for each in topic.partitions
        if not each.is_future_key
    }
