"""Reading records: `Consumer`.

    async with Consumer("flights", bootstrap_servers="127.0.0.1:9092", group_id="delays") as consumer:
        async for record in consumer: ...
        # or many at a time, which is faster:
        batches = await consumer.getmany(timeout_ms=500, max_records=1000)

Topics with a `group_id` are shared with the other members of the group; topics without one are read whole; `assign`
takes partitions by hand, with offsets kept in a group if there is one. Option names and meanings are Kafka's in snake
case.

Promise: a record that was handed out counts as processed when the consumer is asked for the next ones, or stopped
without an error. Only processed records are committed by auto-commit and when partitions are given up, so a crash
repeats records and loses none. A rebalance waits (up to `max_poll_interval_ms`) until the user asks for more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from ...protocol.errors import ErrorCode, KafkaError
from ..assignors import Assignor, RangeAssignor
from ..errors import ClientStopped, CommitFailed, GroupRequired, InvalidOption, NotAssigned
from ..metadata import ClusterView
from ..network.cluster import Cluster, ClusterOptions
from ..network.coordinator import Coordinator
from ..network.log_offsets import ISOLATION_LEVELS, list_offsets
from ..record import EARLIEST, LATEST, ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from .assignment import Ownership, RebalanceListener
from .fetcher import RESETS, Fetcher, FetchOptions
from .membership import GroupOptions, Membership, State
from .positions import PartitionState, Positions

# How many records `async for` takes out of a piece at a time.
_RUN = 500


class _Run:
    """Records that `async for` hands out one by one."""

    __slots__ = ("index", "records", "state", "turn")

    def __init__(self, state: PartitionState, records: list[ConsumerRecord]) -> None:
        self.state = state
        self.turn = state.turn
        self.records = records
        self.index = 0


class Consumer(AsyncIterator[ConsumerRecord]):
    """Reads topics. Use `async with`, or `start()` and `stop()`. Raises InvalidOption for an option that cannot be.

    Records come out of `async for` one at a time, or of `getmany` in lists; one task at a time may ask.
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
        _one_of("auto_offset_reset", auto_offset_reset, RESETS)
        _one_of("isolation_level", isolation_level, ISOLATION_LEVELS)
        for name, value in (("max_poll_records", max_poll_records), ("fetch_max_bytes", fetch_max_bytes)):
            if value < 1:
                raise InvalidOption(f"{name} must be at least 1, not {value}")
        if group_id == "":
            raise InvalidOption("group_id must not be empty: leave it out for no group")
        if heartbeat_interval_ms >= session_timeout_ms:
            raise InvalidOption(
                f"heartbeat_interval_ms ({heartbeat_interval_ms:g}) must be below session_timeout_ms "
                f"({session_timeout_ms})"
            )
        if request_timeout_ms <= fetch_max_wait_ms:
            raise InvalidOption("request_timeout_ms must be above fetch_max_wait_ms")
        if not partition_assignment_strategy:
            raise InvalidOption("partition_assignment_strategy must name one assignor at least")
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
        self._fetch_options = FetchOptions(
            min_bytes=fetch_min_bytes,
            max_wait_ms=fetch_max_wait_ms,
            max_bytes=fetch_max_bytes,
            max_partition_bytes=max_partition_fetch_bytes,
            isolation_level=ISOLATION_LEVELS[isolation_level],
            check_crcs=check_crcs,
            reset=RESETS[auto_offset_reset],
        )
        self._group_options: GroupOptions | None = None
        if group_id is not None:
            self._group_options = GroupOptions(
                group_id,
                group_instance_id,
                session_timeout_ms,
                heartbeat_interval_ms,
                max_poll_interval_ms,
                client_rack,
            )
        self._auto_commit_interval_ms = auto_commit_interval_ms if group_id is not None and enable_auto_commit else None
        self._assignors = [strategy() for strategy in partition_assignment_strategy]
        self._max_poll_records = max_poll_records
        self._topics: set[str] = set(topics)
        self._by_hand: tuple[TopicPartition, ...] = ()
        self._listener: RebalanceListener | None = None
        self._positions = Positions()
        # These four are there from start() to stop().
        self._cluster: Cluster | None = None
        self._fetcher: Fetcher | None = None
        self._ownership: Ownership | None = None
        self._coordinator: Coordinator | None = None
        self._membership: Membership | None = None
        self._member_task: asyncio.Task[Any] | None = None
        self._error: KafkaError | None = None
        self._run: _Run | None = None

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reach the cluster; joining a group goes on behind. Raises NoBrokerReachable where no bootstrap server
        answers."""
        if self._cluster is not None:
            return
        cluster = Cluster(self._cluster_options)
        cluster.watch(self._topics | {partition.topic for partition in self._by_hand})
        try:
            await cluster.start()
        except BaseException:
            await cluster.close()
            raise
        self._cluster = cluster
        self._fetcher = Fetcher(cluster, self._positions, self._fetch_options, _monotonic_ms)
        if self._group_options is not None:
            self._coordinator = Coordinator(cluster, self._group_options.group_id)
        self._ownership = Ownership(
            cluster, self._positions, self._fetcher, self._coordinator, self._auto_commit_interval_ms
        )
        self._ownership.listener = self._listener
        cluster.listen(self._new_view)
        self._watch(cluster.spawn(self._fetcher.run(), "fetcher"))
        if self._auto_commit_interval_ms is not None:
            self._watch(cluster.spawn(self._ownership.keep_committing(), "auto-commit"))
        if self._by_hand:
            self._take_by_hand()
        elif self._topics:
            self._take_topics()

    async def stop(self) -> None:
        """What was handed out counts as processed: commit it (with auto-commit), leave the group, close."""
        if self._ownership is not None:
            self._ownership.back()
        await self._end()

    async def __aenter__(self) -> Consumer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error in the user's code, the records that it was working on are not processed.
        await (self.stop() if kind is None else self._end())

    async def _end(self) -> None:
        cluster, ownership, fetcher = self._cluster, self._ownership, self._fetcher
        if cluster is None or ownership is None or fetcher is None:
            return
        try:
            await self._end_membership()
            if self._positions.partitions():
                await ownership.commit_processed()
        finally:
            self._cluster = self._fetcher = self._ownership = self._coordinator = None
            self._run = None
            fetcher.arrived.set()  # whoever still waits for records finds the consumer stopped
            await cluster.close()
            self._positions.replace(())

    async def _end_membership(self) -> None:
        """Stop heartbeating, commit, leave."""
        membership, self._membership = self._membership, None
        task, self._member_task = self._member_task, None
        if membership is None or task is None or self._ownership is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if membership.state is State.MEMBER:
            # Also where the group rebalances already: until it has, our generation may commit.
            await self._ownership.revoked()
        self._ownership.membership = None
        await membership.leave("the consumer was closed")

    def _watch(self, task: asyncio.Task[Any]) -> None:
        """These tasks never end by themselves: if one breaks, the next poll says so."""

        def ended(task: asyncio.Task[Any]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                self._error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{task.get_name()} broke: {error!r}")
                self._error.__cause__ = error
                if self._fetcher is not None:
                    self._fetcher.arrived.set()

        task.add_done_callback(ended)

    # -- what to read ------------------------------------------------------------------------------

    def subscribe(self, *topics: str, listener: RebalanceListener | None = None) -> None:
        """Read these topics instead of those before: shared with the group, or whole where there is no group."""
        if self._by_hand:
            raise NotAssigned("partitions were assigned by hand: unsubscribe() first")
        if self._cluster is not None:
            self._cluster.forget(self._topics.difference(topics))
        self._topics = set(topics)
        self._listener = listener
        if self._ownership is not None:
            self._ownership.listener = listener
            self._take_topics()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others, without sharing. Committed offsets are used where there is a
        `group_id`."""
        if self._topics:
            raise NotAssigned("topics are subscribed: unsubscribe() first")
        self._by_hand = tuple(TopicPartition(*partition) for partition in partitions)
        if self._cluster is not None:
            self._take_by_hand()

    async def unsubscribe(self) -> None:
        """Read nothing: leave the group, or drop what was assigned."""
        await self._end_membership()
        if self._ownership is not None and self._auto_commit_interval_ms is not None:
            await self._ownership.commit_processed()
        if self._cluster is not None:
            self._cluster.forget(self._topics)
        self._topics, self._by_hand, self._run = set(), (), None
        self._positions.replace(())

    def _take_by_hand(self) -> None:
        cluster, _, ownership = self._running()
        cluster.watch({partition.topic for partition in self._by_hand})
        cluster.refresh_soon()
        new = self._positions.replace(self._by_hand)
        self._watch(cluster.spawn(ownership.begin_by_hand(new), "begin"))

    def _take_topics(self) -> None:
        cluster, _, ownership = self._running()
        cluster.watch(self._topics)
        if self._group_options is None or self._coordinator is None:
            self._new_view(cluster.view)
            cluster.refresh_soon()
        elif self._membership is not None:
            self._membership.rejoin()
        else:
            self._membership = ownership.membership = Membership(
                cluster, self._coordinator, self._group_options, self._assignors, ownership, lambda: self._topics
            )
            self._member_task = cluster.spawn(self._membership.run(), "membership")
            self._watch(self._member_task)

    def _new_view(self, view: ClusterView) -> None:
        if self._ownership is not None and self._group_options is None and self._topics:
            self._ownership.read_whole(sorted(self._topics), view)

    # -- reading -----------------------------------------------------------------------------------

    async def getmany(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Up to `max_records` (`max_poll_records` if none) records by partition, in order; empty after `timeout_ms`
        without any.

        Asking again says that those of the last call are processed. Raises what went wrong with a partition, once: the
        others can be read on; and what ended the membership for good.
        """
        _, fetcher, ownership = self._running()
        self._rewind()
        ownership.back()
        limit = self._max_poll_records if max_records is None else max_records
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            batches = self._collect(fetcher, ownership, limit)
            left = deadline - loop.time()
            if batches:
                return batches
            if left <= 0:
                await asyncio.sleep(0)  # a loop around getmany(timeout_ms=0) must let others run
                return {}
            try:
                async with asyncio.timeout(left):
                    await fetcher.arrived.wait()
            except TimeoutError:
                return {}
            self._running()

    def _collect(
        self, fetcher: Fetcher, ownership: Ownership, limit: int
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        batches: dict[TopicPartition, list[ConsumerRecord]] = {}
        while limit > 0 and self._may_hand_out(fetcher):
            try:
                run = fetcher.next_run(limit)
            except KafkaError as error:
                if not batches:
                    raise
                self._error = error  # for the next call: these records first
                break
            if run is None:
                break
            state, records = run
            state.position = records[-1].offset + 1
            ownership.hand_out(state)
            batches.setdefault(state.partition, []).extend(records)
            limit -= len(records)
        return batches

    async def __anext__(self) -> ConsumerRecord:
        """The next record, whenever it comes. Asking for it says that the one before is processed."""
        run = self._run
        membership = self._membership
        if (
            run is not None
            and run.index < len(run.records)
            and run.turn == run.state.turn
            and (membership is None or not membership.rebalancing)
        ):
            return _next_of(run)
        return await self._next_record()

    async def _next_record(self) -> ConsumerRecord:
        _, fetcher, ownership = self._running()
        ownership.back()
        while True:
            if self._may_hand_out(fetcher):
                run = self._run
                if run is None or run.index >= len(run.records) or run.turn != run.state.turn:
                    found = fetcher.next_run(_RUN)
                    run = self._run = None if found is None else _Run(*found)
                if run is not None:
                    ownership.hand_out(run.state)
                    return _next_of(run)
            await fetcher.arrived.wait()
            self._running()

    def _may_hand_out(self, fetcher: Fetcher) -> bool:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        membership = self._membership
        if membership is None:
            return True
        if membership.error is not None:
            raise membership.error
        if membership.rebalancing:
            fetcher.arrived.clear()
            return False
        return True

    def _rewind(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """What `async for` has taken and not handed out goes back."""
        run = self._run
        if run is None or (partitions is not None and run.state.partition not in partitions):
            return
        self._run = None
        if run.index < len(run.records) and run.turn == run.state.turn:
            run.state.rewind()
            if self._fetcher is not None:
                self._fetcher.wake()

    # -- positions ---------------------------------------------------------------------------------

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer has now."""
        return self._positions.partitions()

    def subscription(self) -> frozenset[str]:
        """The topics that were subscribed."""
        return frozenset(self._topics)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record to be handed out; waits until it is found (`default_api_timeout_ms`)."""
        _, fetcher, _ = self._running()
        state = self._state(partition)
        try:
            async with asyncio.timeout(self._cluster_options.default_api_timeout_ms / 1000):
                while state.position is None:
                    if state.error is not None:
                        raise state.error
                    await fetcher.found.wait()
                    state = self._state(partition)
        except TimeoutError:
            text = f"the position of {partition.topic}-{partition.partition} was not found in time"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None
        return state.position

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """The end of the partition as the last fetch saw it, None before the first."""
        watermark = self._state(partition).high_watermark
        return None if watermark < 0 else watermark

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from `offset`. Raises NotAssigned."""
        if offset < 0:
            raise InvalidOption(f"an offset to seek is 0 or more, not {offset}")
        self._state(partition).move_to(offset)
        self._positions_changed()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on from the first record that there is; of all assigned partitions if none is given."""
        self._seek_to(EARLIEST, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on behind the last record that there is; of all assigned partitions if none is given."""
        self._seek_to(LATEST, partitions)

    def _seek_to(self, timestamp: int, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions or self._positions.partitions():
            self._state(partition).reset_to(timestamp)
        self._positions_changed()

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these until `resume`. A rebalance forgets it."""
        self._rewind(partitions)
        for partition in partitions:
            self._state(partition).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        for partition in partitions:
            self._state(partition).paused = False
        self._positions_changed()

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(state.partition for state in self._positions if state.paused)

    def _state(self, partition: TopicPartition) -> PartitionState:
        state = self._positions.get(partition)
        if state is None:
            raise NotAssigned(f"{partition[0]}-{partition[1]} is not assigned to this consumer")
        return state

    def _positions_changed(self) -> None:
        if self._fetcher is not None:
            self._fetcher.wake()
            self._fetcher.arrived.set()
            self._fetcher.announce()

    # -- offsets of the group and of the log -------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Commit these offsets (the next ones to read), or all positions: everything handed out counts as processed.

        Raises CommitFailed where the group has gone on without us, GroupRequired without a `group_id`.
        """
        _, _, ownership = self._running()
        self._in_group()
        if offsets is None:
            wanted = self._positions.handed_out()
        else:
            wanted = {
                p: OffsetAndMetadata(offset) if isinstance(offset, int) else offset for p, offset in offsets.items()
            }
        try:
            await ownership.commit(wanted)
        except CommitFailed:
            if self._membership is not None:
                self._membership.rejoin()
            raise

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for these partitions (for all assigned ones if none is given)."""
        self._running()
        return await self._in_group().committed(partitions or self._positions.partitions())

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that each partition still has."""
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record; with read_committed the last stable offset."""
        return await self._ends(partitions, LATEST)

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time, None where there is none."""
        cluster, _, _ = self._running()
        found = await list_offsets(cluster, times_ms, self._fetch_options.isolation_level)
        return {partition: None if at.offset < 0 else at for partition, at in found.items()}

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions. Raises UnknownTopic after `default_api_timeout_ms`."""
        info = await self._running()[0].topic(topic)
        return [partition.partition for partition in info.partitions]

    async def _ends(self, partitions: Iterable[TopicPartition], end: int) -> dict[TopicPartition, int]:
        cluster, _, _ = self._running()
        found = await list_offsets(cluster, dict.fromkeys(partitions, end), self._fetch_options.isolation_level)
        return {partition: at.offset for partition, at in found.items()}

    def _in_group(self) -> Coordinator:
        if self._coordinator is None:
            raise GroupRequired("offsets are kept by groups: give the consumer a group_id")
        return self._coordinator

    def _running(self) -> tuple[Cluster, Fetcher, Ownership]:
        if self._cluster is None or self._fetcher is None or self._ownership is None:
            raise ClientStopped("the consumer is not running: use `async with Consumer(...)`, or await start() first")
        return self._cluster, self._fetcher, self._ownership


def _next_of(run: _Run) -> ConsumerRecord:
    record = run.records[run.index]
    run.index += 1
    state = run.state
    state.processed = record.offset
    state.position = record.offset + 1
    return record


def _one_of(name: str, value: str, possible: Iterable[str]) -> None:
    if value not in possible:
        raise InvalidOption(f"{name} must be one of {', '.join(possible)}, not {value!r}")


def _monotonic_ms() -> float:
    return time.monotonic() * 1000
