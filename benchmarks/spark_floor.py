"""What Spark itself costs where a source or a sink is Python: no source reads faster than one that has its rows ready.

The source `floor` repeats one Arrow batch of values, and the sink `floor` drops what it is given. `make bench-spark`
prints both beside the figures of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

# As many as the source's own batches have.
_BATCH_ROWS = 32_768


class FloorSource(DataSource):
    """Ready rows, and a sink for any. Options of a read: `rows`, `valueBytes`, `partitions`."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def schema(self) -> str:
        return "value binary"

    def reader(self, schema: Any) -> FloorReader:
        return FloorReader(*(int(self.options[name]) for name in ("rows", "valueBytes", "partitions")))

    def writer(self, schema: Any, overwrite: bool) -> FloorWriter:
        return FloorWriter()


class FloorReader(DataSourceReader):
    """Repeats one Arrow batch in each partition."""

    def __init__(self, rows: int, value_bytes: int, partitions: int) -> None:
        self._rows = rows // partitions
        self._value_bytes = value_bytes
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import pyarrow as pa

        batch = pa.record_batch({"value": pa.array([bytes(self._value_bytes)] * _BATCH_ROWS, pa.binary())})
        for left in range(self._rows, 0, -_BATCH_ROWS):
            yield batch.slice(0, left)


class FloorWriter(DataSourceArrowWriter):
    """Takes rows and drops them."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
