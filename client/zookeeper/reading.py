"""The reading side of a member of a group in ZooKeeper: it reads the partitions that it is given, and commits.

An ordinary consumer without a group fetches; its partitions are assigned here. Records go to message streams, and what
these have consumed is committed to the group's storage.

Message streams are async iterators over the partitions that a consumer owns in ZooKeeper:

    poll --the partition's stream--> its queue --async for--> the task that reads the stream

Each partition belongs to one stream. A record counts as consumed when its stream is asked for the next one. Only
consumed records are committed.
"""

from __future__ import annotations

# The streams say which of the consumer's partitions have to wait.
# pyright: reportPrivateUsage=false
import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ...protocol.errors import KafkaError
from ..consumer import Consumer
from ..consumer.streams import MAX_QUEUED, Stream, StreamSet
from ..core.cluster import Cluster
from ..record import ConsumerRecord, OffsetAndMetadata, TopicPartition
from .offsets import OffsetStorage
from .registry import Subscription

_POLL_MS = 500
# Most errors of a poll come again at once.
_AFTER_ERROR_S = 0.1

_log = logging.getLogger(__name__)


class _Begin:
    """Where the present assignment begins, as the offset store of the consumer that reads it."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, int] = {}

    async def load(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the offsets that the storage had when the partitions were claimed."""
        return self.offsets

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit nothing: the streams know what is consumed."""


class Reading:
    """Reads what `begin_part` names until `end_part`. `start` and `stop` it."""

    def __init__(
        self,
        brokers: Collection[str],
        consumer_options: Mapping[str, Any],
        commit_interval_ms: float | None,
    ) -> None:
        """`commit_interval_ms` is None where only the user commits."""
        self.commit_interval_ms = commit_interval_ms
        self.streams = MessageStreams(Subscription({}), asyncio.Event())
        # From the start on.
        self._storage: OffsetStorage
        self._begin = _Begin()
        self._consumer = Consumer(
            bootstrap_servers=list(brokers), offset_store=self._begin, enable_auto_commit=False, **consumer_options
        )
        # One commit at a time, and none while an assignment is given up.
        self._commits = asyncio.Lock()

    async def start(self, storage: Callable[[Cluster], OffsetStorage]) -> None:
        """Reach the brokers, and make the storage, which may use the way to them. Raises NoBrokerReachable."""
        self._consumer.assign(())  # the first part comes later, and polls wait for it
        await self._consumer.start()
        self._storage = storage(self._consumer._running().cluster)
        self._consumer._polling().collector.waits = lambda partition: self.streams.is_full(partition)

    async def stop(self) -> None:
        """End the streams and close the connections, without a commit."""
        self.streams.close()
        await self._consumer.stop()

    def subscribe(self, subscription: Subscription) -> None:
        """Make the streams of a subscription: so many for each topic, or for all topics of a filter."""
        self.streams = MessageStreams(subscription, self._consumer._running().signals.poll)

    # -- Parts

    async def begin_part(self, numbers: Mapping[TopicPartition, int]) -> bool:
        """Read partitions from their committed offsets on, each for the stream of that number of its topic.

        Returns False where the offsets cannot be read now.
        """
        try:
            self._begin.offsets = await self._storage.load(numbers) if numbers else {}
        except KafkaError as error:
            _log.warning("the committed offsets could not be read: %s", error)
            return False
        self.streams.begin(numbers)
        self._consumer.assign(sorted(numbers))
        return True

    async def end_part(self) -> None:
        """Give the partitions up, and with auto-commit commit what is consumed.

        Records that are handed out and not consumed will be read again.
        """
        async with self._commits:
            consumed = self.streams.consumed
            self.drop_part()
            if not consumed or self.commit_interval_ms is None:
                return
            try:
                await self._storage.store(consumed)
            except KafkaError as error:
                _log.warning("the commit before a rebalance failed, records will be read again: %s", error)

    def drop_part(self) -> None:
        """Give the partitions up without a commit."""
        self.streams.end()
        self._consumer.assign(())

    # -- Records

    async def poll(self) -> None:
        """Deal records out to the streams, until cancelled."""
        while True:
            try:
                found = await self._consumer.getmany(timeout_ms=_POLL_MS)
            except KafkaError as error:
                self.streams.fail(error)
                await asyncio.sleep(_AFTER_ERROR_S)
                continue
            for partition, records in found.items():
                self.streams.add(partition, records)

    # -- Commits

    async def commit(self) -> None:
        """Commit what is consumed and not committed yet. Raises KafkaError: it is kept for the next commit."""
        async with self._commits:
            tenure, consumed = self.streams.tenure, dict(self.streams.consumed)
            if not consumed:
                return
            await self._storage.store(consumed)
            if self.streams.tenure == tenure:
                for place, offset in consumed.items():
                    if self.streams.consumed.get(place) == offset:
                        del self.streams.consumed[place]

    async def commit_again_and_again(self, interval_ms: float) -> None:
        """Commit at intervals, until cancelled. A commit that fails is logged."""
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                await self.commit()
            except KafkaError as error:
                _log.warning("auto-commit failed: %s", error)


# One task at a time may read it; it ends when the consumer is shut down.
MessageStream = Stream


class MessageStreams(StreamSet):
    """The streams of one consumer, with what was consumed of each partition that it owns."""

    def __init__(self, subscription: Subscription, has_room: asyncio.Event) -> None:
        # The streams of a filter are those of all its topics.
        counts = dict[str, int]() if subscription.has_filter else subscription.streams
        super().__init__(counts, sum(subscription.streams.values()))
        # Set when a stream that was full has room again.
        self._has_room = has_room
        # Partition -> its stream, while the consumer owns it.
        self._homes: Mapping[TopicPartition, MessageStream] = {}
        # Grows with each assignment: what was consumed in an earlier one is not committed in this one.
        self.tenure = 0
        # The offsets behind the consumed records that are not committed yet.
        self.consumed: dict[TopicPartition, int] = {}
        self.has_ended = False
        # Whether records may be handed out: not while the session with ZooKeeper may have ended.
        self.is_open = True

    def begin(self, numbers: Mapping[TopicPartition, int]) -> None:
        """Take an assignment: each partition for the stream of that number of its topic."""
        self.tenure += 1
        of_topics = self.by_topic()
        self._homes = {place: of_topics.get(place.topic, self.all)[number] for place, number in numbers.items()}

    def end(self) -> None:
        """Drop the assignment, and every record that was not handed out."""
        self.tenure += 1
        self._homes = {}
        self.consumed = {}
        for stream in self.all:
            stream.queue.clear()
            stream.taken = None  # others read it again

    def partitions(self) -> frozenset[TopicPartition]:
        """Return the partitions that are read now."""
        return frozenset(self._homes)

    def add(self, partition: TopicPartition, records: list[ConsumerRecord]) -> None:
        """Queue records of a partition."""
        stream = self._homes.get(partition)
        if stream is not None:
            stream.queue.extend(records)
            stream.news.set()

    def finish(self, record: ConsumerRecord) -> None:
        self.consumed[TopicPartition(record.topic, record.partition)] = record.offset + 1

    def take(self, queue: deque[ConsumerRecord]) -> ConsumerRecord | None:
        if not queue or not self.is_open:
            return None
        record = queue.popleft()
        if len(queue) == MAX_QUEUED // 2:
            self._has_room.set()
        return record

    def check_end(self) -> None:
        if self.has_ended:
            raise StopAsyncIteration

    def is_full(self, partition: TopicPartition) -> bool:
        """Whether the stream of a partition has enough to do: records of it must wait."""
        stream = self._homes.get(partition)
        return stream is not None and len(stream.queue) >= MAX_QUEUED

    def close(self) -> None:
        """End the streams."""
        self.has_ended = True
        self.wake()
