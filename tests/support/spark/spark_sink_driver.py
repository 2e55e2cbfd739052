"""A driver of Spark that copies a topic exactly once, and stops at named points: see sink_chaos.py.

    python -m odradek.tests.support.spark.spark_sink_driver ADDRESS FOLDER

Its source and sink are ours. The sink is wrapped, so that its tasks and its driver reach points (pause_points.py):

    ready          the driver has its session, and begins when it is wanted
    rows           a task has its rows, and has written none
    written        a task has written all; its transaction is open
    to commit      the driver is about to commit
    committed      the driver has committed; Spark has not noted the batch as complete
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.client.spark.progress import BATCH_ID
from odradek.client.spark.source import OdradekSource
from odradek.client.spark.writers import TopicWriter
from odradek.tests.support.brokers.pause_points import reach
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SOURCE, TARGET = "source", "target"
# Two partitions have half of them each, so that a batch has two tasks.
BATCH_ROWS = 60


class PausingSource(OdradekSource):
    """Our source and sink, with points."""

    @classmethod
    def name(cls) -> str:
        return "odradek-pausing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        writer = super().streamWriter(schema, overwrite)
        return PausingWriter(writer._options, writer._columns, is_stream=True)  # type: ignore[attr-defined]


class PausingWriter(TopicWriter):
    """The writer of a stream, with points."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty(BATCH_ID) or -1)
        rows = list(iterator)
        reach("rows", batch)
        message = super().write(iter(rows))
        reach("written", batch)
        return message

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int | None = None) -> None:
        assert batchId is not None
        reach("to commit", batchId)
        super().commit(messages, batchId)
        reach("committed", batchId)


def main(address: str, folder: str) -> None:
    """Copy what the topic has, and end."""
    from odradek.tests.support.spark.spark_topics import session

    spark = session(str(Path(folder, "warehouse")), **{"spark.master": "local[2, 4]"})
    spark.dataSource.register(PausingSource)
    reader = spark.readStream.format("odradek").option("kafka.bootstrap.servers", address).option("subscribe", SOURCE)
    frame = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", str(BATCH_ROWS)).load()
    rows = frame.selectExpr("concat(partition, ':', offset) AS value", "value AS key")
    writer = rows.writeStream.format("odradek-pausing").option("kafka.bootstrap.servers", address)
    writer = writer.option("topic", TARGET).option("transactional", "required")
    writer = writer.option("checkpointLocation", str(Path(folder, "checkpoint")))
    reach("ready", -1)
    writer.trigger(availableNow=True).start().awaitTermination()
    # The test kills the JVM. In an orderly end it would delete folders for seconds.
    os._exit(0)


if __name__ == "__main__":
    # Workers import the classes by the module's name.
    from odradek.tests.support.spark import spark_sink_driver

    spark_sink_driver.main(*sys.argv[1:])
