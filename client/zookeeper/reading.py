"""The reading side of a member of a group in ZooKeeper: it reads the partitions that it is given, and commits.

An ordinary consumer without a group fetches; its partitions are assigned here. Records go to message streams, and what
these have consumed is committed to the group's storage.

Message streams are async iterators over the partitions that a consumer owns in ZooKeeper:

    poll --the partition's stream--> its queue --async for--> the task that reads the stream

Each partition belongs to one stream. A record counts as consumed when its stream is asked for the next one. Only
consumed records are committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ...protocol.errors import KafkaError
from ..consumer import Consumer
from ..consumer.streams import MAX_QUEUED, Stream
from ..core.clock import wait_for
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
        storage: OffsetStorage,
        commit_interval_ms: float | None,
    ) -> None:
        """`commit_interval_ms` is None where only the user commits."""
        self.commit_interval_ms = commit_interval_ms
        self.streams = MessageStreams(0, self._wake)
        self._subscription = Subscription({})
        self._storage = storage
        self._begin = _Begin()
        self._consumer = Consumer(
            bootstrap_servers=list(brokers), offset_store=self._begin, enable_auto_commit=False, **consumer_options
        )
        self._has_room = asyncio.Event()
        # One commit at a time, and none while an assignment is given up.
        self._commits = asyncio.Lock()

    async def start(self) -> None:
        """Reach the brokers. Raises NoBrokerReachable."""
        self._consumer.assign(())  # the first part comes later, and polls wait for it
        await self._consumer.start()

    async def stop(self) -> None:
        """End the streams and close the connections, without a commit."""
        self.streams.close()
        await self._consumer.stop()
        await self._storage.close()

    def subscribe(self, subscription: Subscription) -> None:
        """Make the streams of a subscription: so many for each topic, or for all topics of a filter."""
        self._subscription = subscription
        self.streams = MessageStreams(sum(subscription.streams.values()), self._wake)

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
        self.streams.begin(self._homes(numbers))
        self._consumer.assign(sorted(numbers))
        return True

    def _homes(self, numbers: Mapping[TopicPartition, int]) -> dict[TopicPartition, MessageStream]:
        """Return the stream of each partition. Streams are numbered by topic, in the order of the subscription."""
        begins: dict[str, int] = {}
        total = 0
        if not self._subscription.has_filter:
            for topic, count in self._subscription.streams.items():
                begins[topic] = total
                total += count
        return {place: self.streams.all[begins.get(place.topic, 0) + number] for place, number in numbers.items()}

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
        consumer = self._consumer
        while True:
            full, assigned = self.streams.full(), consumer.assignment()
            consumer.pause(*(full & assigned))
            consumer.resume(*(consumer.paused() - full))
            if full and full >= assigned:
                self._has_room.clear()
                await wait_for(self._has_room, _POLL_MS)
                continue
            try:
                found = await consumer.getmany(timeout_ms=_POLL_MS)
            except KafkaError as error:
                self.streams.fail(error)
                await asyncio.sleep(_AFTER_ERROR_S)
                continue
            for partition, records in found.items():
                self.streams.add(partition, records)

    def _wake(self) -> None:
        self._has_room.set()

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


class MessageStream(Stream):
    """Records of some partitions. One task at a time may read it; it ends when the consumer is shut down."""


class MessageStreams:
    """The streams of one consumer, with what was consumed of each partition that it owns."""

    def __init__(self, total: int, has_room: Callable[[], None]) -> None:
        # Called when a stream that was full has room again.
        self.has_room = has_room
        self.all = [MessageStream(self._take, self._finish, self._check_end) for _ in range(total)]
        # Partition -> its stream, while the consumer owns it.
        self._homes: Mapping[TopicPartition, MessageStream] = {}
        # Grows with each assignment: what was consumed in an earlier one is not committed in this one.
        self.tenure = 0
        # The offsets behind the consumed records that are not committed yet.
        self.consumed: dict[TopicPartition, int] = {}
        self.has_ended = False
        # Whether records may be handed out: not while the session with ZooKeeper may have ended.
        self.is_open = True

    def begin(self, homes: Mapping[TopicPartition, MessageStream]) -> None:
        """Take an assignment."""
        self.tenure += 1
        self._homes = homes

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

    def _finish(self, record: ConsumerRecord) -> None:
        self.consumed[TopicPartition(record.topic, record.partition)] = record.offset + 1

    def _take(self, queue: deque[ConsumerRecord]) -> ConsumerRecord | None:
        if not queue or not self.is_open:
            return None
        record = queue.popleft()
        if len(queue) == MAX_QUEUED // 2:
            self.has_room()
        return record

    def _check_end(self) -> None:
        if self.has_ended:
            raise StopAsyncIteration

    def full(self) -> frozenset[TopicPartition]:
        """Return the partitions whose streams have enough to do."""
        return frozenset(place for place, stream in self._homes.items() if len(stream.queue) >= MAX_QUEUED)

    def close(self) -> None:
        """End the streams."""
        self.has_ended = True
        self.wake()

    def fail(self, error: KafkaError) -> None:
        """Have every stream raise an error once."""
        for stream in self.all:
            stream.error = error
        self.wake()

    def wake(self) -> None:
        """Have waiting readers look again."""
        for stream in self.all:
            stream.news.set()
