"""Record batches as a fetch brought them: for users that copy batches whole, and as columns of their records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any

from ...protocol.errors import DecodeError
from ...protocol.records.batch import BatchHeader, columns_of, iter_records, values_of
from ...protocol.records.columns import Columns
from ...protocol.records.record import Headers, Record
from ..arrow.tables import DEFAULT_COLUMNS, ArrowColumns
from ..errors import CorruptRecords
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


class RecordColumns:
    """Records of one partition by column, in the order of their offsets. A column is decoded when it is asked for.

    Raises CorruptRecords where bytes cannot be read.
    """

    def __init__(self, partition: TopicPartition, batches: Sequence[FetchedBatch]) -> None:
        self.partition = partition
        self.batches = batches

    def __len__(self) -> int:
        if all(batch.is_whole for batch in self.batches):
            return sum(batch.header.record_count for batch in self.batches)
        return len(self._columns.offsets)

    @cached_property
    def _columns(self) -> Columns:
        """All columns: what asks for a second one takes them from here."""
        columns = Columns([], [], [], [], [])
        try:
            for batch in self.batches:
                for column, more in zip(columns, batch.columns(), strict=True):
                    column += more
        except DecodeError as error:
            raise self._corrupt(error) from error
        return columns

    @cached_property
    def offsets(self) -> list[int]:
        """The offset of each record."""
        return self._columns.offsets

    @cached_property
    def timestamps_ms(self) -> list[int]:
        """The timestamp of each record, in milliseconds since 1970 UTC."""
        return self._columns.timestamps_ms

    @cached_property
    def keys(self) -> list[bytes | None]:
        """The key of each record."""
        return self._columns.keys

    @cached_property
    def values(self) -> list[bytes | None]:
        """The value of each record; alone they take a fraction of the time of whole records."""
        if "_columns" in self.__dict__ or not all(batch.is_whole for batch in self.batches):
            return self._columns.values
        try:
            return [value for batch in self.batches for value in batch.values()]
        except DecodeError as error:
            raise self._corrupt(error) from error

    @cached_property
    def headers(self) -> list[Headers]:
        """The headers of each record."""
        return self._columns.headers

    def to_arrow(self, columns: Sequence[str] = DEFAULT_COLUMNS) -> Any:
        """Return a `pyarrow.Table`. Raises InvalidOption without pyarrow, or for a column that there is not."""
        rows = sum(batch.header.record_count for batch in self.batches)
        filled = ArrowColumns(columns, self.partition, max_rows=rows)
        for data in joined(self.batches):
            filled.add(data, self.batches[0].first_offset)  # later batches begin behind it
        return filled.table()

    def _corrupt(self, error: DecodeError) -> CorruptRecords:
        topic, number = self.partition
        return CorruptRecords(f"{topic}-{number}: what was fetched cannot be read: {error}")
