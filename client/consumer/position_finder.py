"""Positions: those of partitions that have none, and whether the others still belong to the log that the cluster has.

A partition without a position gets the committed offset, else what `auto_offset_reset` says. `PositionFinder.reset` is
the one place that applies `auto_offset_reset`: to a partition without a committed offset, and to a position that is out
of range, was truncated, or belongs to a topic that was made again.

What follows a failed request for a partition stands here, too: a pause and a look for its leader, or an error for the
user.

Two things can put another log in the place of the one that was read, and both must be noticed before the next fetch:

- A topic was deleted and made again. Its name stays, its id is another, and its offsets begin at 0. The position is
  reset as `auto_offset_reset` says, or TopicRecreated is raised.
- A new leader lacks records that were read (KIP-320). When the leader epoch rises, the leader is asked where the epoch
  of the last read record ends (OffsetForLeaderEpoch, key 23). If that is before the position, records were truncated.
  Reading goes on where the logs diverge, or LogTruncated is raised if `auto_offset_reset` is "none".

What was fetched ahead is dropped before a check: it may be of the old log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ...protocol.primitives import ZERO_UUID
from ..core.clock import monotonic_ms
from ..core.cluster import Cluster
from ..core.leaders import list_offsets
from ..core.metadata import NO_LEADER
from ..errors import ItemsFailed, LogTruncated, NoOffsetForPartition, TopicRecreated, UnsupportedVersion
from ..record import LATEST, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from .offset_commits import Offsets
from .options import FetchOptions
from .positions import PartitionState, Positions, Signals

_log = logging.getLogger(__name__)


class PartitionRetries:
    """Mutes partitions after failed requests, with growing pauses."""

    def __init__(self, cluster: Cluster, signals: Signals) -> None:
        self._cluster = cluster
        self._signals = signals

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


class PositionFinder:
    """Moves partitions to their committed offsets, and resets positions by ListOffsets."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        committed: Offsets | None,
        options: FetchOptions,
        retries: PartitionRetries,
        signals: Signals,
    ) -> None:
        self._cluster = cluster
        self._positions = positions
        # None without a group and a store.
        self._committed = committed
        self._options = options
        self._retries = retries
        self._signals = signals
        self._resets: asyncio.Task[None] | None = None

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
            state.reset_to(self._options.reset.timestamp(), why)

    def request_resets(self) -> None:
        """Find the positions to be reset, in a task, unless one is at it."""
        if self._resets is None or self._resets.done():
            self._resets = self._cluster.spawn(self._reset_positions(), "list offsets")

    async def _reset_positions(self) -> None:
        states = {state.partition: (state, state.version) for state in self._positions if state.reset is not None}
        timestamps = {partition: state.reset for partition, (state, _) in states.items() if state.reset is not None}
        found: Mapping[TopicPartition, OffsetAndTimestamp | KafkaError]
        try:
            found = await list_offsets(self._cluster, timestamps, self._options.isolation_level)
        except ItemsFailed as error:
            found = error.results
        except KafkaError as error:
            found = dict.fromkeys(states, error)
        for partition, (state, version) in states.items():
            result = found[partition]
            if state.version != version:
                continue
            if isinstance(result, KafkaError):
                self._retries.failed(state, result)
            else:
                _take(state, result.offset)
        self._signals.positions_changed()


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


_CONSUMER = -1
_UNDEFINED = -1


