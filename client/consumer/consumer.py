"""The consumer: `Consumer`.

    async with Consumer("flights", bootstrap_servers="127.0.0.1:9092", group_id="delays") as consumer:
        async for record in consumer: ...
        # or many at a time, which is faster:
        batches = await consumer.getmany(timeout_ms=500, max_records=1000)

With a `group_id`, the members of the group share the partitions of the topics; without one, the consumer reads all of
them. `assign` takes partitions by hand, and keeps their offsets in the group if there is one. Option names and meanings
are Kafka's in snake case.

Promise: records that were returned count as processed when the user asks for the next ones, or stops the consumer
without an error. Auto-commit and rebalances commit only processed records, so a crash repeats records and never skips
any. A rebalance waits (up to `max_poll_interval_ms`) until the user asks for more.
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

from ...protocol.errors import KafkaError
from ..core.clock import monotonic_ms, wait_for
from ..core.option_values import INT32_MAX, check_numbers
from ..errors import ClientStopped, ConcurrentPoll, DeserializationFailed, InvalidOption
from ..record import ConsumerRecord, K, TopicPartition, V
from .fetched_batch import FetchedBatch, RecordColumns
from .polls import InFlight
from .positions import PartitionState
from .seeker import Seeker
from .session import Session
from .streams import Stream, Streams
from .subscriber import Run
from .workers import DeadLetters, Handler, Workers, WorkOptions, signals_to, unless

T = TypeVar("T")

# How many records `async for` takes out of the fetched ones at a time.
_RUN_RECORDS = 500
# How long a poll of `consume` and `streams` waits; it ends sooner when there are records.
_LONG_POLL_MS = 60_000


class Consumer(Seeker, AsyncIterator[ConsumerRecord[K, V]], Generic[K, V]):
    """Reads topics. Use `async with`, or `start()` and `stop()`. Raises InvalidOption for an invalid option.

    Keys and values are bytes, or what the deserializers return; `Consumer[str, dict[str, int]]` tells a type checker.

    `async for` returns one record at a time, `getmany` lists of them. Only one task may poll at a time:
    a second one gets ConcurrentPoll.
    """

    # -- Poll

    async def getmany(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Return up to `max_records` (`max_poll_records` if none) records by partition; none after `timeout_ms`.

        A further call says that the records of the last one are processed. Raises the error of a partition once (the
        other partitions can be read on), and the error that ended the membership. Raises DeserializationFailed while
        the next record of a partition cannot be deserialized: `seek` behind it.
        """
        limit = self._max_poll_records if max_records is None else max_records
        if limit < 1:
            check_numbers(max_records=limit)
        return await self._poll(timeout_ms, lambda each: self._collect(each, limit, each.collector.next_records))

    async def getbatches(
        self, *, timeout_ms: float = 0, max_bytes: int = 1_048_576
    ) -> dict[TopicPartition, list[FetchedBatch]]:
        """Return whole record batches by partition: `max_bytes` and at most one batch more; none after `timeout_ms`.

        For copies that keep codecs and timestamps, and for fast passes over values. Positions move behind the batches,
        and all else is as with `getmany`.
        """
        return await self._poll(timeout_ms, lambda session: self._collect_batches(session, max_bytes))

    async def batches(self, *, max_bytes: int = 4_194_304) -> AsyncIterator[RecordColumns]:
        """Yield records by column, partition by partition, until the consumer is stopped.

        A column is decoded when it is asked for: `values` alone, or `to_arrow()`, is much faster than records. Records
        count as processed when the next poll begins, at the latest after those of the other partitions.
        """
        while True:
            try:
                found = await self.getbatches(timeout_ms=_LONG_POLL_MS, max_bytes=max_bytes)
            except ClientStopped:
                if self._stopped:
                    return
                raise
            for partition, some in found.items():
                yield RecordColumns(partition, some)

    async def _poll(
        self, timeout_ms: float, collect: Callable[[Session], dict[TopicPartition, list[T]]]
    ) -> dict[TopicPartition, list[T]]:
        session = self._running()
        if not 0 <= timeout_ms <= INT32_MAX:
            check_numbers(timeout_ms=timeout_ms)
        self._check_subscribed()
        session.polls.begin()
        session.counts.polls += 1
        session.counts.last_poll_ms = monotonic_ms()
        try:
            self._return_run()
            return await self._wait_for(session, timeout_ms, collect)
        except DeserializationFailed:
            await asyncio.sleep(0)  # a loop that polls on must let the fetcher run, which reads the other partitions
            raise
        finally:
            session.polls.end()

    async def _wait_for(
        self, session: Session, timeout_ms: float, collect: Callable[[Session], dict[TopicPartition, list[T]]]
    ) -> dict[TopicPartition, list[T]]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            batches = collect(session)
            left = deadline - loop.time()
            if batches:
                return batches
            if left <= 0:
                await asyncio.sleep(0)  # a loop around getmany(timeout_ms=0) must let other tasks run
                return {}
            if not await wait_for(session.signals.poll, left * 1000):
                return {}
            self._running()

    def _collect_batches(self, session: Session, max_bytes: int) -> dict[TopicPartition, list[FetchedBatch]]:
        batches: dict[TopicPartition, list[FetchedBatch]] = {}
        while max_bytes > 0 and session.may_return_records():
            try:
                found = session.collector.next_batch()
            except KafkaError as error:
                if not batches:
                    raise
                session.error = error  # for the next poll: these batches come first
                break
            if found is None:
                break
            state, batch = found
            state.position = batch.header.next_offset
            session.polls.mark_returned(state)
            batches.setdefault(state.partition, []).append(batch)
            max_bytes -= len(batch.data)
        return batches

    def _collect(
        self,
        session: Session,
        limit: int,
        take: Callable[[int], tuple[PartitionState, list[ConsumerRecord[Any, Any]]] | None],
    ) -> dict[TopicPartition, list[ConsumerRecord[Any, Any]]]:
        batches: dict[TopicPartition, list[ConsumerRecord[Any, Any]]] = {}
        while limit > 0 and session.may_return_records():
            try:
                found = take(limit)
            except DeserializationFailed as error:
                if batches:
                    break  # the next poll raises it, unless the user seeks before
                session.collector.end_turn(error.partition)
                raise
            except KafkaError as error:
                if not batches:
                    raise
                session.error = error  # for the next poll: these records come first
                break
            if found is None:
                break
            state, records = found
            state.position = records[-1].offset + 1
            state.last_timestamp_ms = records[-1].timestamp_ms
            session.counts.records += len(records)
            session.polls.mark_returned(state)
            batches.setdefault(state.partition, []).extend(records)
            limit -= len(records)
        return batches

    async def getone(self) -> ConsumerRecord[K, V]:
        """Return the next record, and wait for it without a limit. The record before it then counts as processed.

        Raises ClientStopped when the consumer is stopped meanwhile.
        """
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise ClientStopped("the consumer was stopped") from None

    async def __anext__(self) -> ConsumerRecord[K, V]:
        """Return the next record, and wait for it without a limit. The record before it then counts as processed.

        The iteration ends when the consumer is stopped.
        """
        run, session = self._run, self._session
        if (
            run is not None
            and session is not None
            and run.index < len(run.records)
            and run.version == run.state.version
        ):
            membership = session.membership
            if membership is None or not membership.pauses_polls:
                return _next_of(run)
        return await self._next_record()

    async def _next_record(self) -> ConsumerRecord[K, V]:
        session = self._session
        if session is None:
            if self._stopped:
                raise StopAsyncIteration
            session = self._running()
        self._check_subscribed()
        session.polls.begin()
        session.counts.polls += 1
        session.counts.last_poll_ms = monotonic_ms()
        try:
            return await self._wait_for_record(session)
        except DeserializationFailed as error:
            session.collector.end_turn(error.partition)
            await asyncio.sleep(0)
            raise
        finally:
            session.polls.end()

    async def _wait_for_record(self, session: Session) -> ConsumerRecord[K, V]:
        while not session.stopping:
            if session.may_return_records():
                run = self._run
                if run is None or run.index >= len(run.records) or run.version != run.state.version:
                    found = session.collector.next_records(_RUN_RECORDS)
                    run = self._run = None if found is None else Run(*found)
                    if run is not None:
                        session.counts.records += len(run.records)
                        run.state.last_timestamp_ms = run.records[-1].timestamp_ms
                if run is not None:
                    session.polls.mark_returned(run.state)
                    return _next_of(run)
            await session.signals.poll.wait()
        raise StopAsyncIteration

    # -- Many tasks

    async def consume(
        self,
        handler: Handler,
        *,
        concurrency: int = 1,
        by_key: bool = True,
        attempts: int = 5,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 10_000,
        dead_letters: DeadLetters | None = None,
        drain_timeout_ms: float = 30_000,
        drain_on: Sequence[signal.Signals] = (),
    ) -> None:
        """Call `handler` for each record in `concurrency` tasks, until `drain`, a stop, or a signal of `drain_on`.

        With `by_key`, records of one partition with the same key are handled one after another; without, the order is
        not kept. Offsets are committed up to the first record of a partition that is not done. A handler that raises is
        called again after growing pauses. After the last of `attempts`, the record goes to `dead_letters` (such as a
        DeadLetterTopic), or HandlerFailed is raised. A record that cannot be deserialized goes there at once, or
        DeserializationFailed is raised. Dead letters get the bytes of a record. At the end, what was polled is
        finished within `drain_timeout_ms`, and committed. With `drain_on=[signal.SIGTERM]` the program's own handler of
        that signal is called as well. Raises GroupRequired without a `group_id` or an `offset_store`.
        """
        options = WorkOptions(concurrency, by_key, attempts, retry_backoff_ms, retry_backoff_max_ms, drain_timeout_ms)
        session = self._running()
        session.committed_offsets()
        in_flight = self._begin_by_record(session)
        drain = asyncio.Event()
        workers = Workers(handler, options, in_flight, dead_letters, drain, self._deserializers.one)
        workers.start()
        self._workers = workers
        try:
            loop = asyncio.get_running_loop()
            with signals_to(lambda: loop.call_soon_threadsafe(drain.set), drain_on):
                await self._feed(session, workers, in_flight, drain)
                await workers.drain()
        finally:
            try:
                await self._end_consume(session, workers, in_flight)
            finally:
                workers.ended.set()
                if workers.then is not None:
                    await workers.then()

    async def _end_consume(self, session: Session, workers: Workers, in_flight: InFlight) -> None:
        """End the workers, and commit what they have done."""
        try:
            await workers.stop()
        finally:
            in_flight.give_back()
            session.polls.by_record = self._workers = None
            if not session.stopping:
                await session.commits.commit_processed()

    async def drain(self) -> None:
        """Have `consume` poll no more, finish and commit what it has, and return. A handler that asks does not wait."""
        workers = self._workers
        if workers is not None:
            workers.halt.set()
            if not workers.are_around:
                await workers.ended.wait()

    async def _feed(self, session: Session, workers: Workers, in_flight: InFlight, drain: asyncio.Event) -> None:
        """Poll for the workers until they must drain, or the consumer stops. Raises HandlerFailed, KafkaError."""
        while not drain.is_set() and not session.stopping:
            await unless(drain, workers.wait_for_room())
            collect = self._collect_by_record(in_flight, lambda: workers.room)
            try:
                found = await unless(drain, self._poll(_LONG_POLL_MS, collect))
            except ClientStopped:
                return
            for records in (found or {}).values():
                workers.submit(records)

    def _begin_by_record(self, session: Session) -> InFlight:
        """Have tasks say which records are done, and commit these."""
        if session.polls.by_record is not None:
            raise ConcurrentPoll("consume() or streams() read from this consumer already")
        self._return_run()
        in_flight = InFlight(self._positions, session.polls)
        session.polls.mark_processed()
        session.polls.by_record = in_flight
        session.commit_automatically()
        return in_flight

    def _collect_by_record(
        self, in_flight: InFlight, room: Callable[[], int]
    ) -> Callable[[Session], dict[TopicPartition, list[ConsumerRecord]]]:
        def collect(session: Session) -> dict[TopicPartition, list[ConsumerRecord]]:
            found = self._collect(session, room(), session.collector.next_raw_records)
            for partition, records in found.items():
                in_flight.add(partition, records, monotonic_ms())
            return found

        return collect

    @overload
    def streams(self, topics: Mapping[str, int]) -> dict[str, list[Stream]]: ...

    @overload
    def streams(self, topics: str | re.Pattern[str], count: int) -> list[Stream]: ...

    def streams(
        self, topics: Mapping[str, int] | str | re.Pattern[str], count: int = 1
    ) -> dict[str, list[Stream]] | list[Stream]:
        """Subscribe, and return async iterators over disjoint partitions: n of each topic, or `count` of a pattern.

        Each is for a task of its own. A record counts as processed when its stream is asked for the next one, and is
        committed when all before it in its partition are processed. A stream raises DeserializationFailed once for a
        record, and goes on behind it. The streams end when the consumer stops.
        """
        numbers = topics.values() if isinstance(topics, Mapping) else [count]
        if min(numbers, default=0) < 1:
            raise InvalidOption("streams needs a number of streams above 0, for a topic at least")
        session = self._running()
        in_flight = self._begin_by_record(session)
        ranges: dict[str, range] = {}
        if isinstance(topics, Mapping):
            for topic, number in topics.items():
                begin = sum(map(len, ranges.values()))
                ranges[topic] = range(begin, begin + number)
            self.subscribe(*topics)
        else:
            self.subscribe(pattern=topics)
        rest = range(sum(numbers))
        streams = Streams(
            lambda topic: ranges.get(topic, rest),
            len(rest),
            self.assignment,
            in_flight,
            session.signals.poll.set,
            self._deserializers.one,
        )
        session.collector.waits = streams.is_full
        collect = self._collect_by_record(in_flight, lambda: self._max_poll_records)
        session.watch_task(session.cluster.spawn(streams.run(lambda: self._poll(_LONG_POLL_MS, collect)), "streams"))
        if isinstance(topics, Mapping):
            return {topic: [streams.all[number] for number in numbers] for topic, numbers in ranges.items()}
        return streams.all


def _next_of(run: Run) -> ConsumerRecord[Any, Any]:
    record = run.records[run.index]
    run.index += 1
    state = run.state
    state.processed = record.offset
    state.position = record.offset + 1
    return record
