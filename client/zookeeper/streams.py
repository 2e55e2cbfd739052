"""Message streams: async iterators over the partitions that a consumer owns in ZooKeeper.

    poll --the partition's stream--> its queue --async for--> the task that reads the stream

Each partition belongs to one stream. A record counts as consumed when its stream is asked for the next one. Only
consumed records are committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from ...protocol.errors import KafkaError
from ..consumer.streams import MAX_QUEUED, Stream
from ..record import ConsumerRecord, TopicPartition


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
