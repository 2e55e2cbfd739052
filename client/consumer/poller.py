"""Polls: how the records that were fetched ahead reach the user.

`FetchCollector` takes them out of the partitions, one partition after another. `Poller` waits for them, moves the
positions behind what it returns, and raises what polls must raise. Only one poll runs at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ...protocol.errors import KafkaError
from ..core.clock import monotonic_ms, wait_for
from ..core.option_values import INT32_MAX
from ..core.options import check_numbers
from ..core.serialization import Deserializers, MissingSchema, SchemaMissing
from ..errors import ClientStopped, ConcurrentPoll, DeserializationFailed, NotAssigned, SchemaRegistryUnavailable
from ..record import ConsumerRecord, TopicPartition
from .fetched_batch import CompletedFetch, FetchedBatch
from .polls import InFlight
from .positions import PartitionState, Positions, Signals
from .session import Session

T = TypeVar("T")
ByPartition = dict[TopicPartition, list[T]]
# Records or batches of one partition, and how much of the room of a poll they use.
_Taken = tuple[PartitionState, list[T], int] | None

# How many records `async for` takes out of the fetched ones at a time.
_RUN_RECORDS = 500
# How long a poll of `consume`, `streams` and `batches` waits; it ends sooner when there are records.
LONG_POLL_MS = 60_000


class FetchCollector:
    """Returns fetched records in turns: a partition whose fetched records are used up goes to the end."""

    def __init__(self, positions: Positions, signals: Signals) -> None:
        self._positions = positions
        self._signals = signals
        # Partitions whose records have to wait, because the task that works on them has enough.
        self.waits: Callable[[TopicPartition], bool] = lambda _partition: False

    def next(self, take: Callable[[CompletedFetch], T | None]) -> tuple[PartitionState, T] | None:
        """Return what `take` takes of the partition whose turn it is, None if nothing is fetched.

        The caller moves `state.position` as it returns the records. Raises a partition's error once. Raises
        DeserializationFailed as long as the record is the next one: a caller that raises it ends the partition's turn.
        """
        # Partitions that had nothing at their turn. They had it all the same: otherwise each call would look at all of
        # them again, and with 9,000 partitions of which 100 get records, a record cost 2 ms.
        without: list[PartitionState] = []
        for state in self._positions:
            if state.paused or state.held or self._waits(state):
                without.append(state)
                continue
            if state.error is not None and not state.fetched:
                self._signals.fetch.set()
                raise state.take_error()
            found = self._taken(state, take) if state.fetched else None
            if found:
                for each in without:
                    self._positions.move_to_end(each)
                return state, found
            without.append(state)
        self._signals.poll.clear()
        return None

    def _waits(self, state: PartitionState) -> bool:
        if not self.waits(state.partition):
            return False
        self._note_waiting(state)
        return True

    def _note_waiting(self, state: PartitionState) -> None:
        """Have the fetcher leave the partition out while its records stay where they are."""
        if not state.waits:
            state.waits = True
            self._signals.fetch.set()

    def _taken(self, state: PartitionState, take: Callable[[CompletedFetch], T | None]) -> T | None:
        while state.fetched:
            fetch = state.fetched[0]
            try:
                found = take(fetch)
            except (DeserializationFailed, SchemaMissing, SchemaRegistryUnavailable):
                self._note_waiting(state)
                raise  # what was fetched is kept: the user may seek past the record
            except KafkaError:
                state.fetched.clear()
                state.fetch_offset = fetch.position
                self._signals.fetch.set()
                raise
            if found:
                state.leader_epoch, state.waits = fetch.leader_epoch, False
                return found
            state.fetched.popleft()
            _skip_to(state, fetch.position)
            self._positions.move_to_end(state)
            self._signals.fetch.set()
        return None


def _skip_to(state: PartitionState, offset: int) -> None:
    """Skip control batches and compacted offsets at the end of a fetch: no record has these offsets."""
    if state.processed == state.position:
        state.processed = offset
    state.position = offset


@dataclass(slots=True, eq=False)
class _Run:
    """Records that `async for` returns one by one."""

    state: PartitionState
    records: list[ConsumerRecord[Any, Any]]
    # Of the state: while it has another one, these records must not be returned.
    version: int
    index: int = 0


class Poller:
    """The polls of one running consumer."""

    def __init__(self, session: Session, deserializers: Deserializers) -> None:
        self._session = session
        self._deserialize = deserializers.many
        self.collector = FetchCollector(session.positions, session.signals)
        self._run: _Run | None = None
        self._schema = MissingSchema(session.cluster.spawn, session.signals.poll)

    # -- Many at a time

    async def records(self, timeout_ms: float, limit: int) -> ByPartition[ConsumerRecord[Any, Any]]:
        """Return up to `limit` records by partition; none after `timeout_ms`."""
        self._check_by_user()

        def take(room: int) -> _Taken[ConsumerRecord[Any, Any]]:
            return self._take_records(lambda fetch: fetch.take(room, self._deserialize))

        return await self._many(timeout_ms, lambda: self._collect(limit, take))

    async def batches(self, timeout_ms: float, max_bytes: int) -> ByPartition[FetchedBatch]:
        """Return whole record batches by partition: `max_bytes` and at most one batch more; none after `timeout_ms`."""
        self._check_by_user()
        return await self._many(timeout_ms, lambda: self._collect(max_bytes, self._take_batch))

    async def records_in_flight(self, room: Callable[[], int]) -> ByPartition[ConsumerRecord]:
        """Return records as bytes, `room()` at most, when there are some; tasks say which of them are done."""

        def collect() -> ByPartition[ConsumerRecord]:
            found = self._collect(room(), lambda left: self._take_records(lambda fetch: fetch.take(left)))
            in_flight = self._session.polls.by_record
            assert in_flight is not None
            for partition, records in found.items():
                in_flight.add(partition, records, monotonic_ms())
            return found

        return await self._many(LONG_POLL_MS, collect)

    def begin_by_record(self) -> InFlight:
        """Have tasks say which records are done, and commit these. Raises ConcurrentPoll."""
        self._check_by_user()
        polls = self._session.polls
        self.return_run()
        polls.mark_processed()
        polls.by_record = InFlight(self._session.positions, polls)
        self._session.commit_by_record(True)
        return polls.by_record

    def _check_by_user(self) -> None:
        """Raise ConcurrentPoll while tasks say which records are done: of those that others take, nobody would."""
        if self._session.polls.by_record is not None:
            raise ConcurrentPoll("consume() or streams() read from this consumer already")

    async def end_by_record(self) -> None:
        """Commit the records that are done, and return the others again: polls say what is processed from now on."""
        polls = self._session.polls
        assert polls.by_record is not None
        polls.by_record.give_back()
        polls.by_record = None
        if not self._session.stopping:
            await self._session.commits.commit_processed()
            self._session.commit_by_record(polls.by_record is not None)  # somebody may have begun meanwhile

    async def _many(self, timeout_ms: float, collect: Callable[[], ByPartition[T]]) -> ByPartition[T]:
        if not 0 <= timeout_ms <= INT32_MAX:
            check_numbers(timeout_ms=timeout_ms)
        return await self._poll(lambda: self._wait_for(timeout_ms, collect))

    async def _poll(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work` as the one poll that runs. Raises NotAssigned if there is nothing that it could wait for."""
        session = self._session
        if not session.subscription.is_made:
            raise NotAssigned("there is nothing to read: subscribe() to topics, or assign() partitions")
        session.polls.begin()
        session.counts.polls += 1
        session.counts.last_poll_ms = monotonic_ms()
        try:
            return await work()
        except DeserializationFailed as error:
            if (state := session.positions.get(error.partition)) is not None:
                session.positions.move_to_end(state)
            await asyncio.sleep(0)  # a loop that polls on must let the fetcher run, which reads the other partitions
            raise
        finally:
            session.polls.end()

    async def _wait_for(self, timeout_ms: float, collect: Callable[[], ByPartition[T]]) -> ByPartition[T]:
        self.return_run()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            try:
                found = collect()
            except SchemaMissing as missing:
                self._schema.ask(missing)
                found = {}
            left = deadline - loop.time()
            if found:
                return found
            if left <= 0:
                await asyncio.sleep(0)  # a loop around getmany(timeout_ms=0) must let other tasks run
                return {}
            if not await wait_for(self._session.signals.poll, left * 1000):
                return {}
            if self._session.closed:
                raise ClientStopped("the consumer was stopped")

    def _collect(self, room: int, take: Callable[[int], _Taken[T]]) -> ByPartition[T]:
        """Take records or batches while there is room."""
        found: ByPartition[T] = {}
        while room > 0 and self._session.may_return_records():
            try:
                taken = take(room)
            except (KafkaError, SchemaMissing) as error:
                if not found:
                    raise
                # These come again, unless the user seeks before.
                if not isinstance(error, (DeserializationFailed, SchemaMissing, SchemaRegistryUnavailable)):
                    self._session.error = error  # for the next poll: these records come first
                break
            if taken is None:
                break
            state, some, used = taken
            self._session.polls.mark_returned(state)
            found.setdefault(state.partition, []).extend(some)
            room -= used
        return found

    def _take_records(self, take: Callable[[CompletedFetch], list[ConsumerRecord[Any, Any]]]) -> _Taken[Any]:
        found = self.collector.next(take)
        if found is None:
            return None
        state, records = found
        state.position, state.last_timestamp_ms = records[-1].offset + 1, records[-1].timestamp_ms
        self._session.counts.records += len(records)
        return state, records, len(records)

    def _take_batch(self, _max_bytes: int) -> _Taken[FetchedBatch]:
        found = self.collector.next(CompletedFetch.take_batch)
        if found is None:
            return None
        state, batch = found
        state.position = batch.header.next_offset
        return state, [batch], len(batch.data)

    # -- Results that nobody received: a thread of the blocking client was interrupted before it had them

    def give_back_records(self, found: Mapping[TopicPartition, Sequence[ConsumerRecord[Any, Any]]]) -> None:
        """Return these records again."""
        for partition, records in found.items():
            self._give_back(partition, records[0].offset, records[-1].offset + 1)

    def give_back_batches(self, found: Mapping[TopicPartition, Sequence[FetchedBatch]]) -> None:
        """Return these batches again."""
        for partition, batches in found.items():
            self._give_back(partition, batches[0].first_offset, batches[-1].header.next_offset)

    def _give_back(self, partition: TopicPartition, first: int, after: int) -> None:
        state = self._session.positions.get(partition)
        if state is not None and state.position == after:  # otherwise sought elsewhere, or taken away
            state.move_to(first)
            self._session.signals.positions_changed()

    # -- One at a time

    def next_of_run(self) -> ConsumerRecord[Any, Any] | None:
        """Return the next record of those that `async for` has taken, None if it must wait for more."""
        run = self._run
        if run is None:
            return None
        index, state = run.index, run.state
        if index >= len(run.records) or run.version != state.version:
            return None
        membership = self._session.membership
        if membership is not None and membership.pauses_polls:
            return None
        record = run.records[index]
        run.index = index + 1
        state.processed = offset = record.offset
        state.position = offset + 1
        return record

    async def next_record(self) -> ConsumerRecord[Any, Any] | None:
        """Return the next record, and wait for it without a limit. None if the consumer is stopped."""
        self._check_by_user()
        return await self._poll(self._wait_for_record)

    async def _wait_for_record(self) -> ConsumerRecord[Any, Any] | None:
        session = self._session
        while not session.stopping:
            if session.may_return_records():
                try:
                    record = self.next_of_run() or self._begin_run()
                except SchemaMissing as missing:
                    self._schema.ask(missing)
                    record = None
                if record is not None and self._run is not None:
                    session.polls.mark_returned(self._run.state)
                    return record
            await session.signals.poll.wait()
        return None

    def _begin_run(self) -> ConsumerRecord[Any, Any] | None:
        found = self.collector.next(lambda fetch: fetch.take(_RUN_RECORDS, self._deserialize))
        if found is None:
            self._run = None
            return None
        state, records = found
        self._run = _Run(state, records, state.version)
        self._session.counts.records += len(records)
        state.last_timestamp_ms = records[-1].timestamp_ms
        return self.next_of_run()

    def drop_run(self) -> None:
        """Return no more of the records that `async for` took: the consumer stops."""
        self._run = None

    def return_run(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Have the records that `async for` took but did not return fetched again."""
        run = self._run
        if run is None or (partitions is not None and run.state.partition not in partitions):
            return
        self._run = None
        if run.index < len(run.records) and run.version == run.state.version:
            run.state.rewind()
            self._session.signals.fetch.set()
