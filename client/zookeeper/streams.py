"""Message streams: async iterators over the partitions that a consumer owns in ZooKeeper.

    poll --the partition's stream--> its queue --async for--> the task that reads the stream

Each partition belongs to one stream. A record counts as consumed when its stream is asked for the next one. Only
consumed records are committed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping

from ...protocol.errors import KafkaError
from ..record import ConsumerRecord, TopicPartition

# Of one stream; a poll may bring `max_poll_records` more.
MAX_QUEUED = 1_000


class MessageStream(AsyncIterator[ConsumerRecord]):
    """Records of some partitions. One task at a time may read it; it ends when the consumer is shut down."""

    def __init__(self, owner: MessageStreams) -> None:
        self._owner = owner
        self.queue: deque[ConsumerRecord] = deque()
        # Set when there are records, or the stream has ended or failed.
        self.news = asyncio.Event()
        self.error: KafkaError | None = None
        self._taken: tuple[int, ConsumerRecord] | None = None

    async def __anext__(self) -> ConsumerRecord:
        """Return the next record, and wait for it. The record before it then counts as consumed."""
        if self._taken is not None:
            taken, self._taken = self._taken, None
            self._owner.consume(*taken)
        while True:
            if self.queue and self._owner.is_open:
                record = self.queue.popleft()
                self._taken = self._owner.tenure, record
                if len(self.queue) == MAX_QUEUED // 2:
                    self._owner.has_room()
                return record
            if self.error is not None:
                error, self.error = self.error, None
                raise error
            if self._owner.has_ended:
                raise StopAsyncIteration
            self.news.clear()
            await self.news.wait()


class MessageStreams:
    """The streams of one consumer, with what was consumed of each partition that it owns."""

    def __init__(self, total: int, has_room: Callable[[], None]) -> None:
        # Called when a stream that was full has room again.
        self.has_room = has_room
        self.all = [MessageStream(self) for _ in range(total)]
        # Partition -> its stream, while the consumer owns it.
        self._homes: Mapping[TopicPartition, MessageStream] = {}
        # Grows with each assignment: what was taken in an earlier one is not consumed, for others read it again.
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

    def partitions(self) -> frozenset[TopicPartition]:
        """Return the partitions that are read now."""
        return frozenset(self._homes)

    def add(self, partition: TopicPartition, records: list[ConsumerRecord]) -> None:
        """Queue records of a partition."""
        stream = self._homes.get(partition)
        if stream is not None:
            stream.queue.extend(records)
            stream.news.set()

    def consume(self, tenure: int, record: ConsumerRecord) -> None:
        """Note that a record is consumed, unless its partition was given up meanwhile."""
        if tenure == self.tenure:
            self.consumed[TopicPartition(record.topic, record.partition)] = record.offset + 1

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
