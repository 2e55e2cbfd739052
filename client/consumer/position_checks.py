"""Checks that positions still belong to the log that the cluster has.

Two things can put another log in the place of the one that was read, and both must be noticed before the next fetch:

- A topic was deleted and made again. Its name stays, its id is another, and its offsets begin at 0. The position is
  reset as `auto_offset_reset` says, or TopicRecreated is raised.
- A new leader lacks records that were read (KIP-320). When the leader epoch rises, the leader is asked where the epoch
  of the last read record ends (OffsetForLeaderEpoch, key 23). If that is before the position, records were truncated.
  Reading goes on where the logs diverge, or LogTruncated is raised if `auto_offset_reset` is "none".

What was fetched ahead is dropped before a check: it may be of the old log.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ...protocol.primitives import ZERO_UUID
from ..core.cluster import Cluster
from ..core.leaders import rows_in
from ..core.metadata import NO_LEADER
from ..errors import LogTruncated, TopicRecreated, UnsupportedVersion, answered
from ..record import TopicPartition
from .position_finder import LeaderTasks, PartitionRetries, PositionFinder
from .positions import PartitionState, Signals

_log = logging.getLogger(__name__)

_CONSUMER = -1
_UNDEFINED = -1


@dataclass(eq=False, repr=False)
class PositionChecks:
    """Compares positions with topic ids and leader epochs in the cluster's metadata."""

    _cluster: Cluster
    _finder: PositionFinder
    _retries: PartitionRetries
    _signals: Signals

    def __post_init__(self) -> None:
        self.requests = LeaderTasks(self._cluster, self._signals, "check positions", self._check)

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

    async def _check(self, leader: int, waiting: Sequence[PartitionState]) -> None:
        """Ask the leader of these partitions where the epochs of their positions end."""
        # The task begins later than it was asked for: a position may have been reset meanwhile.
        states = [state for state in waiting if state.position is not None]
        if leader == NO_LEADER:
            for state in states:
                self._cluster.refresh_leader(state.partition)
                self._retries.mute(state)
            return
        for state in states:
            state.rewind()
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
            for partition, found in answered(versions, rows_in(response)).items():
                state, version = versions[partition]
                if state.version != version:
                    continue
                if isinstance(found, KafkaError):
                    self._retries.failed(state, found)
                else:
                    self._take(state, found, epochs.get(partition, -1))

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
                partition=number, current_leader_epoch=epochs.get(state.partition, -1), leader_epoch=state.leader_epoch
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))