class PositionChecks:
    """Compares positions with topic ids and leader epochs in the cluster's metadata."""

    def __init__(self, cluster: Cluster, finder: PositionFinder, retries: PartitionRetries, signals: Signals) -> None:
        self._cluster = cluster
        self._finder = finder
        self._retries = retries
        self._signals = signals
        # Leader -> the request to it that is under way.
        self._requests: dict[int, asyncio.Task[None]] = {}

    # -- Topic ids

    def check_topic(self, state: PartitionState) -> None:
        """Reset a position that was found in another topic of the same name, or keep the error for the user."""
        current = self._cluster.view.topic_id(state.partition.topic)
        if state.position is None or current in (ZERO_UUID, state.topic_id):
            return
        if state.topic_id is None:
            state.topic_id = current
            return
        if state.error is not None and self._finder.never_resets:
            return  # the next poll raises it
        state.rewind()
        text = f"{state}: the topic was deleted and made again"
        why = f'{text} after offset {state.position}, and auto_offset_reset is "none": seek() to go on'
        self._finder.reset(state, text, TopicRecreated(why, state.partition, state.position))

    # -- Leader epochs

    def is_due(self, state: PartitionState) -> bool:
        """Whether the leader has changed since the position was last known to be in its log."""
        info = self._cluster.view.partition(state.partition)
        if state.position is None or info is None or info.leader_epoch <= state.checked_epoch:
            return False
        if state.leader_epoch >= 0:
            return True
        # No record was read yet: there is nothing to compare, but what was fetched ahead may be gone.
        if state.fetched:
            state.rewind()
        state.checked_epoch = info.leader_epoch
        return False

    def request(self, states: Sequence[PartitionState]) -> None:
        """Ask the leaders of these partitions where the epochs of their positions end, without waiting for it."""
        leaders: dict[int, list[PartitionState]] = {}
        for state in states:
            leader = self._cluster.leader(state.partition)
            if leader == NO_LEADER:
                self._cluster.refresh_leader(state.partition)
                self._retries.mute(state)
            elif leader not in self._requests:
                leaders.setdefault(leader, []).append(state)
        for leader, led in leaders.items():
            for state in led:
                state.rewind()
            task = self._cluster.spawn(self._check(leader, led), "check positions")
            self._requests[leader] = task
            task.add_done_callback(lambda _, leader=leader: self._done(leader))

    def _done(self, leader: int) -> None:
        del self._requests[leader]
        self._signals.fetch.set()

    async def _check(self, leader: int, states: Sequence[PartitionState]) -> None:
        # The task begins later than it was asked for: a position may have been reset meanwhile.
        states = [state for state in states if state.position is not None]
        versions = {state.partition: (state, state.version) for state in states}
        view = self._cluster.view
        epochs = {
            state.partition: info.leader_epoch
            for state in states
            if (info := view.partition(state.partition)) is not None
        }
        try:
            request = _request(states, epochs)
            response = await self._cluster.request(leader, request, OffsetForLeaderEpochResponse)
        except UnsupportedVersion:
            # A broker before Kafka 2.1: nothing can be checked.
            for state in states:
                state.checked_epoch = epochs.get(state.partition, -1)
        except KafkaError as error:
            for state, version in versions.values():
                if state.version == version:
                    self._retries.failed(state, error)
        else:
            for partition, found in _results(response):
                state, version = versions.get(partition, (None, 0))
                if state is not None and state.version == version:
                    self._take(state, found, epochs[partition])

    def _take(self, state: PartitionState, found: EpochEndOffset, current_epoch: int) -> None:
        position = state.position
        assert position is not None
        if found.error_code:
            code = ErrorCode.of(found.error_code)
            self._retries.failed(state, KafkaError(code, f"checking the position in {state}: {code.text}"))
            return
        self._retries.succeeded(state)
        if found.leader_epoch != _UNDEFINED and found.end_offset >= position:
            state.checked_epoch = current_epoch
            return
        self._diverged(state, position, found, current_epoch)

    def _diverged(self, state: PartitionState, position: int, found: EpochEndOffset, current_epoch: int) -> None:
        """Go on where the leader's log and the one that was read diverge, or keep the error for the user."""
        diverged_at = None if found.leader_epoch == _UNDEFINED else found.end_offset
        known = "" if diverged_at is None else f" from offset {diverged_at} on"
        text = f"{state}: the leader has lost records{known} that were read up to offset {position}"
        if diverged_at is None or self._finder.never_resets:
            why = f'{text}, and auto_offset_reset is "none": seek() to go on'
            self._finder.reset(state, text, LogTruncated(why, state.partition, position, diverged_at))
        else:
            _log.warning("%s: reset from offset %d to offset %d: %s", state, position, diverged_at, text)
            state.move_to(diverged_at, found.leader_epoch)
            state.checked_epoch = current_epoch
            self._signals.positions_changed()


def _request(states: Sequence[PartitionState], epochs: dict[TopicPartition, int]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for state in states:
        name, number = state.partition
        topics.setdefault(name, OffsetForLeaderTopic(topic=name)).partitions.append(
            OffsetForLeaderPartition(
                partition=number,
                current_leader_epoch=epochs.get(state.partition, -1),
                leader_epoch=state.leader_epoch,
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))


def _results(response: OffsetForLeaderEpochResponse) -> Iterator[tuple[TopicPartition, EpochEndOffset]]:
    for topic in response.topics:
        for each in topic.partitions:
            yield TopicPartition(topic.topic, each.partition), each
