"""A record batch as a fetch brought it, for users that copy batches whole or need only their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import compress

from ...protocol.records.batch import BatchHeader, columns_of, iter_records, values_of
from ...protocol.records.columns import Columns
from ...protocol.records.record import Record
from ..record import TopicPartition


@dataclass(frozen=True, slots=True)
class FetchedBatch:
    """One batch. `data` is its bytes, whose CRC was checked. Records below `first_offset` were not asked for."""

    partition: TopicPartition
    header: BatchHeader
    data: memoryview
    first_offset: int
    # The fetched bytes that `data` is a part of, and where it begins there. None where it is no part of them.
    source: memoryview | None = field(default=None, repr=False, compare=False)
    at: int = field(default=0, repr=False, compare=False)

    @property
    def is_whole(self) -> bool:
        """Whether every record of the batch was asked for."""
        return self.header.base_offset >= self.first_offset

    def records(self) -> Iterator[Record]:
        """Yield the records from `first_offset` on. Raises RecordError."""
        for record in iter_records(self.data, 0, self.header, check=False):
            if record.offset >= self.first_offset:
                yield record

    def columns(self) -> Columns:
        """Return the records from `first_offset` on by column. Raises RecordError."""
        columns = columns_of(self.data, 0, self.header, check=False)
        if self.is_whole:
            return columns
        wanted = [offset >= self.first_offset for offset in columns.offsets]
        return Columns._make(list(compress(column, wanted)) for column in columns)

    def values(self) -> list[bytes | None]:
        """Return the values of all records of the batch, much faster than the records. Raises RecordError."""
        return values_of(self.data, 0, self.header)


def joined(batches: Iterable[FetchedBatch]) -> Iterator[memoryview]:
    """Yield the bytes of batches; those that lie one behind another in a fetch as one piece.

    A kernel reads a large piece much faster than many batches, each with its call.
    """
    source, begin, end = memoryview(b""), 0, 0
    for batch in batches:
        its_source = batch.data if batch.source is None else batch.source
        if its_source is not source or batch.at != end:
            if end > begin:
                yield source[begin:end]
            source, begin = its_source, batch.at
        end = batch.at + len(batch.data)
    if end > begin:
        yield source[begin:end]
