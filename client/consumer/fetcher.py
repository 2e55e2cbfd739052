"""Fetching ahead: one Fetch under way to each leader while the user works on what came before.

A pass looks at all partitions, finds the positions that are missing, and sends a Fetch to every leader that has none
under way and whose partitions all have less than `max_partition_fetch_bytes` in memory. Asking for all of a leader's
partitions at once, or for none, matters: a fetch that leaves out a full partition would wait for the others' next
record, and the full one would run dry meanwhile. So a partition holds at most twice `max_partition_fetch_bytes` (and
one oversized batch, KIP-74), all together `fetch_max_bytes` and what is just arriving.

Passes are made when something has changed (`wake`), never by the clock alone. What goes wrong with one partition is
kept there and raised when its turn to be handed out comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ...protocol.primitives import ZERO_UUID
from ..errors import CorruptRecords, NoOffsetForPartition, OffsetOutOfRange
from ..metadata import NO_LEADER
from ..network.cluster import FETCH, Cluster
from ..network.log_offsets import list_offsets
from ..record import EARLIEST, LATEST, ConsumerRecord, TopicPartition
from .completed_fetch import Chunk
from .positions import PartitionState, Positions

_LAST_NAMED_VERSION = 12  # Fetch 13 goes by topic id
_OUT_OF_RANGE: set[int] = {ErrorCode.OFFSET_OUT_OF_RANGE}
# Kafka's table calls it retriable, for a follower may ask another replica; its consumer raises it, too.
_DAMAGED: set[int] = {ErrorCode.CORRUPT_MESSAGE}
RESETS = {"earliest": EARLIEST, "latest": LATEST, "none": None}


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Kafka's options of the same names; `reset` is auto_offset_reset as a timestamp, None for "none"."""

    min_bytes: int
    max_wait_ms: int
    max_bytes: int
    max_partition_bytes: int
    isolation_level: int
    check_crcs: bool
    reset: int | None


