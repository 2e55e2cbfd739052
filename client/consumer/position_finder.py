"""Finds positions for partitions that have none: the committed offset, else what `auto_offset_reset` says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

from ...protocol.errors import KafkaError
from ..core.cluster import Cluster
from ..core.log_offsets import list_offsets
from ..errors import ItemsFailed, NoOffsetForPartition
from ..record import LATEST, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from .offset_store import Offsets
from .options import FetchOptions
from .partition_retries import PartitionRetries
from .positions import PartitionState, Positions
from .signals import Signals

_log = logging.getLogger(__name__)


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
        # None without a group.
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
                self.reset(state)
            else:
                state.move_to(offset.offset, offset.leader_epoch)
                state.committed = offset.offset
        self._signals.wake_fetcher()
        self._signals.positions_changed()

    def keep_error(self, states: Sequence[PartitionState], error: KafkaError) -> None:
        """Have the next poll, and calls that wait for a position, raise `error`."""
        for state in states:
            state.error = error
        self._signals.wake_poll()
        self._signals.positions_changed()

    # -- Resets

    def reset(self, state: PartitionState) -> None:
        """Reset a partition without a committed offset as `auto_offset_reset` says."""
        if self._options.reset is None:
            text = f'{state} has no committed offset, and auto_offset_reset is "none": seek()'
            self._retries.keep_error(state, NoOffsetForPartition(text))
        else:
            state.reset_to(self._options.reset.timestamp(), "there is no committed offset")
        self._signals.wake_fetcher()

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
                self._take(state, result.offset)
        self._signals.wake_fetcher()
        self._signals.wake_poll()
        self._signals.positions_changed()

    def _take(self, state: PartitionState, offset: int) -> None:
        if offset < 0:
            # No record is as young as the reset wants: records from now on.
            state.reset_to(LATEST, state.reset_why, state.reset_from)
        else:
            _log_reset(state, offset)
            state.move_to(offset)


def _log_reset(state: PartitionState, offset: int) -> None:
    if state.reset_why:
        before = "no position" if state.reset_from is None else f"offset {state.reset_from}"
        _log.info("%s: reset from %s to offset %d: %s", state, before, offset, state.reset_why)
