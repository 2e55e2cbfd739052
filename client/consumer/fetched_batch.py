"""A record batch as a fetch brought it, for users that copy batches whole or need only their values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...protocol.records.batch import BatchHeader, iter_records, values_of
from ...protocol.records.record import Record
from ..record import TopicPartition


@dataclass(frozen=True, slots=True)
class FetchedBatch:
    """One batch. `data` is its bytes, whose CRC was checked. Records below `first_offset` were not asked for."""

    partition: TopicPartition
    header: BatchHeader
    data: memoryview
    first_offset: int

    @property
    def is_whole(self) -> bool:
        """Whether every record of the batch was asked for."""
        return self.header.base_offset >= self.first_offset

    def records(self) -> Iterator[Record]:
        """Yield the records from `first_offset` on. Raises RecordError."""
        for record in iter_records(self.data, 0, self.header, check=False):
            if record.offset >= self.first_offset:
                yield record

    def values(self) -> list[bytes | None]:
        """Return the values of all records of the batch, much faster than the records. Raises RecordError."""
        return values_of(self.data, 0, self.header)
