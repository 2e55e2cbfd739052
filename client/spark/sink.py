"""The sink: rows become records of topics. A task returns when all of its rows are acknowledged.

    value binary or string | key binary or string | topic string | partition int | headers array<struct<key,value>>

The columns are those of Spark's own sink; others are left out. With `valueFormat` and `keyFormat` a column may have any
type. On Odradek a batch is one transaction over all tasks (writers.py). Elsewhere Spark may run a task again that
failed, or play a batch again that was cut off, and then records come twice; within a task nothing is doubled, because
`acks=all` and idempotence are the defaults.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from ...kernel import door
from ..core.clock import Backoff, monotonic_ms, wall_clock_ms
from ..errors import NoBrokerReachable
from ..producer.preparation import checked_timestamp
from ..producer.producer import Producer
from .columns import OptionError, SchemaError, check_written
from .options import SinkOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from .sink_sender import BatchSender, Rows

T = TypeVar("T")
# A pyarrow.RecordBatch and a pyarrow.Array, which have no types that a checker could read.
ArrowBatch = ArrowArray = Any

# Column -> the types that it may have.
COLUMNS = {
    "value": ("string", "binary"),
    "key": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
TIMESTAMP = ("timestamp", "timestamp_ntz")

# One record: topic, value, key, partition, headers, timestamp in milliseconds. None where the row has none of it.
Row = tuple[str, bytes | None, bytes | None, int | None, Any, int | None]


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Which of the columns rows have, and which of them hold text."""

    names: frozenset[str]
    texts: frozenset[str]
    timestamp: str | None = None


