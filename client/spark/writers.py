"""The writers that Spark sees: a frame or the batches of a stream become records of topics.

    task      `write` joins the batch, writes in a transaction of its own, and leaves it open: TaskResult
    driver    `commit` and `abort` end the transactions of all tasks by one request

So a batch of a query is one transaction over all tasks. Only Odradek has these requests (docs/decisions/0022).
Elsewhere, and with `transactional=never`, a task writes at least once. A batch that was committed before is not written
again, so a driver may play it again after a crash at any point.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ...protocol.errors import KafkaError
from ..core.cluster import Cluster
from ..core.options import ClusterOptions, part_of
from ..core.security import SecurityOptions
from ..errors import UnsupportedVersion
from ..producer.transaction_requests import OpenTransaction, QueryBatches, has_query_batches
from .columns import OptionError
from .options import SinkOptions, parse_sink_options, reject_mode
from .progress import BATCH_ID, QUERY_ID
from .sink import SinkColumns, columns_of_rows, in_thread, reached, send, started, write

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from .sink import ArrowBatch

# The run of a stream among the local properties of a task: it is the group of its jobs.
RUN_ID = "spark.jobGroup.id"

# Whether this process has said that rows are written at least once.
_said: set[str] = set()

log = logging.getLogger(__name__)


def sink_of(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool, is_stream: bool
) -> tuple[SinkOptions, SinkColumns]:
    """Return what a writer is made of. Raises OptionError, SchemaError."""
    reject_mode(overwrite, is_stream=is_stream)
    options = parse_sink_options(given)
    for each in options.warnings:
        log.warning("%s", each)
    return options, columns_of_rows(schema, options)


class TopicWriter(DataSourceArrowWriter, DataSourceStreamArrowWriter):
    """The writer of a batch or of a stream: made on the driver, pickled to every task.

    For a stream, Spark makes another one for each batch, and for each commit. On Odradek a batch is one transaction;
    elsewhere one that is played again is written again.
    """

    def __init__(self, options: SinkOptions, columns: SinkColumns, *, is_stream: bool) -> None:
        self._options = options
        self._columns = columns
        # A write without a stream is a query of its own.
        self._write_id = None if is_stream else f"write-{uuid4()}"

    def write(self, iterator: Iterator[ArrowBatch]) -> WriterCommitMessage:
        """Send the rows of a task. Raises KafkaError."""
        return write_task(iterator, self._columns, self._options, _place(self._write_id))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int | None = None) -> None:
        """Commit the transactions of all tasks, unless the batch was committed before. Raises KafkaError."""
        results = _results(messages)
        if end(results, self._options, commit=True):
            log.info("batch %s was written before; nothing is written again", batchId)
        else:
            log.info("%s%d rows written", "" if batchId is None else f"batch {batchId}: ", _count(results))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int | None = None) -> None:
        """Abort the transactions of all tasks. Without transactions nothing takes records out of a topic again."""
        what = "the write" if batchId is None else f"batch {batchId}"
        place = None if self._write_id is None else TaskPlace(self._write_id, self._write_id, 0)
        _abort(self._options, _results(messages), what, place)


def _place(write_id: str | None) -> TaskPlace | None:
    """Return the place of this task in a write, or in a stream; None if Spark does not say."""
    context = TaskContext.get()
    if context is None:
        return None
    # The names of attempts are the same in each batch, so that the batches of a stream share transactional ids.
    task = f"{context.partitionId()}.{context.attemptNumber()}"
    if write_id is not None:
        return TaskPlace(write_id, write_id, 0, task)
    query_id, batch_id, run_id = map(context.getLocalProperty, (QUERY_ID, BATCH_ID, RUN_ID))
    return TaskPlace(query_id, run_id, int(batch_id), task) if query_id and batch_id and run_id else None


def _results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    return [each for each in messages if isinstance(each, TaskResult)]


def _abort(options: SinkOptions, results: Sequence[TaskResult], what: str, place: TaskPlace | None) -> None:
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


# -- One transaction over all tasks


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """The place of a task: which batch of which run of a query it writes for."""

    query_id: str
    run_id: str
    batch_id: int
    task: str = ""


@dataclass
class TaskResult(WriterCommitMessage):
    """What a task tells the driver."""

    rows: int
    # None: the rows were written at least once, and nothing is left to do.
    place: TaskPlace | None = None
    # None: there were no rows, or the batch was committed before.
    transaction: OpenTransaction | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """What a task may do. Without a transactional id there is nothing to write."""

    transactional_id: str | None


def write_task(
    batches: Iterator[ArrowBatch], columns: SinkColumns, options: SinkOptions, place: TaskPlace | None
) -> TaskResult:
    """Write the rows of a task, and leave its transaction to the driver. Raises KafkaError, OptionError."""
    return asyncio.run(_write_task(batches, columns, options, place))


async def _write_task(
    batches: Iterator[ArrowBatch], columns: SinkColumns, options: SinkOptions, place: TaskPlace | None
) -> TaskResult:
    joined = await join(place, options)
    if joined is None:
        return TaskResult(await write(batches, columns, options))
    if joined.transactional_id is None:
        # Spark wants its rows to be taken.
        count = sum([batch.num_rows async for batch in in_thread(batches)])
        return TaskResult(count, place)
    async with await started(options, **options.producer, transactional_id=joined.transactional_id) as producer:
        async with producer.transaction() as transaction:
            count = await send(producer, batches, columns, options)
            return TaskResult(count, place, await transaction.hand_over())


async def join(place: TaskPlace | None, options: SinkOptions) -> Joined | None:
    """Take part in a batch; None: write at least once.

    Raises OptionError where transactions are required and the brokers do not have them, KafkaError.
    """
    if options.transactional == "never":
        return None
    if place is None:
        return _at_least_once(options, "Spark does not say which query and batch this is")
    cluster = await _open(options)
    try:
        if not await has_query_batches(cluster):
            why = "the brokers do not offer transactions over several tasks, which Odradek alone has"
            return _at_least_once(options, why)
        batches = QueryBatches(cluster, place.query_id, place.run_id)
        return Joined(await batches.join(place.batch_id, place.task))
    finally:
        await cluster.close()


def _at_least_once(options: SinkOptions, why: str) -> None:
    if options.transactional == "required":
        raise OptionError("transactional", f"is 'required', but {why}")
    if why not in _said:
        _said.add(why)
        log.warning("rows are written at least once: %s", why)


def end(results: Sequence[TaskResult], options: SinkOptions, *, commit: bool) -> bool:
    """End the transactions of all tasks together. Return whether the batch was committed before. Raises KafkaError.

    Does nothing for results of tasks that wrote at least once.
    """
    place = next((each.place for each in results if each.place is not None), None)
    if place is None:
        return False
    transactions = [each.transaction for each in results if each.transaction is not None]
    return asyncio.run(_end(place, transactions, options, commit=commit))


async def _end(
    place: TaskPlace, transactions: Sequence[OpenTransaction], options: SinkOptions, *, commit: bool
) -> bool:
    cluster = await _open(options)
    try:
        batches = QueryBatches(cluster, place.query_id, place.run_id)
        was_done = await batches.end(place.batch_id, transactions, commit=commit)
        if commit and transactions:
            await _wait_for_markers(batches, transactions)
        return was_done
    finally:
        await cluster.close()


async def _wait_for_markers(batches: QueryBatches, transactions: Sequence[OpenTransaction]) -> None:
    """Return when readers see what was saved. The batch is committed in any case."""
    try:
        await batches.wait_for_markers(transactions)
    except KafkaError as error:
        log.warning("the batch is committed, but readers may not see all of it yet: %s", error.message)


async def _open(options: SinkOptions) -> Cluster:
    limit_ms, security = options.producer["max_block_ms"], SecurityOptions(**options.security)
    cluster = part_of(options.producer, ClusterOptions, default_api_timeout_ms=limit_ms, security=security)
    return await reached(lambda: Cluster.open(cluster), options)
