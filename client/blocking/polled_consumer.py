"""The asyncio consumer as the blocking one drives it: it takes records back, and drains on a signal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..consumer import Consumer
from ..consumer.fetched_batch import FetchedBatch
from ..consumer.session import Session
from ..consumer.workers import unless
from ..errors import ClientStopped
from ..record import ConsumerRecord, TopicPartition

T = TypeVar("T")


class PolledConsumer(Consumer[Any, Any]):
    """A consumer whose polls come from threads."""

    # Set on a signal while `consume` runs: polls end.
    _drain: asyncio.Event | None = None

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
        if self._drain is not None:
            self._drain.set()

    def expect_drain(self) -> bool:
        """Have polls end at the drain; False if they do already, for another call of `consume`."""
        if self._drain is not None:
            return False
        self._drain = asyncio.Event()
        return True

    def end_drain(self) -> None:
        """Have polls go on as always."""
        self._drain = None

    async def _poll(
        self, timeout_ms: float, collect: Callable[[Session], dict[TopicPartition, list[T]]]
    ) -> dict[TopicPartition, list[T]]:
        drain = self._drain
        if drain is None:
            return await super()._poll(timeout_ms, collect)
        found = await unless(drain, super()._poll(timeout_ms, collect))
        if not found and drain.is_set():
            raise ClientStopped("the consumer finishes what it has polled, and polls no more")
        return found or {}
