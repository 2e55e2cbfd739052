"""The user's blocking code that a consumer calls: listeners of rebalances and stores of offsets, in threads.

They run beside the event loop, so they may block, and may call the blocking clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Protocol

from ..record import OffsetAndMetadata, TopicPartition


class RebalanceListener(Protocol):
    """Called in a thread when partitions come and go. `on_partitions_revoked` can still commit offsets.

    If a method raises, the consumer leaves the group, and every poll raises ListenerFailed until the topics are
    subscribed again.
    """

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """These partitions are about to be given up."""
        ...

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """These partitions are new."""
        ...

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """Other members have these partitions already; a commit would fail."""
        ...


class ThreadedListener:
    """A blocking listener as the asyncio consumer calls it: in threads."""

    def __init__(self, listener: RebalanceListener) -> None:
        self._listener = listener

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        await asyncio.to_thread(self._listener.on_partitions_revoked, partitions)

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        await asyncio.to_thread(self._listener.on_partitions_assigned, partitions)

    async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        await asyncio.to_thread(self._listener.on_partitions_lost, partitions)


class OffsetStore(Protocol):
    """Keeps offsets for a consumer. What a method raises reaches the user as OffsetStoreFailed."""

    def load(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int | OffsetAndMetadata | None]:
        """Return the offset of the next record to read in each partition; None, or no entry, if there is none."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Keep the offsets of the next records to read. They must survive when this returns."""
        ...


class ThreadedOffsetStore:
    """A blocking store for the option `offset_store`: `Consumer(offset_store=ThreadedOffsetStore(store))`."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store

    async def load(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | OffsetAndMetadata | None]:
        """Call the store in a thread."""
        return await asyncio.to_thread(self._store.load, partitions)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Call the store in a thread."""
        await asyncio.to_thread(self._store.commit, offsets)
