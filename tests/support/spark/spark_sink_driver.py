"""A driver of Spark that copies a topic exactly once, and stops at named points: see sink_chaos.py.

    python -m odradek.tests.support.spark.spark_sink_driver ADDRESS FOLDER

Its source and sink are ours. The sink is wrapped, so that its tasks and its driver reach points (pause_points.py):

    ready          the driver has its session, and begins when it is wanted
    rows           a task has its rows, and has written none
    written        a task has written all; its transaction is open
    to commit      the driver is about to commit
    committed      the driver has committed; Spark has not noted the batch as complete

The environment names a bug that is planted into the sink (BUG), "none" for none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.client.spark import sink, writers
from odradek.client.spark.options import SinkOptions
from odradek.client.spark.progress import BATCH_ID
from odradek.client.spark.source import OdradekSource
from odradek.client.spark.writers import StreamWriter
from odradek.tests.support.brokers.pause_points import reach
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SOURCE, TARGET = "source", "target"
# Two partitions have half of them each, so that a batch has two tasks.
BATCH_ROWS = 60
BUG = "ODRADEK_TEST_SINK_BUG"
_planted: list[str] = []


class PausingSource(OdradekSource):
    """Our source and sink, with points."""

    @classmethod
    def name(cls) -> str:
        return "odradek-pausing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        plant()
        writer = super().streamWriter(schema, overwrite)
        return PausingWriter(writer._options, writer._columns)  # type: ignore[attr-defined]


class PausingWriter(StreamWriter):
    """The writer of a stream, with points."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        plant()
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty(BATCH_ID) or -1)
        rows = list(iterator)
        reach("rows", batch)
        message = super().write(iter(rows))
        reach("written", batch)
        return message

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        reach("to commit", batchId)
        super().commit(messages, batchId)
        reach("committed", batchId)


# -- Planted bugs


def plant() -> None:
    """Plant the bug into this process, once."""
    if not _planted:
        _planted.append(os.environ[BUG])
        BUGS[os.environ[BUG]]()


def skip_the_fence() -> None:
    """Name each run of the query as a query of its own: the broker does not know a batch that comes again."""
    true = writers.join

    async def wrong(place: Any, options: SinkOptions) -> Any:
        return await true(_unfenced(place), options)

    writers.join = wrong
    true_end = writers.end

    def wrong_end(results: Sequence[Any], options: SinkOptions, *, commit: bool) -> bool:
        return true_end([replace(each, place=_unfenced(each.place)) for each in results], options, commit=commit)

    writers.end = wrong_end


def _unfenced(place: Any) -> Any:
    return place and replace(place, query_id=f"{place.query_id} {place.run_id}")


def commit_twice() -> None:
    """Have each task commit its own transaction, before the driver commits the batch."""

    class Committed(sink.Producer):
        def transaction(self) -> Any:
            return _CommittedScope(super().transaction())

    sink.Producer = Committed  # type: ignore[misc]


class _CommittedScope:
    """The scope of a transaction that is committed at its end, and says that there was none."""

    def __init__(self, scope: Any) -> None:
        self._scope = scope

    async def __aenter__(self) -> Any:
        await self._scope.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._scope.__aexit__(*error)

    async def hand_over(self) -> None:
        return None


def write_again() -> None:
    """Write a batch that was committed before at least once all the same."""
    true = writers.join

    async def wrong(place: Any, options: SinkOptions) -> Any:
        joined = await true(place, options)
        return None if joined is not None and joined.transactional_id is None else joined

    writers.join = wrong


def none() -> None:
    """Plant nothing."""


BUGS: dict[str, Callable[[], None]] = {
    each.__name__.replace("_", "-"): each for each in (none, skip_the_fence, commit_twice, write_again)
}


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
