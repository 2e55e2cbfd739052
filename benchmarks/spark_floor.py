"""What Spark itself costs where a source or a sink is Python: no source reads faster than one that has its rows ready.

The source `floor` repeats one Arrow batch, of values or of all columns of a topic, and the sink `floor` drops its rows.
`make bench-spark` prints them beside the figures of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from odradek.client.spark.columns import Column, columns_of, default_ddl
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
    """Ready rows of the columns of a schema, and a sink for any. Options: `rows`, `valueBytes`, `partitions`."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def schema(self) -> str:
        return "value binary"

    def reader(self, schema: Any) -> FloorReader:
        return FloorReader(
            columns_of(schema), *(int(self.options[name]) for name in ("rows", "valueBytes", "partitions"))
        )

    def writer(self, schema: Any, overwrite: bool) -> FloorWriter:
        return FloorWriter()


class FloorReader(DataSourceReader):
    """Repeats one Arrow batch in each partition."""

    def __init__(self, columns: tuple[Column, ...], rows: int, value_bytes: int, partitions: int) -> None:
        self._columns = columns
        self._rows = rows // partitions
        self._value_bytes = value_bytes
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import pyarrow as pa
        from odradek.client.spark.rows import arrow_schema

        cells = {"key": b"%08d" % 0, "value": bytes(self._value_bytes), "topic": "spark-read-topic"}
        schema = arrow_schema(self._columns)
        arrays = [pa.array([cells.get(field.name, partition.value)] * _BATCH_ROWS, field.type) for field in schema]
        batch = pa.record_batch(arrays, schema=schema)
        for left in range(self._rows, 0, -_BATCH_ROWS):
            yield batch.slice(0, left)


# The columns of a read without `.schema(...)`.
ALL_COLUMNS = default_ddl(include_headers=False)


class FloorWriter(DataSourceArrowWriter):
    """Takes rows and drops them."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
