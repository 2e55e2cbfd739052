"""The asyncio consumer as the blocking one drives it: it takes records back, and drains on a signal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..consumer import Consumer
from ..consumer.fetched_batch import FetchedBatch
from ..record import ConsumerRecord, TopicPartition


class PolledConsumer(Consumer[Any, Any]):
    """A consumer whose polls come from threads."""

    # -- Results that nobody received

    def give_back_records(self, found: Mapping[TopicPartition, Sequence[ConsumerRecord[Any, Any]]]) -> None:
        """Return these records again: the thread that polled was interrupted before it had them."""
        for partition, records in found.items():
            self._give_back(partition, records[0].offset, records[-1].offset + 1)

    def give_back_batches(self, found: Mapping[TopicPartition, Sequence[FetchedBatch]]) -> None:
        """Return these batches again."""
        for partition, batches in found.items():
            self._give_back(partition, batches[0].first_offset, batches[-1].header.next_offset)

    def give_back_record(self, record: ConsumerRecord[Any, Any]) -> None:
        """Return this record again."""
        self._give_back(TopicPartition(record.topic, record.partition), record.offset, record.offset + 1)

    def _give_back(self, partition: TopicPartition, first: int, after: int) -> None:
        state = self._positions.get(partition)
        if state is not None and state.position == after:  # otherwise sought elsewhere, or taken away
            state.move_to(first)
            self._positions_changed()

    # -- Stop

    async def stop_by_other(self, timeout_ms: float | None = None) -> None:
        """Stop for a thread that did not poll last: the one that did may still work on the records."""
        await self._close(timeout_ms)

    # -- Drain

    def begin_drain(self) -> None:
        """Have `consume` poll no more, and finish what it has."""
        if self._workers is not None:
            self._workers.halt.set()
