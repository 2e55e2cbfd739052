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
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ..assignors import Assignor, RangeAssignor
from ..clock import wait_for
from ..errors import ClientStopped, CommitFailed, InvalidOption, NotAssigned
from ..metadata import ClusterView
from ..network.log_offsets import list_offsets
from ..network.options import ClusterOptions
from ..record import (
    EARLIEST,
    LATEST,
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from .assignment import RebalanceListener
from .fetched_batch import FetchedBatch
from .offset_commits import taken_away
from .options import fetch_options, group_options
from .positions import PartitionState, Positions
from .session import Session

T = TypeVar("T")

_log = logging.getLogger(__name__)

# How many records `async for` takes out of the fetched ones at a time.
_RUN_RECORDS = 500


class _Run:
    """Records that `async for` returns one by one."""

    __slots__ = ("index", "records", "state", "version")

    def __init__(self, state: PartitionState, records: list[ConsumerRecord]) -> None:
        self.state = state
        self.version = state.version
        self.records = records
        self.index = 0


class Consumer(AsyncIterator[ConsumerRecord]):
    """Reads topics. Use `async with`, or `start()` and `stop()`. Raises InvalidOption for an invalid option.

    `async for` returns one record at a time, `getmany` lists of them. Only one task may poll at a time:
    a second one gets ConcurrentPoll.
    """

    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        client_id: str = "odradek-consumer",
        group_id: str | None = None,
        group_instance_id: str | None = None,
        client_rack: str | None = None,
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: float = 5_000,
        isolation_level: str = "read_uncommitted",
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52_428_800,
        max_partition_fetch_bytes: int = 1_048_576,
        max_poll_records: int = 500,
        max_poll_interval_ms: int = 300_000,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: float = 3_000,
        partition_assignment_strategy: Sequence[type[Assignor]] = (RangeAssignor,),
        check_crcs: bool = True,
        allow_auto_create_topics: bool = True,
        request_timeout_ms: float = 30_000,
        default_api_timeout_ms: float = 60_000,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 1_000,
        metadata_max_age_ms: float = 300_000,
    ) -> None:
        if max_poll_records < 1:
            raise InvalidOption(f"max_poll_records must be at least 1, not {max_poll_records}")
        if request_timeout_ms <= fetch_max_wait_ms:
            raise InvalidOption("request_timeout_ms must be above fetch_max_wait_ms")
        self._cluster_options = ClusterOptions(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            default_api_timeout_ms=default_api_timeout_ms,
            allow_auto_create_topics=allow_auto_create_topics,
        )
        self._fetch_options = fetch_options(
            min_bytes=fetch_min_bytes,
            max_wait_ms=fetch_max_wait_ms,
            max_bytes=fetch_max_bytes,
            max_partition_bytes=max_partition_fetch_bytes,
            isolation_level=isolation_level,
            check_crcs=check_crcs,
            auto_offset_reset=auto_offset_reset,
        )
        self._group_options = group_options(
            group_id=group_id,
            group_instance_id=group_instance_id,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            client_rack=client_rack,
            assignors=[strategy() for strategy in partition_assignment_strategy],
            auto_commit_interval_ms=auto_commit_interval_ms if enable_auto_commit else None,
        )
        self._max_poll_records = max_poll_records
        self._topics: set[str] = set(topics)
        self._assigned_by_user: tuple[TopicPartition, ...] = ()
        self._listener: RebalanceListener | None = None
        self._positions = Positions()
        # None before start() and after stop().
        self._session: Session | None = None
        self._run: _Run | None = None
        # Whether a session has ended: then `async for` ends, and does not raise.
        self._stopped = False

    # -- Start and stop

    async def start(self) -> None:
        """Reach the cluster; joining a group continues in the background.

        Raises NoBrokerReachable if no bootstrap server responds.
        """
        if self._session is not None:
            return
        topics = self._topics | {partition.topic for partition in self._assigned_by_user}
        self._session = session = await Session.open(
            self._cluster_options, topics, self._positions, self._fetch_options, self._group_options
        )
        session.assignment.listener = self._listener
        session.note_topic_errors(topics, session.cluster.view)
        session.cluster.on_update(self._metadata_changed)
        if self._assigned_by_user:
            session.take_partitions(self._assigned_by_user)
        elif self._topics:
            self._take_topics(session)

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Commit (with auto-commit) the processed records, leave the group and close.

        The returned records count as processed if the task that polls calls this, or has ended. Otherwise it may still
        work on them: then they do not, and its `async for` ends.

        After `timeout_ms` (request_timeout_ms if none) it closes without the commit or the LeaveGroup that is not done:
        the records are read again, and the group waits for the session time-out.
        """
        if self._session is not None:
            self._session.polls.mark_processed_by(asyncio.current_task())
        await self._close(timeout_ms)

    async def __aenter__(self) -> Consumer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error in the user's code, the records that it worked on are not processed.
        await (self.stop() if kind is None else self._close())

    async def _close(self, timeout_ms: float | None = None) -> None:
        session = self._session
        if session is None or session.stopping:
            return
        session.stopping, self._run = True, None
        session.signals.wake_poll()
        limit_ms = self._cluster_options.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await session.leave_and_commit()
        except TimeoutError:
            _log.warning(
                "the consumer was stopped before it could commit and leave its group: %g ms are over", limit_ms
            )
        finally:
            self._session, self._stopped = None, True
            await session.close()

    def _running(self) -> Session:
        if self._session is None:
            raise ClientStopped("the consumer is not running: use `async with Consumer(...)`, or await start() first")
        return self._session

    # -- Subscription

    def subscribe(self, *topics: str, listener: RebalanceListener | None = None) -> None:
        """Read these topics instead of earlier ones: shared with the group, or all partitions if there is no group."""
        if self._assigned_by_user:
            raise NotAssigned("partitions were assigned by hand: unsubscribe() first")
        session = self._session
        if session is not None:
            session.cluster.forget(self._topics.difference(topics))
        self._topics = set(topics)
        self._listener = listener
        if session is not None:
            session.assignment.listener = listener
            self._take_topics(session)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, from the group's committed offsets if there is a `group_id`."""
        if self._topics:
            raise NotAssigned("topics are subscribed: unsubscribe() first")
        self._assigned_by_user = tuple(TopicPartition(*partition) for partition in partitions)
        if self._session is not None:
            self._session.take_partitions(self._assigned_by_user)

    async def unsubscribe(self) -> None:
        """Read nothing: leave the group, or drop the assigned partitions."""
        session = self._session
        if session is not None:
            await session.leave_and_commit()
            session.cluster.forget(self._topics)
        self._topics, self._assigned_by_user, self._run = set(), (), None
        self._positions.replace(())

    def _take_topics(self, session: Session) -> None:
        session.cluster.watch(self._topics)
        if self._group_options is None:
            self._follow_topics(session.cluster.view)
            session.cluster.refresh_soon()
        else:
            session.join_group(lambda: self._topics)

    def _metadata_changed(self, view: ClusterView) -> None:
        if self._session is not None:
            read = self._topics | {partition.topic for partition in self._assigned_by_user}
            self._session.note_topic_errors(read, view)
        self._follow_topics(view)

    def _follow_topics(self, view: ClusterView) -> None:
        """Without a group, take the partitions that the topics have in a new view of the cluster."""
        if self._session is not None and self._group_options is None and self._topics:
            self._session.assignment.follow_topics(sorted(self._topics), view)

    # -- Poll

    async def getmany(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return up to `max_records` (`max_poll_records` if none) records by partition; none after `timeout_ms`.

        A further call says that the records of the last one are processed. Raises the error of a partition once (the
        other partitions can be read on), and the error that ended the membership.
        """
        limit = self._max_poll_records if max_records is None else max_records
        return await self._poll(timeout_ms, lambda session: self._collect(session, limit))

    async def getbatches(
        self, *, timeout_ms: float = 0, max_bytes: int = 1_048_576
    ) -> dict[TopicPartition, list[FetchedBatch]]:
        """Return whole record batches by partition: `max_bytes` and at most one batch more; none after `timeout_ms`.

        For copies that keep codecs and timestamps, and for fast passes over values. Positions move behind the batches,
        and all else is as with `getmany`.
        """
        return await self._poll(timeout_ms, lambda session: self._collect_batches(session, max_bytes))

    async def _poll(
        self, timeout_ms: float, collect: Callable[[Session], dict[TopicPartition, list[T]]]
    ) -> dict[TopicPartition, list[T]]:
        session = self._running()
        session.polls.begin()
        try:
            self._return_run()
            return await self._wait_for(session, timeout_ms, collect)
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

    def _collect(self, session: Session, limit: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        batches: dict[TopicPartition, list[ConsumerRecord]] = {}
        while limit > 0 and session.may_return_records():
            try:
                found = session.collector.next_records(limit)
            except KafkaError as error:
                if not batches:
                    raise
                session.error = error  # for the next poll: these records come first
                break
            if found is None:
                break
            state, records = found
            state.position = records[-1].offset + 1
            session.polls.mark_returned(state)
            batches.setdefault(state.partition, []).extend(records)
            limit -= len(records)
        return batches

    async def __anext__(self) -> ConsumerRecord:
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

    async def _next_record(self) -> ConsumerRecord:
        session = self._session
        if session is None:
            if self._stopped:
                raise StopAsyncIteration
            session = self._running()
        session.polls.begin()
        try:
            return await self._wait_for_record(session)
        finally:
            session.polls.end()

    async def _wait_for_record(self, session: Session) -> ConsumerRecord:
        while not session.stopping:
            if session.may_return_records():
                run = self._run
                if run is None or run.index >= len(run.records) or run.version != run.state.version:
                    found = session.collector.next_records(_RUN_RECORDS)
                    run = self._run = None if found is None else _Run(*found)
                if run is not None:
                    session.polls.mark_returned(run.state)
                    return _next_of(run)
            await session.signals.poll.wait()
        raise StopAsyncIteration

    def _return_run(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Have the records that `async for` took but did not return fetched again."""
        run = self._run
        if run is None or (partitions is not None and run.state.partition not in partitions):
            return
        self._run = None
        if run.index < len(run.records) and run.version == run.state.version:
            run.state.rewind()
            if self._session is not None:
                self._session.signals.wake_fetcher()

    # -- Positions

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that this consumer has now."""
        return self._positions.partitions()

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics."""
        return frozenset(self._topics)

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record; wait until it is known (`default_api_timeout_ms`)."""
        session = self._running()
        state = self._state(partition)
        try:
            async with asyncio.timeout(self._cluster_options.default_api_timeout_ms / 1000):
                while state.position is None:
                    if state.error is not None:
                        raise state.error
                    await session.signals.wait_for_positions()
                    state = self._state(partition)
        except TimeoutError:
            text = f"the position of {state} was not found in time"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None
        return state.position

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """Return the partition's high watermark at the last fetch, None before the first."""
        watermark = self._state(partition).high_watermark
        return None if watermark < 0 else watermark

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue from `offset`. Raises NotAssigned."""
        if offset < 0:
            raise InvalidOption(f"an offset to seek is 0 or more, not {offset}")
        self._state(partition).move_to(offset)
        self._positions_changed()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue from the first record of these partitions, of all assigned ones if none is given."""
        self._seek_to(EARLIEST, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue behind the last record of these partitions, of all assigned ones if none is given."""
        self._seek_to(LATEST, partitions)

    def _seek_to(self, timestamp: int, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions or self._positions.partitions():
            self._state(partition).reset_to(timestamp)
        self._positions_changed()

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`, or until a rebalance takes them away."""
        self._return_run(partitions)
        for partition in partitions:
            self._state(partition).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        for partition in partitions:
            self._state(partition).paused = False
        self._positions_changed()

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return frozenset(state.partition for state in self._positions if state.paused)

    def _state(self, partition: TopicPartition) -> PartitionState:
        state = self._positions.get(partition)
        if state is None:
            raise NotAssigned(f"{partition[0]}-{partition[1]} is not assigned to this consumer")
        return state

    def _positions_changed(self) -> None:
        if self._session is not None:
            self._session.positions_changed()

    # -- Offsets of the group and of the log

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Commit these offsets (of the next records to read), or all positions: all returned records are processed.

        Raises CommitFailed if the group has gone on without this member, or partitions were taken away after the last
        poll returned their records. Raises GroupRequired without a `group_id`.
        """
        session = self._running()
        session.committed_offsets()
        lost = session.polls.lost()
        if lost and (offsets is None or not offsets.keys().isdisjoint(lost)):
            raise taken_away(lost)
        if offsets is None:
            wanted = self._positions.returned_offsets()
        else:
            wanted = {
                p: OffsetAndMetadata(offset) if isinstance(offset, int) else offset for p, offset in offsets.items()
            }
        try:
            await session.commits.commit(wanted)
        except CommitFailed:
            if session.membership is not None:
                session.membership.request_rejoin()
            raise

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the consumer's place in its group, for a producer's `send_offsets`.

        Raises CommitFailed if partitions were taken away after the last poll returned their records, GroupRequired.
        """
        session = self._running()
        metadata = session.group_metadata()
        if lost := session.polls.lost():
            raise taken_away(lost)
        return metadata

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets of these partitions, of all assigned ones if none is given."""
        return await self._running().committed_offsets().fetch(partitions or self._positions.partitions())

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition."""
        return await self._end_of_log(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset behind the last record of each partition; with read_committed the last stable offset."""
        return await self._end_of_log(partitions, LATEST)

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset at or after a time in each partition, None if there is none."""
        found = await list_offsets(self._running().cluster, times_ms, self._fetch_options.isolation_level)
        return {partition: None if at.offset < 0 else at for partition, at in found.items()}

    async def partitions_for(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions. Raises UnknownTopic after `default_api_timeout_ms`."""
        info = await self._running().cluster.topic(topic)
        return [partition.partition for partition in info.partitions]

    async def _end_of_log(self, partitions: Iterable[TopicPartition], end: int) -> dict[TopicPartition, int]:
        timestamps = dict.fromkeys(partitions, end)
        found = await list_offsets(self._running().cluster, timestamps, self._fetch_options.isolation_level)
        return {partition: at.offset for partition, at in found.items()}


def _next_of(run: _Run) -> ConsumerRecord:
    record = run.records[run.index]
    run.index += 1
    state = run.state
    state.processed = record.offset
    state.position = record.offset + 1
    return record
