"""Offset stores: where a consumer keeps its offsets if not in its group, such as in the database that it writes to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from ...protocol.errors import KafkaError
from ..core.committed_offsets import Generation
from ..core.task_ends import of_the_user
from ..errors import OffsetStoreFailed
from ..record import OffsetAndMetadata, TopicPartition


class OffsetStore(Protocol):
    """Keeps offsets for a consumer. What a method raises reaches the user as OffsetStoreFailed.

    A group does not protect a store: a member that was thrown out may still commit. A store that several consumers
    share compares offsets, or fences old writers itself.
    """

    async def load(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | OffsetAndMetadata | None]:
        """Return the offset of the next record to read in each partition; None, or no entry, if there is none."""
        ...

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Keep the offsets of the next records to read. They must survive when this returns."""
        ...


class Offsets(Protocol):
    """Where a consumer loads and commits offsets: a group's coordinator, or a store."""

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        generation: Generation,
        read: Mapping[TopicPartition, bytes] | None = None,
    ) -> None:
        """Commit offsets. `read` has the ids of the topics whose records were read, if known. Raises KafkaError."""
        ...

    async def fetch(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of each partition, None if it has none. Raises KafkaError."""
        ...


class StoredOffsets:
    """A user's store in the place of the group's offsets. An `Offsets`."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        generation: Generation,
        read: Mapping[TopicPartition, bytes] | None = None,
    ) -> None:
        """Commit offsets. Raises OffsetStoreFailed."""
        try:
            await of_the_user(self._store.commit(offsets))
        except KafkaError:
            raise
        except Exception as error:
            raise OffsetStoreFailed(f"the offset store did not take the commit: {error!r}") from error

    async def fetch(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the offsets that the store has. Raises OffsetStoreFailed."""
        try:
            found = await of_the_user(self._store.load(partitions))
        except KafkaError:
            raise
        except Exception as error:
            raise OffsetStoreFailed(f"the offset store did not give the offsets: {error!r}") from error
        return {partition: as_offset(found.get(partition)) for partition in partitions}


def as_offset(offset: int | OffsetAndMetadata | None) -> OffsetAndMetadata | None:
    """Return an offset with its metadata, if it has any."""
    return OffsetAndMetadata(offset) if isinstance(offset, int) else offset
