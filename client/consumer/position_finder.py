"""Positions of partitions that have none: the committed offset, else what `auto_offset_reset` says.

`PositionFinder.reset` is the one place that applies `auto_offset_reset`: to a partition without a committed offset, and
to a position that is out of range, was truncated, or belongs to a topic that was made again.

What follows a failed request for a partition stands here, too: a pause and a look for its leader, or an error for the
user.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...protocol.errors import ErrorCode, KafkaError
from ..core.clock import monotonic_ms
from ..core.cluster import Cluster
from ..core.leaders import list_offsets
from ..errors import BadResponse, ItemsFailed, NoOffsetForPartition, UnknownTopic
from ..record import LATEST, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from .offset_commits import Offsets
from .options import FetchOptions
from .positions import PartitionState, Signals

_log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class PartitionRetries:
    """Mutes partitions after failed requests, with growing pauses."""

    _cluster: Cluster
    _signals: Signals

    def failed(self, state: PartitionState, error: KafkaError) -> None:
        """Mute the partition and look for its leader; keep the error for the user if it is not retriable."""
        if not error.retriable:
            self.keep_error(state, error)
            return
        state.failures += 1
        _log.debug("%s: attempt %d failed: %s", state, state.failures, error)
        self._cluster.retries.failed(state, error)
        state.muted_until_ms = monotonic_ms() + self._cluster.backoff.pause_ms(state.failures)
        self._cluster.refresh_leader(state.partition)

    def succeeded(self, state: PartitionState) -> None:
        """Begin with the shortest pause again."""
        state.failures = 0
        self._cluster.retries.done(state)

    def mute(self, state: PartitionState) -> None:
        """Leave the partition alone for the shortest pause."""
        state.muted_until_ms = monotonic_ms() + self._cluster.options.retry_backoff_ms

    def keep_error(self, state: PartitionState, error: KafkaError) -> None:
        """Have the next poll, and calls that wait for the position, raise `error`."""
        state.error = error
        self._cluster.retries.done(state)
        self._signals.positions_changed()


@dataclass(eq=False, repr=False)
class LeaderTasks:
    """One task at a time for each leader, as for partitions without one: one that is away holds no other up."""

    _cluster: Cluster
    _signals: Signals
    _name: str
    _work: Callable[[int, Sequence[PartitionState]], Coroutine[Any, Any, None]]
    _busy: set[int] = field(default_factory=set[int])

    def begin(self, states: Iterable[PartitionState]) -> None:
        """Begin the work for partitions whose leaders have none."""
        leaders: dict[int, list[PartitionState]] = {}
        for state in states:
            leaders.setdefault(self._cluster.leader(state.partition), []).append(state)
        for leader in leaders.keys() - self._busy:
            self._busy.add(leader)
            self._cluster.spawn(self._do(leader, leaders[leader]), self._name)

    async def _do(self, leader: int, states: Sequence[PartitionState]) -> None:
        try:
            await self._work(leader, states)
        finally:
            self._busy.discard(leader)
            self._signals.fetch.set()


@dataclass(eq=False, repr=False)
class PositionFinder:
    """Moves partitions to their committed offsets, and resets positions by ListOffsets."""

    _cluster: Cluster
    # None without a group and a store.
    _committed: Offsets | None
    _options: FetchOptions
    _retries: PartitionRetries
    _signals: Signals

    def __post_init__(self) -> None:
        self.resets = LeaderTasks(self._cluster, self._signals, "list offsets", self._reset_positions)

    # -- Committed offsets

    @property
    def has_offsets(self) -> bool:
        """Whether there are committed offsets to ask for: those of a group or of a store."""
        return self._committed is not None

    async def find(self, states: Iterable[PartitionState]) -> None:
        """Move partitions without a position to their committed offsets; reset those that have none.

        Raises KafkaError.
        """
        versions = {
            state.partition: (state, state.version)
            for state in states
            if state.position is None and state.reset is None
        }
        committed: Mapping[TopicPartition, OffsetAndMetadata | None] = {}
        if self._committed is not None and versions:
            committed = await self._committed.fetch(versions.keys())
        for partition, (state, version) in versions.items():
            offset = committed.get(partition)
            if state.version != version:
                continue  # the user has sought meanwhile
            if offset is None:
                self.begin(state)
            else:
                state.move_to(offset.offset, offset.leader_epoch)
                state.committed = offset.offset
        self._signals.positions_changed()

    async def find_for_polls(self, states: Collection[PartitionState]) -> None:
        """Do as `find`. The next poll, and calls that wait for a position, raise its error."""
        try:
            await self.find(states)
        except KafkaError as error:
            for state in states:
                self._retries.keep_error(state, error)

    # -- Resets

    @property
    def never_resets(self) -> bool:
        """Whether `auto_offset_reset` is "none"."""
        return self._options.reset is None

    def begin(self, state: PartitionState) -> None:
        """Begin in a partition without a committed offset."""
        none = NoOffsetForPartition(f'{state} has no committed offset, and auto_offset_reset is "none": seek()')
        self.reset(state, "there is no committed offset", none)
        self._signals.fetch.set()

    def reset(self, state: PartitionState, why: str, error: KafkaError) -> None:
        """Reset a position as `auto_offset_reset` says. Where it says "none", the next poll raises `error`."""
        if self._options.reset is None:
            self._retries.keep_error(state, error)
        else:
            state.reset_to(self._options.reset(), why)

    async def _reset_positions(self, _leader: int, waiting: Sequence[PartitionState]) -> None:
        timestamps = {state.partition: state.reset for state in waiting if state.reset is not None}
        states = [(state, state.version) for state in waiting if state.partition in timestamps]
        found = await self._offsets(timestamps)
        for state, version in states:
            result = found[state.partition]
            if state.version != version:
                continue
            if isinstance(result, UnknownTopic) and state.reset_from is not None:
                # It was there: its topic was made again with fewer partitions, and may get more.
                result = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, result.message)
            if not isinstance(result, KafkaError) and result.offset < 0 and timestamps[state.partition] < 0:
                result = BadResponse(f"{state}: its leader says that its log has no begin or no end")
            if isinstance(result, KafkaError):
                self._retries.failed(state, result)
            else:
                _take(state, result.offset)
        self._signals.positions_changed()

    async def _offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, OffsetAndTimestamp | KafkaError]:
        """Return the offset of each partition, or its error. One that is not there keeps no other from its own."""
        try:
            return await list_offsets(self._cluster, timestamps, self._options.isolation_level)
        except ItemsFailed as error:
            return error.results
        except KafkaError as error:
            failed: dict[TopicPartition, OffsetAndTimestamp | KafkaError] = dict.fromkeys(timestamps, error)
            view = self._cluster.view
            there = {each: time_ms for each, time_ms in timestamps.items() if view.partition(each) is not None}
            if isinstance(error, UnknownTopic) and 0 < len(there) < len(timestamps):
                failed.update(await self._offsets(there))
            return failed


def _take(state: PartitionState, offset: int) -> None:
    """Move to the offset that a reset has found."""
    if offset < 0:
        # No record is as young as the reset wants: records from now on.
        state.reset_to(LATEST, state.reset_why, state.reset_from)
        return
    if state.reset_why:
        before = "no position" if state.reset_from is None else f"offset {state.reset_from}"
        _log.info("%s: reset from %s to offset %d: %s", state, before, offset, state.reset_why)
    state.move_to(offset)
