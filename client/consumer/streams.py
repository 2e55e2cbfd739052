"""Streams: several async iterators over one consumer, each over partitions of its own, as the old connector had them.

    poll --the partition's stream--> its queue --async for--> the task that reads the stream

A partition stays with its stream as long as the consumer has it, so the order of its records holds. A new one goes to
the stream that has the fewest. A record counts as processed when its stream is asked for the next one. A stream that is
slow holds up its own partitions alone: they are not polled while `MAX_QUEUED` records wait.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from itertools import accumulate
from typing import Any

from ...protocol.errors import KafkaError
from ..core.clock import monotonic_ms
from ..errors import ClientStopped, ConcurrentPoll, DeserializationFailed
from ..record import ConsumerRecord, TopicPartition
from .poller import Poller
from .session import Session

# Of one stream; a poll may bring `max_poll_records` more.
MAX_QUEUED = 1_000


Deserialize = Callable[[ConsumerRecord], Awaitable[ConsumerRecord[Any, Any]]]


class Stream(AsyncIterator[ConsumerRecord[Any, Any]]):
    """Records of some partitions. One task at a time may read it; it ends when the consumer stops."""

    def __init__(self, owner: StreamSet, deserialize: Deserialize | None = None) -> None:
        self._owner, self._deserialize = owner, deserialize
        self.queue: deque[ConsumerRecord] = deque()
        # Set when there are records, or the stream has ended or failed.
        self.news = asyncio.Event()
        self.error: KafkaError | None = None
        # The record that the user works on. An owner that gives its partition up sets None.
        self.taken: ConsumerRecord | None = None
        self._is_waited_for = False

    async def __anext__(self) -> ConsumerRecord[Any, Any]:
        """Return the next record, and wait for it. The record before it then counts as processed.

        Raises DeserializationFailed once for a record, which counts as the one before when the next is asked for.
        """
        if self.taken is not None:
            taken, self.taken = self.taken, None
            self._owner.finish(taken)
        while True:
            self.taken = self._owner.take(self.queue)
            if self.taken is not None:
                content = await self._content(self.taken)
                if content is not None:
                    return content
                continue
            if self.error is not None:
                error, self.error = self.error, None
                raise error
            self._owner.check_end()
            self.news.clear()
            await self._wait()

    async def _content(self, taken: ConsumerRecord) -> ConsumerRecord[Any, Any] | None:
        """Return a record as objects, None if its partition was given up while a schema was waited for."""
        if self._deserialize is None:
            return taken
        try:
            content = await self._deserialize(taken)
            return content if self.taken is taken else None
        except DeserializationFailed:
            raise
        except BaseException:  # it waited for a schema in vain, or was cancelled: the record comes again
            if self.taken is taken:
                self.queue.appendleft(taken)
                self.taken = None
            raise

    async def _wait(self) -> None:
        if self._is_waited_for:
            raise ConcurrentPoll("another task waits for records of this stream: only one task may read it at a time")
        self._is_waited_for = True
        try:
            await self.news.wait()
        finally:
            self._is_waited_for = False


class StreamSet(ABC):
    """The streams of one consumer: so many of each topic, or `of_pattern` that all topics share."""

    def __init__(self, counts: Mapping[str, int], of_pattern: int, deserialize: Deserialize | None = None) -> None:
        ends = accumulate(counts.values())
        self._numbers = {
            topic: range(end - count, end) for (topic, count), end in zip(counts.items(), ends, strict=True)
        }
        self.all = [Stream(self, deserialize) for _ in range(sum(counts.values()) or of_pattern)]

    def by_topic(self) -> dict[str, list[Stream]]:
        """Return the streams of each topic."""
        return {topic: self.all[numbers.start : numbers.stop] for topic, numbers in self._numbers.items()}

    @abstractmethod
    def take(self, queue: deque[ConsumerRecord]) -> ConsumerRecord | None:
        """Take the next record out of a stream's queue, None if none may be returned now."""

    @abstractmethod
    def finish(self, record: ConsumerRecord) -> None:
        """Count a record as processed."""

    @abstractmethod
    def check_end(self) -> None:
        """A stream would wait for records: raise StopAsyncIteration, or a failure, if no more come."""

    def fail(self, error: KafkaError) -> None:
        """Have every stream raise an error once."""
        for stream in self.all:
            stream.error = error
        self.wake()

    def wake(self) -> None:
        """Have waiting readers look again."""
        for stream in self.all:
            stream.news.set()


class Streams(StreamSet):
    """Deals the records of one consumer out to its streams. Run `run()` as a task."""

    def __init__(
        self,
        consumer: object,
        session: Session,
        poller: Poller,
        counts: Mapping[str, int],
        of_pattern: int,
        deserialize: Deserialize,
    ) -> None:
        super().__init__(counts, of_pattern, deserialize)
        # A program that has a stream has its consumer: this one must not count as lost.
        self._consumer = consumer
        self._session = session
        self._poller = poller
        self._in_flight = poller.begin_by_record()
        poller.collector.waits = self._is_full
        # Set when a stream waits for records. After an error the next poll waits for that: most errors come again.
        self._asked = asyncio.Event()
        self._ended = False
        # Why `run` has ended, if not by a stop of the consumer.
        self._failure: BaseException | None = None
        self._homes: dict[TopicPartition, int] = {}

    def finish(self, record: ConsumerRecord) -> None:
        self._in_flight.finish(record, monotonic_ms())

    def take(self, queue: deque[ConsumerRecord]) -> ConsumerRecord | None:
        while queue:
            record = queue.popleft()
            self._session.signals.poll.set()  # there may be room for more
            if self._in_flight.has(record):
                return record
        return None

    def check_end(self) -> None:
        if not self._ended:
            self._asked.set()
            return
        if self._failure is not None and not self._session.closed:
            raise ClientStopped("the streams have ended: their task broke or was cancelled") from self._failure
        raise StopAsyncIteration

    def _is_full(self, partition: TopicPartition) -> bool:
        """Whether records of this partition must wait."""
        return len(self.all[self._home(partition)].queue) >= MAX_QUEUED

    def _home(self, partition: TopicPartition) -> int:
        """Return the number of the partition's stream."""
        home = self._homes.get(partition)
        if home is None:
            assigned = self._session.positions.partitions()
            self._homes = {each: number for each, number in self._homes.items() if each in assigned}
            taken = Counter(self._homes.values())
            numbers = self._numbers.get(partition.topic, range(len(self.all)))
            home = min(numbers, key=lambda number: (taken[number], number))
            self._homes[partition] = home
        return home

    async def run(self, max_records: int) -> None:
        """Deal records out until the consumer stops, so many at a time. Every stream raises a poll's error once."""
        try:
            while True:
                try:
                    found = await self._poller.records_in_flight(lambda: max_records)
                except ClientStopped:
                    return
                except KafkaError as error:
                    self._asked.clear()
                    self.fail(error)
                    await self._asked.wait()
                    continue
                for partition, records in found.items():
                    stream = self.all[self._home(partition)]
                    stream.queue.extend(records)
                    stream.news.set()
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._ended = True
            self.wake()
