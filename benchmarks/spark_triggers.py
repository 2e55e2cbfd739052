"""What a batch of a stream costs where there is next to nothing to read, beside a Python source that reads nothing.

A stream reads one record of each partition in each batch. Spark's own part (logs of the checkpoint, planning, two
tasks, Python workers) is in both figures, so their ratio says what a source adds. `make bench-spark` prints it.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

BATCHES = 40
# The first batches warm Spark up.
_WARM = 10
_ROUNDS = 2


class EmptySource(DataSource):
    """A source of so many batches without rows. Options: `partitions`."""

    @classmethod
    def name(cls) -> str:
        return "empty"

    def schema(self) -> str:
        return "value binary"

    def streamReader(self, schema: Any) -> EmptyReader:
        return EmptyReader(int(self.options["partitions"]))


class EmptyReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Has another offset at each trigger, and no row."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def initialOffset(self) -> dict[str, Any]:
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return {"batch": min(start["batch"] + 1, BATCHES)}

    def reportLatestOffset(self) -> dict[str, Any]:
        return {"batch": BATCHES}

    def prepareForTriggerAvailableNow(self) -> None:
        """Do nothing: the end is known."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return iter(())

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing."""


def measured(spark: Any, name: str, options: dict[str, str], partitions: int) -> tuple[float, float]:
    """Return the median seconds of a batch of source `name`, and of the empty source, in turns."""
    spark.dataSource.register(EmptySource)
    named: list[float] = []
    empty: list[float] = []
    # Spark grows faster from query to query: each source comes as early as the other.
    for number in range(_ROUNDS):
        for turn in (number % 2, 1 - number % 2):
            if turn:
                reader = spark.readStream.format(name).options(**options).option("startingOffsets", "earliest")
                named += _seconds(reader.option("maxOffsetsPerTrigger", str(partitions)).load().select("value"))
            else:
                empty += _seconds(spark.readStream.format("empty").option("partitions", str(partitions)).load())
    return statistics.median(named), statistics.median(empty)


def _seconds(frame: Any) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="odradek-trigger-") as folder:
        writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [each["durationMs"]["triggerExecution"] / 1000 for each in query.recentProgress[_WARM:BATCHES]]