def columns_of_rows(schema: StructType, options: SinkOptions) -> SinkColumns:
    """Return the columns to write. Raises SchemaError, OptionError."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise SchemaError("Required attribute 'value' not found.")
    for name, allowed in COLUMNS.items():
        if options.formats.get(name, "string") != "string":
            if name in types:
                check_written(name, options.formats[name], schema[name].dataType)
            continue
        if name in types and types[name] not in (("string",) if name in options.formats else allowed):
            expected = "string for this format" if name in options.formats else " or ".join(allowed)
            raise SchemaError(f"{name} attribute unsupported type {types[name]}: it must be {expected}")
    if options.topic is None and "topic" not in types:
        why = "Topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        raise OptionError("topic", why)
    time = options.timestamp_column
    if time is not None and types.get(time) not in TIMESTAMP:
        raise OptionError("timestampColumn", f"'{time}' is no column of timestamps")
    used = {name for name in COLUMNS if name in types} - ({"topic"} if options.topic is not None else set())
    texts = {name for name in ("key", "value") if types.get(name) == "string" and name not in options.formats}
    return SinkColumns(frozenset(used), frozenset(texts), time)


async def write(batches: Iterator[ArrowBatch], columns: SinkColumns, options: SinkOptions) -> int:
    async with await started(options, **options.producer) as producer:
        return await send(producer, batches, columns, options)


async def started(options: SinkOptions, **arguments: Any) -> Producer:
    async def start() -> Producer:
        producer = Producer(**arguments, **options.security)
        await producer.start()
        return producer

    return await reached(start, options)


async def reached(attempt: Callable[[], Awaitable[T]], options: SinkOptions) -> T:
    """Return what `attempt` returns once a broker can be reached: one may be starting again.

    Waits for `kafka.max.block.ms`, as Java's producer does. Raises NoBrokerReachable after it.
    """
    given = options.producer
    backoff = Backoff(given["retry_backoff_ms"], given["retry_backoff_max_ms"])
    deadline_ms, failures = monotonic_ms() + options.producer["max_block_ms"], 0
    while True:
        try:
            return await attempt()
        except NoBrokerReachable:
            failures += 1
            pause_ms = backoff.pause_ms(failures)
            if monotonic_ms() + pause_ms > deadline_ms:
                raise
            await asyncio.sleep(pause_ms / 1000)


async def send(producer: Producer, batches: Iterator[ArrowBatch], columns: SinkColumns, options: SinkOptions) -> int:
    count, failures, senders = 0, _Failures(), None
    async for batch in in_thread(batches):
        if senders is None and door.compiled is not None:
            # Heavy, and a task without rows needs none of it.
            senders = import_module(".sink_sender", __package__).TopicSenders(producer, options, failures.note)
        count += batch.num_rows
        for topic, rows in _by_topic(batch, options):
            if senders is None:
                await _send_each(producer, _rows(topic, rows, columns, options), failures)
            else:
                await _send_columns(await senders.of(topic), topic, producer, rows, columns, options, failures)
        failures.check()
    await (producer if senders is None else senders).flush()
    failures.check()
    return count


async def _send_columns(
    sender: BatchSender,
    topic: str,
    producer: Producer,
    batch: ArrowBatch,
    columns: SinkColumns,
    options: SinkOptions,
    failures: _Failures,
) -> None:
    """Send rows of one topic, whole columns at a time."""

    async def alone(row: int) -> None:
        await _send_each(producer, _rows(topic, batch.slice(row, 1), columns, options), failures)

    rows: type[Rows] = import_module(".sink_sender", __package__).Rows
    value, key = (_binary(batch, name, columns, options) for name in ("value", "key"))
    assert value is not None
    partition = batch.column("partition") if "partition" in columns.names else None
    headers = _checked_headers(batch.column("headers")) if "headers" in columns.names else None
    await sender.send(rows(value, key, partition, _times_ms(batch, columns), wall_clock_ms(), headers), alone)


def _by_topic(batch: ArrowBatch, options: SinkOptions) -> Iterator[tuple[str, ArrowBatch]]:
    """Yield each topic with its rows, which keep their order. Raises OptionError for a row without a topic."""
    if options.topic is not None:
        yield options.topic, batch
        return
    coded = batch.column("topic").dictionary_encode()
    if coded.null_count:
        why = "null topic present in the data. Use the topic option for setting a topic."
        raise OptionError("topic", why)
    if len(coded.dictionary) > 1:
        batch = batch.take(import_module("pyarrow.compute").array_sort_indices(coded.indices))  # it is stable
    counts = sorted((each["values"], each["counts"]) for each in coded.indices.value_counts().to_pylist())
    row = 0
    for code, count in counts:
        yield coded.dictionary[code].as_py(), batch.slice(row, count)
        row += count


class _Failures:
    """The first failure of the records that were sent one by one."""

    def __init__(self) -> None:
        self._first: BaseException | None = None

    def note(self, sent: asyncio.Future[Any]) -> None:
        error = None if sent.cancelled() else sent.exception()
        self._first = self._first or error

    def check(self) -> None:
        if self._first is not None:
            raise self._first


async def _send_each(producer: Producer, rows: Iterator[Row], failures: _Failures) -> None:
    for topic, value, key, partition, headers, timestamp_ms in rows:
        sent = await producer.send(
            topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )
        sent.add_done_callback(failures.note)


async def in_thread(batches: Iterator[ArrowBatch]) -> AsyncIterator[ArrowBatch]:
    """Yield batches that Spark hands over, while the producer goes on."""
    while (batch := await asyncio.to_thread(next, batches, None)) is not None:
        yield batch


# -- Rows


def _rows(topic: str, batch: ArrowBatch, columns: SinkColumns, options: SinkOptions) -> Iterator[Row]:
    if "headers" in columns.names:
        _checked_headers(batch.column("headers"))
    headers = [_headers(each) for each in _list(batch, "headers", columns)]
    return zip(
        [topic] * batch.num_rows,
        _bytes(batch, "value", columns, options),
        _bytes(batch, "key", columns, options),
        _list(batch, "partition", columns),
        headers,
        _timestamps(batch, columns),
        strict=True,
    )


def _list(batch: ArrowBatch, name: str, columns: SinkColumns) -> list[Any]:
    return batch.column(name).to_pylist() if name in columns.names else [None] * batch.num_rows


def _bytes(batch: ArrowBatch, name: str, columns: SinkColumns, options: SinkOptions) -> list[bytes | None]:
    if name in columns.names and name in options.formats:
        # Heavy, and few sinks need it.
        encode = import_module("..typed_values", __name__).encode
        registered = options.registered.get(name)
        return encode(options.formats[name], batch.column(name), options.schemas.get(name), registered)
    found = _list(batch, name, columns)
    if name not in columns.texts:
        return found
    return [None if each is None else each.encode() for each in found]


def _checked_headers(column: ArrowArray) -> ArrowArray | None:
    """Return the headers of rows, None if no row has any. Raises SchemaError."""
    headers = column.flatten()
    if headers.null_count or headers.field("key").null_count:
        raise SchemaError("null header, or header with a null key, present in the data: Kafka has no such headers")
    return column if len(headers) else None


def _headers(row: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]]:
    return [(each["key"], each["value"]) for each in row or ()]


def _timestamps(batch: ArrowBatch, columns: SinkColumns) -> list[int | None]:
    times = _times_ms(batch, columns)
    return [None] * batch.num_rows if times is None else times.to_pylist()


def _times_ms(batch: ArrowBatch, columns: SinkColumns) -> ArrowArray | None:
    """Return the timestamps of rows in milliseconds. Raises INVALID_TIMESTAMP for one before 1970."""
    if columns.timestamp is None:
        return None
    pyarrow: Any = import_module("pyarrow")
    moments = batch.column(columns.timestamp).cast(pyarrow.timestamp("ms"), safe=False)
    times = moments.cast(pyarrow.int64())
    first = import_module("pyarrow.compute").min(times).as_py()
    if first is not None:
        checked_timestamp(first)
    return times


def _binary(batch: ArrowBatch, name: str, columns: SinkColumns, options: SinkOptions) -> ArrowArray | None:
    """Return a column of bytes or text, None if rows do not have it."""
    if name not in columns.names:
        return None
    if name not in options.formats:
        return batch.column(name)
    pyarrow: Any = import_module("pyarrow")
    return pyarrow.array(_bytes(batch, name, columns, options), pyarrow.binary())
