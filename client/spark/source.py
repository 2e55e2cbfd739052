"""The data source that Spark sees: `format("odradek")`. Thin: options go to `plan` or `stream`, ranges to `rows`.

    spark.read.format("odradek").option("kafka.bootstrap.servers", "...").option("subscribe", "flights").load()
    spark.readStream.format("odradek")...
    frame.write.format("odradek").option("topic", "delays").mode("append").save()

Driver: `schema`, `partitions` and the offsets of a stream. Executors: `read`, where numpy and pyarrow are imported.
Writes are in `writers.py`, which is imported for them alone, because it needs the producer.
A batch read resolves its offsets once and keeps them with the DataFrame: reading it again gives the same rows, a new
`load()` sees newer ones.

Spark finds the source with no `register` call through the top-level module `pyspark_odradek`, which
tools/build_backend.py adds to what is installed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ..arrow.brokers import Brokers
from ..arrow.fetch import OffsetRange
from .columns import OptionError, columns_of, default_ddl, with_schemas
from .options import parse_options
from .plan import plan
from .progress import start_committed
from .stream import MicroBatches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.types import StructType

    from ..arrow.decoder import ArrowBatch
    from .columns import Column, Format
    from .options import SourceOptions
    from .writers import TopicWriter

# The ranges that one task reads, one after the other.
Ranges = tuple[OffsetRange, ...]

log = logging.getLogger(__name__)


class OdradekSource(DataSource):
    """A DataFrame of Kafka topics, for any Kafka. Options and columns are those of Spark's own Kafka connector."""

    @classmethod
    def name(cls) -> str:
        return "odradek"

    def schema(self) -> str:
        """Return all columns, for a read without `.schema(...)`. Raises OptionError, so that `load()` already fails.

        Spark does not say here which kind of read it is. What only one kind rejects is rejected by its reader.
        """
        try:
            options = parse_options(self.options)
        except OptionError as error:
            try:
                options = parse_options(self.options, streaming=True)
            except OptionError:
                raise error from None
        return default_ddl(options.include_headers, _formats(options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of one batch read. Raises OptionError, SchemaError."""
        options = _parse(self.options, streaming=False)
        return BatchReader(options, columns_of(schema, _formats(options)))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of one stream. Raises OptionError, SchemaError."""
        options = _parse(self.options, streaming=True)
        return StreamReader(options, columns_of(schema, _formats(options)))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of one batch. Raises OptionError, SchemaError."""
        return self._writer(schema, overwrite=overwrite, is_stream=False)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of one stream. Raises OptionError, SchemaError."""
        return self._writer(schema, overwrite=overwrite, is_stream=True)

    def _writer(self, schema: StructType, *, overwrite: bool, is_stream: bool) -> TopicWriter:
        from .writers import TopicWriter, sink_of  # reads do without the producer

        sink = sink_of(self.options, schema, overwrite=overwrite, is_stream=is_stream)
        return TopicWriter(*sink, is_stream=is_stream)


def _formats(options: SourceOptions) -> dict[str, Format]:
    named = options.subscription
    return with_schemas(options.formats, options.registry, {*named.topics, *(each.topic for each in named.partitions)})


def _parse(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    options = parse_options(given, streaming=streaming)
    for each in options.warnings:
        log.warning("%s", each)
    return options


# There is no pushFilters: with it, Spark rejects the source while filter push-down is off (its default). While it is
# on, filters leak into other scans of the same DataFrame (seen in 4.3.0). Name fewer columns or offsets instead.
class BatchReader(DataSourceReader):
    """One batch read: made on the driver, pickled to every task."""

    def __init__(self, options: SourceOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each range, or one for all where rows are limited. Raises the errors of `plan`."""
        with Brokers(self._options.client, keeps_connections=True) as brokers:
            ranges = plan(self._options, brokers)
        if self._options.slice.limit is not None and ranges:
            return [InputPartition(tuple(ranges))]
        return [InputPartition((found,)) for found in ranges]

    def read(self, partition: InputPartition) -> Iterator[ArrowBatch]:
        """Yield the rows of a task's ranges as Arrow batches."""
        wanted = cast("Ranges | None", partition.value)
        if wanted is None:  # Spark calls this with an empty partition if there is none at all
            return iter(())
        return read_ranges(wanted, self._options, self._columns)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream: it lives on the driver for as long as the query, and is pickled to every task."""

    def __init__(self, options: SourceOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = columns
        self._brokers: Brokers | None = None
        self._batches: MicroBatches | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A task needs no state of the stream.
        return {"_options": self._options, "_columns": self._columns, "_brokers": None, "_batches": None}

    @property
    def _stream(self) -> MicroBatches:
        if self._batches is None:
            self._brokers = Brokers(self._options.client, keeps_connections=True)
            self._batches = MicroBatches(self._options, self._brokers)
        return self._batches

    def initialOffset(self) -> dict[str, Any]:
        """Return the constant that stands for a stream that has read nothing."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of maxOffsetsPerTrigger, or maxBytesPerTrigger. Which counts, the stream knows itself."""
        most, most_bytes = self._options.stream.max_offsets, self._options.stream.max_bytes
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if most_bytes is None else ReadMaxBytes(most_bytes)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next batch ends."""
        return self._stream.next_end(start, limited=not isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends of all logs when the batch was planned, for the query's progress."""
        return self._stream.log_ends()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read nothing past the present ends of the logs."""
        self._stream.stop_at_present_ends()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one partition for each range of a batch."""
        return [InputPartition((found,)) for found in self._stream.ranges(start, end)]

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: tasks commit, because they know the name of the query (progress.py)."""

    def stop(self) -> None:
        """Close the connections of the driver."""
        if self._brokers is not None:
            self._brokers.close()

    def read(self, partition: InputPartition) -> Iterator[ArrowBatch]:
        """Yield the rows of a task's range as Arrow batches."""
        wanted = cast("Ranges | None", partition.value)
        if wanted is None:
            return iter(())
        (only,) = wanted
        return read_range(only, self._options, self._columns, start_committed(only, self._options))


def read_ranges(wanted: Ranges, options: SourceOptions, columns: Sequence[Column]) -> Iterator[ArrowBatch]:
    """Fetch and decode ranges, one after the other, up to the limit of rows. Raises as `read_range`."""
    left = options.slice.limit
    for each in wanted:
        for batch in read_range(each, options, columns):
            yield batch if left is None else batch.slice(0, left)
            if left is not None:
                left -= batch.num_rows
                if left <= 0:
                    return


def read_range(
    wanted: OffsetRange,
    options: SourceOptions,
    columns: Sequence[Column],
    beside: AbstractContextManager[object] = nullcontext(),  # noqa: B008 - it has no state
) -> Iterator[ArrowBatch]:
    """Fetch and decode one range. Raises DataLoss, KafkaError, DecodeError.

    `beside` is entered when the first fetch is under way, and left behind the last row.
    """
    from ..arrow.direct_read import range_reader

    fetch = range_reader(wanted, options, Brokers(options.client, first=wanted.partition, was_reached=True))
    fetch.prefetch()  # so that the broker works while the decoder is loaded
    with beside:
        from ..arrow.decoder import decoded
        from .rows import RowDecoder

        decoder = RowDecoder(columns, wanted, max_rows=options.arrow_batch_rows, check_crcs=options.client.check_crcs)
        yield from decoded(fetch.sections(), decoder)
