"""Records of one partition by column: what `Consumer.batches` returns. A column is decoded when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ...protocol.errors import DecodeError
from ...protocol.records.columns import Columns
from ...protocol.records.record import Headers
from ..arrow.tables import DEFAULT_COLUMNS, ArrowColumns
from ..errors import CorruptRecords
from ..record import TopicPartition
from .fetched_batch import FetchedBatch, joined


class RecordColumns:
    """Records in the order of their offsets. Raises CorruptRecords where bytes cannot be read."""

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
