"""Takes fetched records out of the partitions, one partition after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...protocol.errors import KafkaError
from ..core.serialization import Deserializers
from ..errors import DeserializationFailed
from ..record import ConsumerRecord, TopicPartition
from .completed_fetch import CompletedFetch
from .fetched_batch import FetchedBatch
from .positions import PartitionState, Positions, Signals

T = TypeVar("T")


class FetchCollector:
    """Returns fetched records in turns: a partition whose fetched records are used up goes to the end."""

    def __init__(self, positions: Positions, signals: Signals, deserializers: Deserializers) -> None:
        self._positions = positions
        self._deserializers = deserializers
        self._signals = signals
        # Partitions whose records have to wait, because the task that works on them has enough.
        self.waits: Callable[[TopicPartition], bool] = _never

    def next_records(self, limit: int) -> tuple[PartitionState, list[ConsumerRecord[Any, Any]]] | None:
        """Return at most `limit` records of the partition whose turn it is, None if nothing is fetched.

        The caller moves `state.position` as it returns the records. Raises a partition's error once. Raises
        DeserializationFailed as long as the record is the next one: a caller that raises it calls `end_turn`.
        """
        return self._next(lambda fetch: fetch.take(limit, self._deserializers.many))

    def next_raw_records(self, limit: int) -> tuple[PartitionState, list[ConsumerRecord]] | None:
        """Do as `next_records`, but leave keys and values the bytes that they are."""
        return self._next(lambda fetch: fetch.take(limit))

    def next_batch(self) -> tuple[PartitionState, FetchedBatch] | None:
        """Return a whole batch of the partition whose turn it is; otherwise as `next_records`."""
        return self._next(CompletedFetch.take_batch)

    def end_turn(self, partition: TopicPartition) -> None:
        """Let the other partitions have their turn before this one."""
        state = self._positions.get(partition)
        if state is not None:
            self._positions.move_to_end(state)

    def _next(self, take: Callable[[CompletedFetch], T | None]) -> tuple[PartitionState, T] | None:
        # Partitions that had nothing at their turn. They had it all the same: otherwise each call would look at all of
        # them again, and with 9,000 partitions of which 100 get records, a record cost 2 ms.
        without: list[PartitionState] = []
        for state in self._positions:
            if state.paused or state.held or self._waits(state):
                without.append(state)
                continue
            if state.error is not None and not state.fetched:
                error, state.error = state.error, None
                # What is wrong may be over, or comes again: either shows with the next fetch.
                self._signals.fetch.set()
                raise error
            if not state.fetched:
                without.append(state)
                continue
            found = self._taken(state, take)
            if found:
                for each in without:
                    self._positions.move_to_end(each)
                return state, found
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
            except DeserializationFailed:
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


def _never(_partition: TopicPartition) -> bool:
    return False
