"""The data source that Spark sees: `spark.read.format("odradek")`. Thin: options go to `plan`, ranges to `fetch`.

    spark.read.format("odradek").option("kafka.bootstrap.servers", "...").option("subscribe", "flights").load()

Driver: `schema` and `partitions`. Offsets are resolved once and kept with the DataFrame: reading it again gives the
same rows, a new `load()` sees newer ones. Executors: `read`, which is where numba and pyarrow are imported.

Spark finds the source with no `register` call through the top-level module `pyspark_odradek`, which
tools/build_backend.py adds to what is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from .brokers import Brokers
from .columns import columns_of, default_ddl
from .offsets import OffsetRange
from .options import parse_options
from .plan import plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

    from .columns import Column
    from .decoder import ArrowBatch
    from .options import SourceOptions


class OdradekSource(DataSource):
    """A DataFrame of Kafka topics, for any Kafka. Options and columns are those of Spark's own Kafka connector."""

    @classmethod
    def name(cls) -> str:
        return "odradek"

    def schema(self) -> str:
        """Return all columns, for a read without `.schema(...)`. Raises OptionError, so that `load()` already fails."""
        return default_ddl(parse_options(self.options).include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of one batch read. Raises OptionError, SchemaError."""
        return BatchReader(parse_options(self.options), columns_of(schema))


# There is no pushFilters: with it, Spark rejects the source while filter push-down is off (its default). While it is
# on, filters leak into other scans of the same DataFrame (seen in 4.3.0). Name fewer columns or offsets instead.
class BatchReader(DataSourceReader):
    """One batch read: made on the driver, pickled to every task."""

    def __init__(self, options: SourceOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each range. Raises the errors of `plan`."""
        return [InputPartition(found) for found in plan(self._options, Brokers(self._options.client))]

    def read(self, partition: InputPartition) -> Iterator[ArrowBatch]:
        """Yield the rows of one range as Arrow batches."""
        wanted = cast("OffsetRange | None", partition.value)
        if wanted is None:  # Spark calls this with an empty partition if there is none at all
            return iter(())
        return read_range(wanted, self._options, self._columns)


def read_range(wanted: OffsetRange, options: SourceOptions, columns: Sequence[Column]) -> Iterator[ArrowBatch]:
    """Fetch and decode one range. Raises DataLoss, KafkaError, DecodeError."""
    from .fetch import RangeFetch

    fetch = RangeFetch(wanted, options, Brokers(options.client))
    fetch.prefetch()  # so that the broker works while numba loads

    from .decoder import ArrowDecoder

    decoder = ArrowDecoder(
        columns, wanted.topic, wanted.partition, wanted.start, wanted.end,
        max_rows=options.client.numbers["max.poll.records"], check_crcs=options.client.check_crcs,
    )  # fmt: skip
    for section in fetch.sections():
        yield from decoder.feed(section.source, section.table)
    rest = decoder.rest()
    if rest is not None:
        yield rest
