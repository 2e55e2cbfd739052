"""Streams: several async iterators over one consumer, each over partitions of its own, as the old connector had them.

    poll --the partition's stream--> its queue --async for--> the task that reads the stream

A partition stays with its stream as long as the consumer has it, so the order of its records holds. A new one goes to
the stream that has the fewest. A record counts as processed when its stream is asked for the next one. A stream that is
slow holds up its own partitions alone: they are not polled while `MAX_QUEUED` records wait.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import accumulate
from typing import Any

from ...protocol.errors import KafkaError
from ..core.clock import monotonic_ms
from ..errors import ClientStopped, ConcurrentPoll
from ..record import ConsumerRecord, TopicPartition
from .poller import Poller
from .session import Session

# Of one stream; a poll may bring `max_poll_records` more.
MAX_QUEUED = 1_000


class Stream(AsyncIterator[ConsumerRecord[Any, Any]]):
    """Records of some partitions. One task at a time may read it; it ends when the consumer stops."""

    def __init__(self, owner: Streams) -> None:
        self._owner = owner
        self.queue: deque[ConsumerRecord] = deque()
        # Set when there are records, or the stream has ended or failed.
        self.news = asyncio.Event()
        self.error: KafkaError | None = None
        self._taken: ConsumerRecord | None = None
        self._is_waited_for = False

    async def __anext__(self) -> ConsumerRecord[Any, Any]:
        """Return the next record, and wait for it. The record before it then counts as processed.

        Raises DeserializationFailed once for a record, which counts as the one before when the next is asked for.
        """
        if self._taken is not None:
            taken, self._taken = self._taken, None
            self._owner.in_flight.finish(taken, monotonic_ms())
        while True:
            while self.queue:
                record = self.queue.popleft()
                self._owner.took()
                if self._owner.in_flight.has(record):
                    self._taken = record
                    return self._owner.deserialize(record)
            if self.error is not None:
                error, self.error = self.error, None
                raise error
            if self._owner.ended:
                self._owner.raise_failure()
                raise StopAsyncIteration
            self.news.clear()
            self._owner.asked.set()
            await self._wait()

    async def _wait(self) -> None:
        if self._is_waited_for:
            raise ConcurrentPoll("another task waits for records of this stream: only one task may read it at a time")
        self._is_waited_for = True
        try:
            await self.news.wait()
        finally:
            self._is_waited_for = False


class Streams:
    """Deals the records of one consumer out to its streams. Run `run()` as a task."""

    def __init__(
        self,
        consumer: object,
        session: Session,
        poller: Poller,
        counts: Mapping[str, int],
        of_pattern: int,
        deserialize: Callable[[ConsumerRecord], ConsumerRecord[Any, Any]],
    ) -> None:
        # A program that has a stream has its consumer: this one must not count as lost.
        self._consumer = consumer
        self._session = session
        self._poller = poller
        # Each topic has streams of its own; with a pattern all topics share all of them.
        ends = list(accumulate(counts.values()))
        self._numbers = {
            topic: range(end - count, end) for (topic, count), end in zip(counts.items(), ends, strict=True)
        }
        self.in_flight = poller.begin_by_record()
        poller.collector.waits = self._is_full
        self.deserialize = deserialize
        self.all = [Stream(self) for _ in range(ends[-1] if ends else of_pattern)]
        self.ended = False
        # Why `run` has ended, if not by a stop of the consumer.
        self._failure: BaseException | None = None
        # Set when a stream waits for records. After an error the next poll waits for that: most errors come again.
        self.asked = asyncio.Event()
        self._homes: dict[TopicPartition, int] = {}

    def by_topic(self) -> dict[str, list[Stream]]:
        """Return the streams of each topic."""
        return {topic: self.all[numbers.start : numbers.stop] for topic, numbers in self._numbers.items()}

    def took(self) -> None:
        """Note that a stream has taken a record: there may be room for more."""
        self._session.signals.poll.set()

    def raise_failure(self) -> None:
        """Raise ClientStopped if `run` broke, or was cancelled by others than a stop of the consumer."""
        if self._failure is not None and not self._session.closed:
            raise ClientStopped("the streams have ended: their task broke or was cancelled") from self._failure

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
                    self.asked.clear()
                    for stream in self.all:
                        stream.error = error
                        stream.news.set()
                    await self.asked.wait()
                    continue
                for partition, records in found.items():
                    stream = self.all[self._home(partition)]
                    stream.queue.extend(records)
                    stream.news.set()
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self.ended = True
            for stream in self.all:
                stream.news.set()
