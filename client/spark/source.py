"""The data source that Spark sees: `format("odradek")`. Thin: options go to `plan` or `stream`, ranges to `fetch`.

    spark.read.format("odradek").option("kafka.bootstrap.servers", "...").option("subscribe", "flights").load()
    spark.readStream.format("odradek")...
    frame.write.format("odradek").option("topic", "delays").mode("append").save()

Driver: `schema`, `partitions` and the offsets of a stream. Executors: `read`, where numba and pyarrow are imported.
A batch read resolves its offsets once and keeps them with the DataFrame: reading it again gives the same rows, a new
`load()` sees newer ones.

Spark finds the source with no `register` call through the top-level module `pyspark_odradek`, which
tools/build_backend.py adds to what is installed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ...protocol.errors import KafkaError
from ..errors import UnsupportedVersion
from .brokers import Brokers
from .columns import columns_of, default_ddl
from .errors import OptionError
from .machine_code import JSON_KERNELS, KERNELS
from .offsets import OffsetRange
from .options import parse_options
from .plan import plan
from .progress import commit_start
from .sink import SinkColumns, columns_of_rows, reject_mode, write_task
from .sink_batch import Place, TaskResult, end
from .sink_options import SinkOptions, parse_sink_options
from .stream import MicroBatches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.types import StructType

    from .columns import Column
    from .decoder import ArrowBatch
    from .options import SourceOptions

# The ranges that one task reads, one after the other.
Ranges = tuple[OffsetRange, ...]

# Local properties of Spark's jobs: the query and batch of a stream, and its run, which is the group of its jobs.
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"

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
        return default_ddl(options.include_headers, options.formats)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of one batch read. Raises OptionError, SchemaError."""
        options = _parse(self.options, streaming=False)
        _compile_ahead(options)
        return BatchReader(options, columns_of(schema, options.formats))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of one stream. Raises OptionError, SchemaError."""
        options = _parse(self.options, streaming=True)
        _compile_ahead(options)
        return StreamReader(options, columns_of(schema, options.formats))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of one batch. Raises OptionError, SchemaError."""
        return BatchWriter(*_sink(self.options, schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of one stream. Raises OptionError, SchemaError."""
        return StreamWriter(*_sink(self.options, schema, overwrite=overwrite))


def _sink(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> tuple[SinkOptions, SinkColumns]:
    reject_mode(overwrite)
    options = parse_sink_options(given)
    for each in options.warnings:
        log.warning("%s", each)
    return options, columns_of_rows(schema, options)


def _compile_ahead(options: SourceOptions) -> None:
    """Compile what tasks need while the read is planned; no more than a look where that was done before."""
    KERNELS.compile_ahead()
    if any(each.name == "json" for each in options.formats.values()):
        JSON_KERNELS.compile_ahead()


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
        ranges = plan(self._options, Brokers(self._options.client))
        if self._options.slice.limit is not None and ranges:
            return [InputPartition(tuple(ranges))]
        return [InputPartition((found,)) for found in ranges]

    def read(self, partition: InputPartition) -> Iterator[ArrowBatch]:
        """Yield the rows of a task's ranges as Arrow batches."""
        wanted = cast("Ranges | None", partition.value)
        if wanted is None:  # Spark calls this with an empty partition if there is none at all
            return iter(())
        return _limited(read_ranges(wanted, self._options, self._columns), self._options.slice.limit)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream: it lives on the driver for as long as the query, and is pickled to every task."""

    def __init__(self, options: SourceOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = columns
        self._batches: MicroBatches | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A task needs no state of the stream.
        return {"_options": self._options, "_columns": self._columns, "_batches": None}

    @property
    def _stream(self) -> MicroBatches:
        if self._batches is None:
            self._batches = MicroBatches(self._options, Brokers(self._options.client))
        return self._batches

    def initialOffset(self) -> dict[str, Any]:
        """Return the sentinel of a stream that has read nothing."""
        return self._stream.initial()

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
        """Return the ends of all logs, for the query's progress."""
        return self._stream.log_ends()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read nothing past the present ends of the logs."""
        self._stream.stop_at_present_ends()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one partition for each range of a batch."""
        return [InputPartition((found,)) for found in self._stream.ranges(start, end)]

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: tasks commit, because they know the name of the query (progress.py)."""

    def read(self, partition: InputPartition) -> Iterator[ArrowBatch]:
        """Yield the rows of a task's range as Arrow batches."""
        wanted = cast("Ranges | None", partition.value)
        if wanted is None:
            return iter(())
        commit_start(wanted[0], self._options)
        return read_ranges(wanted, self._options, self._columns)


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    result: TaskResult


class BatchWriter(DataSourceArrowWriter):
    """The writer of one batch: made on the driver, pickled to every task. All of it is one transaction on Odradek."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns
        self._write_id = f"write-{uuid4()}"

    def write(self, iterator: Iterator[ArrowBatch]) -> WriterCommitMessage:
        """Send the rows of a task. Raises KafkaError."""
        context = TaskContext.get()
        place = None if context is None else Place(self._write_id, self._write_id, 0, _task(context))
        return Written(write_task(iterator, self._columns, self._options, place))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the transactions of all tasks. Raises KafkaError."""
        results = _results(messages)
        end(results, self._options, commit=True)
        log.info("%d rows written", _count(results))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort the transactions of all tasks. Without transactions nothing takes records out of a topic again."""
        place = Place(self._write_id, self._write_id, 0)
        _abort(self._options, _results(messages), "the write", place)


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of a stream. Spark makes another one for each batch, and for each commit.

    On Odradek a batch is one transaction. Elsewhere a batch that is played again is written again.
    """

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[ArrowBatch]) -> WriterCommitMessage:
        """Send the rows of a task. Raises KafkaError."""
        return Written(write_task(iterator, self._columns, self._options, _stream_place()))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the transactions of all tasks, unless the batch was committed before. Raises KafkaError."""
        results = _results(messages)
        if end(results, self._options, commit=True):
            log.info("batch %d was written before; nothing is written again", batchId)
        else:
            log.info("batch %d: %d rows written", batchId, _count(results))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Abort the transactions of all tasks. Without transactions nothing takes records out of a topic again."""
        _abort(self._options, _results(messages), f"batch {batchId}", None)


def _task(context: TaskContext) -> str:
    """Return a name for this attempt of a task. Names come again in the next batch, so that transactional ids do."""
    return f"{context.partitionId()}.{context.attemptNumber()}"


def _stream_place() -> Place | None:
    """Return the place of this task in a stream, None if Spark does not say."""
    context = TaskContext.get()
    if context is None:
        return None
    query_id, batch_id, run_id = map(context.getLocalProperty, (QUERY_ID, BATCH_ID, RUN_ID))
    if not (query_id and batch_id and run_id):
        return None
    return Place(query_id, run_id, int(batch_id), _task(context))


def _results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    return [each.result for each in messages if isinstance(each, Written)]


def _abort(options: SinkOptions, results: Sequence[TaskResult], what: str, place: Place | None) -> None:
    left = _count([each for each in results if each.place is None])
    if place is not None and not results and options.transactional != "never":
        # Tasks that have failed told nothing: the place alone ends what they left.
        results = [TaskResult(0, place)]
    try:
        end(results, options, commit=False)
    except UnsupportedVersion:
        log.error("%s failed; rows of it may stay in the topic, and come again if it is repeated", what)
    except KafkaError as error:
        log.error("%s failed, and its transactions were not aborted: %s; they end by their time-out", what, error)
    if left:
        log.error("%s failed; %d rows of it stay in the topic, and come again if it is repeated", what, left)


def _count(results: Sequence[TaskResult]) -> int:
    return sum(each.rows for each in results)


def read_ranges(wanted: Ranges, options: SourceOptions, columns: Sequence[Column]) -> Iterator[ArrowBatch]:
    """Fetch and decode ranges, one after the other. Raises DataLoss, KafkaError, DecodeError."""
    for each in wanted:
        yield from read_range(each, options, columns)


def read_range(wanted: OffsetRange, options: SourceOptions, columns: Sequence[Column]) -> Iterator[ArrowBatch]:
    """Fetch and decode one range. Raises DataLoss, KafkaError, DecodeError."""
    from .direct_read import range_reader

    fetch = range_reader(wanted, options, Brokers(options.client, first=wanted.partition))
    fetch.prefetch()  # so that the broker works while numba loads

    from .decoder import ArrowDecoder

    decoder = ArrowDecoder(
        columns, wanted.topic, wanted.partition, wanted.start, wanted.end,
        max_rows=options.arrow_batch_rows, check_crcs=options.client.check_crcs,
    )  # fmt: skip
    for section in fetch.sections():
        yield from decoder.feed(section.source, section.table)
    rest = decoder.rest()
    if rest is not None:
        yield rest


def _limited(batches: Iterator[ArrowBatch], most: int | None) -> Iterator[ArrowBatch]:
    """Yield batches until there are `most` rows; then no more is fetched."""
    if most is None:
        yield from batches
        return
    left = most
    for batch in batches:
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return
