"""The writers that Spark sees: a frame or the batches of a stream become records of topics.

Executors: `write`, which sends the rows of one task. Driver: `commit` and `abort`, which end a batch for all tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ...protocol.errors import KafkaError
from ..errors import UnsupportedVersion
from .progress import QUERY_ID
from .sink import SinkColumns, columns_of_rows, reject_mode, write_task
from .sink_batch import Place, TaskResult, end
from .sink_options import SinkOptions, parse_sink_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from .sink import ArrowBatch

# Local properties of Spark's jobs beside QUERY_ID: the batch of a stream, and its run, which is the group of its jobs.
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"

log = logging.getLogger(__name__)


def batch_writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchWriter:
    """Return the writer of one batch. Raises OptionError, SchemaError."""
    return BatchWriter(*_sink(given, schema, overwrite=overwrite, is_stream=False))


def stream_writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> StreamWriter:
    """Return the writer of one stream. Raises OptionError, SchemaError."""
    return StreamWriter(*_sink(given, schema, overwrite=overwrite, is_stream=True))


def _sink(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool, is_stream: bool
) -> tuple[SinkOptions, SinkColumns]:
    reject_mode(overwrite, is_stream=is_stream)
    options = parse_sink_options(given)
    for each in options.warnings:
        log.warning("%s", each)
    return options, columns_of_rows(schema, options)


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
        log.error("%s failed; some of its rows may stay in the topic, and a repetition writes them again", what)
    except KafkaError as error:
        log.error("%s failed, and its transactions were not aborted: %s; they end by their time-out", what, error)
    if left:
        log.error("%s failed; %d of its rows stay in the topic, and a repetition writes them again", what, left)


def _count(results: Sequence[TaskResult]) -> int:
    return sum(each.rows for each in results)