class Fetcher:
    """Keeps the chunks of `positions` filled. Run `run()` as a task; `arrived` is set when there is something to hand
    out."""

    def __init__(
        self, cluster: Cluster, positions: Positions, options: FetchOptions, clock: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._positions = positions
        self._options = options
        # Monotonic, in milliseconds.
        self._clock = clock
        self._wake = asyncio.Event()
        self.arrived = asyncio.Event()
        # Set and replaced by a new one whenever positions were found.
        self.found = asyncio.Event()
        # Leaders that have a Fetch under way or are being connected to.
        self._busy: set[int] = set()
        self._finding: asyncio.Task[None] | None = None
        cluster.listen(lambda _view: self.wake())

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        while True:
            self._wake.clear()
            wait_ms = self._pass()
            try:
                async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass  # the pause that was waited for is over

    def _pass(self) -> float | None:
        """Ask for what is missing; in how many ms a pause ends (None: there is none)."""
        now_ms = self._clock()
        leaders: dict[int, list[PartitionState]] = {}
        pauses = [state.muted_until_ms - now_ms for state in self._positions if state.muted_until_ms > now_ms]
        for state in self._positions:
            if state.muted_until_ms > now_ms:
                continue
            if state.reset is not None:
                self._find_positions()
            elif state.fetch_offset is not None and not state.paused and state.error is None:
                leader = self._cluster.leader(state.partition)
                if leader == NO_LEADER:
                    self._cluster.watch((state.partition.topic,))
                    self._cluster.refresh_soon()
                    pauses.append(self._cluster.options.retry_backoff_ms)
                else:
                    leaders.setdefault(leader, []).append(state)
        if self._buffered_bytes() < self._options.max_bytes:
            for leader, states in leaders.items():
                full = any(state.buffered_bytes >= self._options.max_partition_bytes for state in states)
                if not full and leader not in self._busy:
                    self._busy.add(leader)
                    self._cluster.spawn(self._fetch(leader, states), "fetch")
        return min(pauses, default=None)

    def _buffered_bytes(self) -> int:
        return sum(state.buffered_bytes for state in self._positions)

    # -- positions ---------------------------------------------------------------------------------

    def _find_positions(self) -> None:
        if self._finding is None or self._finding.done():
            self._finding = self._cluster.spawn(self._reset_positions(), "list offsets")

    async def _reset_positions(self) -> None:
        """Ask where the partitions to be reset shall begin."""
        states = {state.partition: (state, state.turn) for state in self._positions if state.reset is not None}
        wanted = {partition: state.reset for partition, (state, _) in states.items() if state.reset is not None}
        try:
            found = await list_offsets(self._cluster, wanted, self._options.isolation_level)
        except KafkaError as error:
            for state, turn in states.values():
                if state.turn == turn:
                    self._trouble(state, error)
        else:
            for partition, (state, turn) in states.items():
                if state.turn == turn:
                    state.move_to(found[partition].offset)
        self.wake()
        self.arrived.set()
        self.announce()

    def announce(self) -> None:
        """Wake who waits for a position."""
        self.found.set()
        self.found = asyncio.Event()

    def no_position(self, state: PartitionState) -> None:
        """There is no committed offset: reset as the options say."""
        if self._options.reset is None:
            name = f"{state.partition.topic}-{state.partition.partition}"
            state.error = NoOffsetForPartition(
                f'{name} has no committed offset, and auto_offset_reset is "none": seek()'
            )
            self.arrived.set()
        else:
            state.reset_to(self._options.reset)
        self.wake()

    # -- fetching ----------------------------------------------------------------------------------

    async def _fetch(self, leader: int, states: list[PartitionState]) -> None:
        turns = {state.partition: (state, state.turn) for state in states}
        try:
            connection = await self._cluster.connection(leader, FETCH)
            view = self._cluster.view
            named = any(view.topic_id(state.partition.topic) == ZERO_UUID for state in states)
            version = connection.version_for(FetchRequest, _LAST_NAMED_VERSION if named else None)
            answer = await connection.request(self._question(states), FetchResponse, version=version)
            if answer.error_code:
                raise KafkaError(ErrorCode.of(answer.error_code), f"{connection.address} refused a Fetch")
        except KafkaError as error:
            for state, turn in turns.values():
                if state.turn == turn:
                    self._trouble(state, error)
        else:
            for topic in answer.responses:
                name = topic.topic or view.topic_names.get(topic.topic_id, "")
                for data in topic.partitions:
                    state, turn = turns.get(TopicPartition(name, data.partition_index), (None, 0))
                    if state is not None and state.turn == turn:
                        self._take(state, data)
        finally:
            self._busy.discard(leader)
            self.wake()

    def _question(self, states: list[PartitionState]) -> FetchRequest:
        options, view = self._options, self._cluster.view
        topics: dict[str, FetchTopic] = {}
        for state in states:
            assert state.fetch_offset is not None
            name, number = state.partition
            info = view.partition(state.partition)
            entry = topics.setdefault(name, FetchTopic(topic=name, topic_id=view.topic_id(name)))
            entry.partitions.append(
                FetchPartition(
                    partition=number,
                    current_leader_epoch=-1 if info is None else info.leader_epoch,
                    fetch_offset=state.fetch_offset,
                    partition_max_bytes=options.max_partition_bytes,
                )
            )
        return FetchRequest(
            max_wait_ms=options.max_wait_ms,
            min_bytes=options.min_bytes,
            max_bytes=options.max_bytes,
            isolation_level=options.isolation_level,
            topics=list(topics.values()),
        )

    def _take(self, state: PartitionState, data: PartitionData) -> None:
        if data.error_code in _OUT_OF_RANGE:
            self._out_of_range(state)
            return
        if data.error_code in _DAMAGED:
            self._damaged(state)
            return
        if data.error_code:
            self._trouble(state, KafkaError(ErrorCode.of(data.error_code), f"fetching {state.partition} failed"))
            return
        state.failures = 0
        state.high_watermark = data.high_watermark
        state.log_start_offset = data.log_start_offset
        if data.records is None or not len(data.records):
            return
        assert state.fetch_offset is not None
        aborted = [
            (transaction.producer_id, transaction.first_offset) for transaction in data.aborted_transactions or ()
        ]
        view = memoryview(data.records)
        try:
            chunk = Chunk(state.partition, view, state.fetch_offset, aborted, check_crcs=self._options.check_crcs)
        except KafkaError as error:
            state.error = error
        else:
            state.fetch_offset = chunk.next_offset
            state.chunks.append(chunk)
        self.arrived.set()

    def _out_of_range(self, state: PartitionState) -> None:
        """Records before the position are gone, or the log was cut. What was fetched ahead is still good, so it goes
        first."""
        if state.chunks:
            state.muted_until_ms = self._clock() + self._cluster.options.retry_backoff_ms
        elif self._options.reset is None:
            name = f"{state.partition.topic}-{state.partition.partition}"
            state.error = OffsetOutOfRange(
                f'{name} has no offset {state.fetch_offset} (any more), and auto_offset_reset is "none": seek()'
            )
            self.arrived.set()
        else:
            state.reset_to(self._options.reset)

    def _damaged(self, state: PartitionState) -> None:
        """The broker cannot read what lies there. Trying again changes nothing, and silence would look like an end."""
        name = f"{state.partition.topic}-{state.partition.partition}"
        state.error = CorruptRecords(
            f"{name}: the broker cannot read what it has at offset {state.fetch_offset}: seek past it"
        )
        self.arrived.set()

    def _trouble(self, state: PartitionState, error: KafkaError) -> None:
        """Pause the partition and look for its leader, or keep the error for the user where it will not pass."""
        if not error.retriable:
            state.error = error
            self.arrived.set()
            return
        state.failures += 1
        state.muted_until_ms = self._clock() + self._cluster.backoff.pause_ms(state.failures)
        self._cluster.watch((state.partition.topic,))
        self._cluster.refresh_soon()

    # -- handing out -------------------------------------------------------------------------------

    def next_run(self, limit: int) -> tuple[PartitionState, list[ConsumerRecord]] | None:
        """At most `limit` records of one partition, whose turn it is; None where nothing is here. Raises that
        partition's error.

        The position is not moved: that is for whoever hands the records on, to `state.chunks[0].position` or less.
        """
        for state in self._positions:
            if state.paused:
                continue
            if state.error is not None and not state.chunks:
                error, state.error = state.error, None
                raise error
            records = self._records_of(state, limit)
            if records:
                return state, records
        self.arrived.clear()
        return None

    def _records_of(self, state: PartitionState, limit: int) -> list[ConsumerRecord]:
        while state.chunks:
            chunk = state.chunks[0]
            try:
                records = chunk.take(limit)
            except KafkaError:
                state.chunks.clear()
                state.fetch_offset = chunk.position
                raise
            if records:
                state.leader_epoch = chunk.leader_epoch
                return records
            state.chunks.popleft()
            self._pass_over(state, chunk.position)
            self._positions.serve_last(state)
            self.wake()
        return []

    def _pass_over(self, state: PartitionState, offset: int) -> None:
        """Control batches and holes of compaction at the end of a piece: nobody is handed these offsets."""
        if state.processed == state.position:
            state.processed = offset
        state.position = offset
