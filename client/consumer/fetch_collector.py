"""Takes fetched records out of the partitions, one partition after another."""

from __future__ import annotations

from ...protocol.errors import KafkaError
from ..record import ConsumerRecord
from .positions import PartitionState, Positions
from .signals import Signals


class FetchCollector:
    """Returns fetched records in turns: a partition whose fetched records are used up goes to the end."""

    def __init__(self, positions: Positions, signals: Signals) -> None:
        self._positions = positions
        self._signals = signals

    def next_records(self, limit: int) -> tuple[PartitionState, list[ConsumerRecord]] | None:
        """Return at most `limit` records of the partition whose turn it is, None if nothing is fetched.

        The caller moves `state.position` as it returns the records. Raises a partition's error once.
        """
        for state in self._positions:
            if state.paused or state.held:
                continue
            if state.error is not None and not state.fetched:
                error, state.error = state.error, None
                # What is wrong may be over, or comes again: either shows with the next fetch.
                self._signals.wake_fetcher()
                raise error
            records = self._records_of(state, limit)
            if records:
                return state, records
        self._signals.poll.clear()
        return None

    def _records_of(self, state: PartitionState, limit: int) -> list[ConsumerRecord]:
        while state.fetched:
            fetch = state.fetched[0]
            try:
                records = fetch.take(limit)
            except KafkaError:
                state.fetched.clear()
                state.fetch_offset = fetch.position
                self._signals.wake_fetcher()
                raise
            if records:
                state.leader_epoch = fetch.leader_epoch
                return records
            state.fetched.popleft()
            _skip_to(state, fetch.position)
            self._positions.move_to_end(state)
            self._signals.wake_fetcher()
        return []


def _skip_to(state: PartitionState, offset: int) -> None:
    """Skip control batches and compacted offsets at the end of a fetch: no record has these offsets."""
    if state.processed == state.position:
        state.processed = offset
    state.position = offset
