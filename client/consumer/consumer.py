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

`Consumer` is a face over its parts. From a start to a stop there are a `Session` (connections, tasks, membership) and a
`Poller` (polls). Positions and the subscription stay when it stops.
"""

from __future__ import annotations

import asyncio
import logging
import re
import signal
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Generic, Unpack, overload

from ...protocol.errors import ErrorCode, KafkaError
from ..assignors import Assignor, RangeAssignor
from ..core.clock import monotonic_ms
from ..core.leaders import list_offsets
from ..core.metrics import Metric
from ..core.options import (
    ClusterOptions,
    as_partition,
    check_mapping,
    check_numbers,
    check_options,
    check_partitions,
    check_stop_timeout,
    checked_offset,
    items_of,
    part_of,
    security_options,
)
from ..core.security import SecurityArguments
from ..core.serialization import AS_BYTES, DeserializerOf, Deserializers, KeyT, ValueT
from ..errors import ClientStopped, InvalidOption, NotAssigned
from ..record import (
    EARLIEST,
    LATEST,
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from .explanation import Explanation
from .fetched_batch import FetchedBatch, RecordColumns
from .offset_commits import OffsetStore
from .options import (
    RebalanceListener,
    Subscription,
    WorkOptions,
    broker_pattern,
    compiled_pattern,
    fetch_options,
    group_options,
)
from .poller import LONG_POLL_MS, Poller
from .positions import PartitionState, Positions
from .session import Session, SessionOptions
from .session_client import SessionClient
from .streams import Stream, Streams
from .workers import DeadLetters, Handler, Workers, told

_log = logging.getLogger(__name__)


class Consumer(SessionClient[Session], AsyncIterator[ConsumerRecord[KeyT, ValueT]], Generic[KeyT, ValueT]):
    """Reads topics. Use `async with`, or `start()` and `stop()`. Raises InvalidOption for an invalid option.

    Keys and values are bytes, or what the deserializers return; `Consumer[str, dict[str, int]]` tells a type checker.

    `async for` returns one record at a time, `getmany` lists of them. Only one task may poll at a time:
    a second one gets ConcurrentPoll.
    """

    # From start() to stop().
    _poller: Poller | None = None

    def __init__(
        self,
        *topics: str | Iterable[str],
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        client_id: str = "odradek-consumer",
        group_id: str | None = None,
        group_instance_id: str | None = None,
        client_rack: str | None = None,
        auto_offset_reset: str = "latest",
        offset_store: OffsetStore | None = None,
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
        group_protocol: str = "auto",
        group_remote_assignor: str | None = None,
        check_crcs: bool = True,
        allow_auto_create_topics: bool = True,
        request_timeout_ms: float = 30_000,
        default_api_timeout_ms: float = 60_000,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 1_000,
        metadata_max_age_ms: float = 300_000,
        key_deserializer: DeserializerOf[KeyT] | None = AS_BYTES,
        value_deserializer: DeserializerOf[ValueT] | None = AS_BYTES,
        **security: Unpack[SecurityArguments],
    ) -> None:
        given = check_options(locals())
        names = items_of("Consumer", str, topics)
        cluster = part_of(given, ClusterOptions, security=security_options("Consumer", security))
        fetch, group = fetch_options(given), group_options(given)
        commit_ms = auto_commit_interval_ms if enable_auto_commit else None
        self._options = SessionOptions(cluster, fetch, group, offset_store, commit_ms)
        self._deserializers = Deserializers(key_deserializer, value_deserializer)
        self._max_poll_records = max_poll_records
        super().__init__("consumer", request_timeout_ms)
        self._subscription = Subscription(set(names))
        self._positions = Positions()

    # -- Start and stop

    async def _open(self) -> Session:
        session = await Session.open(self._options, self._subscription, self._positions)
        self._poller = Poller(session, self._deserializers)
        return session

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Commit (with auto-commit) the processed records, leave the group and close.

        The returned records count as processed if the task that polls calls this, or has ended. Otherwise it may still
        work on them: then they do not, and its `async for` ends. `consume` finishes what it has polled before.
        A handler that asks for the stop does not wait for it.

        After `timeout_ms` (request_timeout_ms if none) it closes without the commit or the LeaveGroup that is not done:
        the records are read again, and the group waits for the session time-out.
        """
        check_stop_timeout(timeout_ms)
        if self._session is not None:
            self._session.polls.mark_processed_by(asyncio.current_task())
        await self._close(timeout_ms)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After an error in the user's code, the records that it worked on are not processed.
        await (self.stop() if kind is None else self._close())

    async def _close(self, timeout_ms: float | None = None) -> None:
        await self._stop_by(self._finish, timeout_ms, lambda: self._close(timeout_ms))

    async def _finish(self) -> None:
        session = self._session
        assert session is not None and self._poller is not None
        try:
            await self.drain()
        finally:
            session.stopping = True
            self._poller.drop_run()
        await session.leave()

    async def _end(self) -> None:
        self._poller = None
        await super()._end()

    def _polling(self) -> Poller:
        self._running()
        assert self._poller is not None
        return self._poller

    # -- Subscription

    def subscribe(
        self,
        *topics: str | Iterable[str],
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics instead of earlier ones: shared with the group, or all partitions if there is no group.

        With a `pattern`, read every topic whose whole name it matches, also those that are made later (they are found
        within `metadata_max_age_ms`), but no internal ones. With `group_protocol="consumer"` the broker matches, by
        RE2, internal topics too; InvalidOption says what of a pattern RE2 does not have.
        """
        self._subscribe(self._checked_subscription(items_of("subscribe", str, topics), pattern, listener))

    def _checked_subscription(
        self,
        topics: Collection[str] = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> Subscription:
        if self._subscription.partitions:
            raise NotAssigned("partitions were assigned by hand: unsubscribe() first")
        if topics and pattern is not None:
            raise InvalidOption("subscribe to topics or to a pattern, not to both")
        if pattern is None:
            return Subscription(set(topics), listener=listener)
        group = self._options.group
        by_broker = broker_pattern(pattern) if group is not None and group.group_protocol == "consumer" else None
        return Subscription(set(), compiled_pattern(pattern), by_broker, listener=listener)

    def assign(self, partitions: TopicPartition | Iterable[TopicPartition] = (), *more: TopicPartition) -> None:
        """Read exactly these partitions, from the group's committed offsets if there is a `group_id`."""
        wanted = items_of("assign", TopicPartition, (partitions, *more))
        if self._subscription.topics or self._subscription.pattern is not None:
            raise NotAssigned("topics are subscribed: unsubscribe() first")
        self._subscribe(Subscription(partitions=tuple(wanted)))

    async def unsubscribe(self) -> None:
        """Read nothing: leave the group, or drop the assigned partitions; also if the call is cancelled.

        After `default_api_timeout_ms` it goes on without the commit or the LeaveGroup that is not done.
        """
        given_up = self._subscription
        try:
            if self._session is not None:
                async with asyncio.timeout(self._options.cluster.default_api_timeout_ms / 1000):
                    await self._session.leave_and_commit()
        except TimeoutError:
            _log.warning("unsubscribe could not commit and leave the group: its time is over")
        finally:
            if self._subscription is given_up:  # the user may have subscribed meanwhile
                self._subscribe(Subscription())

    def _subscribe(self, subscription: Subscription) -> None:
        self._subscription = subscription
        if self._session is not None:
            self._session.subscribe(subscription)

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that this consumer has now."""
        return self._positions.partitions()

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics."""
        return frozenset(self._subscription.topics)

    # -- Poll

    async def getmany(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[KeyT, ValueT]]]:
        """Return up to `max_records` (`max_poll_records` if none) records by partition; none after `timeout_ms`.

        A further call says that the records of the last one are processed. Raises the error of a partition once (the
        other partitions can be read on), and the error that ended the membership. Raises DeserializationFailed while
        the next record of a partition cannot be deserialized: `seek` behind it.
        """
        limit = self._max_poll_records if max_records is None else max_records
        if limit < 1:
            check_numbers(max_records=limit)
        return await self._polling().records(timeout_ms, limit)

    async def getbatches(
        self, *, timeout_ms: float = 0, max_bytes: int = 1_048_576
    ) -> dict[TopicPartition, list[FetchedBatch]]:
        """Return whole record batches by partition: `max_bytes` and at most one batch more; none after `timeout_ms`.

        For copies that keep codecs and timestamps, and for fast passes over values. Positions move behind the batches,
        and all else is as with `getmany`.
        """
        return await self._polling().batches(timeout_ms, max_bytes)

    async def batches(self, *, max_bytes: int = 4_194_304) -> AsyncIterator[RecordColumns]:
        """Yield records by column, partition by partition, until the consumer is stopped.

        A column is decoded when it is asked for: `values` alone, or `to_arrow()`, is much faster than records. Records
        count as processed when the next poll begins, at the latest after those of the other partitions.
        """
        while True:
            try:
                found = await self.getbatches(timeout_ms=LONG_POLL_MS, max_bytes=max_bytes)
            except ClientStopped:
                if self._stopped:
                    return
                raise
            for partition, some in found.items():
                yield RecordColumns(partition, some)

    async def getone(self) -> ConsumerRecord[KeyT, ValueT]:
        """Return the next record, and wait for it without a limit. The record before it then counts as processed.

        Raises ClientStopped when the consumer is stopped meanwhile.
        """
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise ClientStopped("the consumer was stopped") from None

    async def __anext__(self) -> ConsumerRecord[KeyT, ValueT]:
        """Return the next record, and wait for it without a limit. The record before it then counts as processed.

        The iteration ends when the consumer is stopped.
        """
        poller = self._poller
        if poller is not None and (record := poller.next_of_run()) is not None:
            return record
        if poller is None and self._stopped:
            raise StopAsyncIteration
        if (record := await self._polling().next_record()) is None:
            raise StopAsyncIteration
        return record

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
        self._running().commits.kept()
        buried = None if dead_letters is None else told(dead_letters)
        await self._run(Workers(handler, options, self._polling(), buried, self._deserializers.one_in_time), drain_on)

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
        if isinstance(topics, Mapping):
            return self._open_streams(self._checked_subscription(tuple(topics)), topics).by_topic()
        return self._open_streams(self._checked_subscription(pattern=topics), {}, count).all

    def _open_streams(self, subscription: Subscription, counts: Mapping[str, int], count: int = 0) -> Streams:
        if min(counts.values(), default=count) < 1:
            raise InvalidOption("streams needs a number of streams above 0, for a topic at least")
        session = self._running()
        streams = Streams(self, session, self._polling(), counts, count, self._deserializers.one_in_time)
        self._subscribe(subscription)
        session.watch_task(session.cluster.spawn(streams.run(self._max_poll_records), "streams"))
        return streams

    # -- Positions

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record; wait until it is known (`default_api_timeout_ms`)."""
        session = self._running()
        state = self._state(partition)
        try:
            async with asyncio.timeout(self._options.cluster.default_api_timeout_ms / 1000):
                while state.position is None:
                    if state.error is not None:
                        session.signals.fetch.set()
                        raise state.take_error()
                    await session.signals.wait_for_positions()
                    self._running()
                    state = self._state(partition)
        except TimeoutError:
            text = f"the position of {state} was not found in time"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None
        return state.position

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """Return the partition's high watermark at the last fetch, None before the first."""
        watermark = self._state(partition).high_watermark
        return None if watermark < 0 else watermark

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue from `offset`. With its leader epoch, a truncated log is noticed (KIP-320). Raises NotAssigned."""
        to = checked_offset(offset)
        self._state(partition).move_to(to.offset, to.leader_epoch)
        self._positions_changed()

    def seek_to_beginning(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Continue from the first record of these partitions, of all assigned ones without an argument."""
        self._seek_to(EARLIEST, items_of("seek_to_beginning", TopicPartition, partitions) if partitions else None)

    def seek_to_end(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Continue behind the last record of these partitions, of all assigned ones without an argument."""
        self._seek_to(LATEST, items_of("seek_to_end", TopicPartition, partitions) if partitions else None)

    def _seek_to(self, timestamp: int, partitions: Collection[TopicPartition] | None) -> None:
        for partition in self._positions.partitions() if partitions is None else partitions:
            self._state(partition).reset_to(timestamp)
        self._positions_changed()

    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`.

        A rebalance keeps the pause of a partition that this consumer has after it, and forgets it with the partition.
        """
        wanted = items_of("pause", TopicPartition, partitions)
        if self._poller is not None:
            self._poller.return_run(wanted)
        self._pause(wanted, paused=True)  # what they hold counts no more: others may be fetched

    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Return records of these partitions again."""
        self._pause(items_of("resume", TopicPartition, partitions), paused=False)

    def _pause(self, partitions: Sequence[TopicPartition], *, paused: bool) -> None:
        for partition in partitions:
            self._positions.pause(self._state(partition), paused=paused)
        self._positions_changed()

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return frozenset(state.partition for state in self._positions if state.paused)

    def _state(self, partition: TopicPartition) -> PartitionState:
        check_partitions("this call", [partition])
        state = self._positions.get(partition)
        if state is None:
            raise NotAssigned(f"{partition[0]}-{partition[1]} is not assigned to this consumer")
        return state

    def _positions_changed(self) -> None:
        if self._session is not None:
            self._session.signals.positions_changed()

    # -- Offsets of the group and of the log

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Commit these offsets (of the next records to read), or all positions: all returned records are processed.

        While `consume` or `streams` read, commit what is processed instead: in each partition up to the first record
        that is not. A record of a stream is processed when the stream is asked for the next one.

        Raises CommitFailed if the group has gone on without this member, or partitions were taken away after the last
        poll returned their records. Raises GroupRequired without a `group_id`.
        """
        session = self._running()
        session.commits.kept()
        given = None
        if offsets is not None:
            check_mapping("commit", offsets, "TopicPartition and the offset of the next record to read")
            given = {as_partition("commit", each): checked_offset(offset) for each, offset in offsets.items()}
        session.polls.check_lost(given)
        await session.commits.commit(given)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the consumer's place in its group, for a producer's `send_offsets`.

        Raises CommitFailed if partitions were taken away after the last poll returned their records, GroupRequired.
        """
        return self._running().group_metadata()

    async def committed(
        self, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets of these partitions, of all assigned ones without an argument."""
        asked = items_of("committed", TopicPartition, partitions)
        kept = self._running().commits.kept()
        return await kept.fetch(asked if partitions else self._positions.partitions())

    async def beginning_offsets(
        self, partitions: TopicPartition | Iterable[TopicPartition] = (), *more: TopicPartition
    ) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition."""
        return await self._ends_of_logs(items_of("beginning_offsets", TopicPartition, (partitions, *more)), EARLIEST)

    async def end_offsets(
        self, partitions: TopicPartition | Iterable[TopicPartition] = (), *more: TopicPartition
    ) -> dict[TopicPartition, int]:
        """Return the offset behind the last record of each partition; with read_committed the last stable offset."""
        return await self._ends_of_logs(items_of("end_offsets", TopicPartition, (partitions, *more)), LATEST)

    async def _ends_of_logs(self, partitions: Iterable[TopicPartition], end: int) -> dict[TopicPartition, int]:
        found = await self._list_offsets(dict.fromkeys(partitions, end))
        return {partition: at.offset for partition, at in found.items()}

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset at or after a time in each partition, None if there is none."""
        found = await self._list_offsets(times_ms)
        return {partition: None if at.offset < 0 else at for partition, at in found.items()}

    async def _list_offsets(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        wanted = {as_partition("this call", each): time_ms for each, time_ms in times_ms.items()}
        return await list_offsets(self._running().cluster, wanted, self._options.fetch.isolation_level)

    async def partitions_for(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions. Raises UnknownTopic after `default_api_timeout_ms`."""
        info = await self._running().cluster.topic(topic)
        return [partition.partition for partition in info.partitions]

    # -- Seeing inside

    def metrics(self) -> list[Metric]:
        """Return what the consumer has counted since its start, under Kafka's names; nothing before the start."""
        session = self._session
        if session is None:
            return []
        client_id = self._options.cluster.client_id
        return list(session.counts.metrics(client_id, self._positions, monotonic_ms()))

    def explain(self) -> Explanation:
        """Return what is assigned with its lag, and what holds the consumer or its group's rebalance up.

        `print(consumer.explain())` shows it as text.
        """
        return self._running().explain()
