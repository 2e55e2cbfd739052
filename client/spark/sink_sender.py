"""Sends rows as whole record batches, column by column, through the producer: a sender for each topic.

    opened = OpenBatches(partitions=2, limit_bytes=131_000, compression=Compression.NONE)
    for stop in opened.append(Rows(key=..., value=..., now_ms=...)):
        ... stop.row is to be sent alone, or the batch of stop.partition is full: send opened.take(stop.partition)

Rows of one topic are encoded into one open batch for each partition, by the compiled kernel (kernel/arrow_rows.pxi),
which there must be; without it rows go through a producer one by one. The partition is that of the row, otherwise
murmur2 of the key, as Java has it. Rows without both go to one partition, which changes with each batch (KIP-794).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from ...kernel import door
from ...protocol.records.batch import HEADER_SIZE, batch_of_body
from ...protocol.records.compression import Compression
from ..producer.producer import Producer
from ..record import TopicPartition
from .options import SinkOptions

# Below this a batch costs more than its records.
_LEAST_BATCH_BYTES = 4_096
# A pyarrow.Array, which has no types that a checker could read.
Array = Any


class TopicSenders:
    """The senders of a task, by topic. They have room for as many bytes as the producer, or for those of one topic."""

    def __init__(self, producer: Producer, options: SinkOptions, note: Callable[..., None]) -> None:
        self._producer = producer
        self._options = options
        self._note = note
        # The one that was used last is the last.
        self._senders: dict[str, BatchSender] = {}

    async def of(self, topic: str) -> BatchSender:
        """Return the sender of a topic. Raises UnknownTopic."""
        sender = self._senders.pop(topic, None)
        if sender is None:
            sender = await BatchSender.open(self._producer, topic, self._options, self._note)
            await self._make_room(self._options.producer["buffer_memory"] - sender.opened.room_bytes)
        self._senders[topic] = sender
        return sender

    async def flush(self) -> None:
        """Queue what is open, and wait until everything is acknowledged or has failed. Raises UnknownTopic."""
        await self._make_room(0)
        await self._producer.flush()

    async def _make_room(self, most_bytes: int) -> None:
        """Queue what is open in the senders that were not used for longest, and forget them."""
        left = sum(each.opened.room_bytes for each in self._senders.values())
        while self._senders and left > most_bytes:
            sender = self._senders.pop(next(iter(self._senders)))
            left -= sender.opened.room_bytes
            await sender.send_open()


@dataclass(eq=False, repr=False)
class BatchSender:
    """The open batches of one topic, as many as it had partitions when the task began."""

    _producer: Producer
    _topic: str
    opened: OpenBatches
    _note: Callable[..., None]

    @classmethod
    async def open(cls, producer: Producer, topic: str, options: SinkOptions, note: Callable[..., None]) -> BatchSender:
        """Return a sender that calls `note` with the future of each batch when it is done. Raises UnknownTopic."""
        partitions = await producer.partitions_for(topic)
        codec = Compression[options.producer["compression_type"].upper()]
        opened = OpenBatches(len(partitions), _limit_bytes(options, len(partitions)), codec)
        sender = cls(producer, topic, opened, note)
        await sender._move()
        return sender

    async def send(self, rows: Rows, alone: Callable[[int], Awaitable[None]]) -> None:
        """Queue rows. `alone` sends one that is too large for a batch, or whose partition the topic does not have."""
        for stop in self.opened.append(rows):
            if stop.partition >= 0:
                await self._send_batch(stop.partition)
            if stop.is_alone:
                await alone(stop.row)

    async def send_open(self) -> None:
        """Queue what is open. Raises UnknownTopic where the topic was made again with too few partitions."""
        for partition in range(self.opened.partitions):
            await self._send_batch(partition)

    async def _send_batch(self, partition: int) -> None:
        taken = self.opened.take(partition)
        if taken is None:
            return
        sent: asyncio.Future[Any] = await self._producer.send_batch(
            TopicPartition(self._topic, partition), taken, splittable=True
        )
        sent.add_done_callback(self._note)
        if partition == self.opened.sticky:
            await self._move()

    async def _move(self) -> None:
        """Have rows without a key go to another partition, one with a leader if there is any."""
        partitions = await self._producer.partitions_for(self._topic, led=True)
        known = [each for each in partitions if each < self.opened.partitions]
        self.opened.sticky = random.choice(known or [0])


def _limit_bytes(options: SinkOptions, partitions: int) -> int:
    """Return the size of a batch: with those of all partitions together, half of the producer's memory at most."""
    # Bytes that no codec makes smaller get a little larger.
    most = max(1, options.producer["max_request_size"] * 99 // 100 - HEADER_SIZE)
    share = options.producer["buffer_memory"] // 2 // partitions
    return min(most, max(_LEAST_BATCH_BYTES, min(options.producer["batch_size"], share)))


# -- Encoding


@dataclass(frozen=True, slots=True)
class Stop:
    """Why `append` waits. It goes on with the next row where this one is sent alone."""

    row: int
    # -1: the topic has no such partition.
    partition: int
    is_alone: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """The columns of one Arrow batch: bytes or text, bytes or text, int32, milliseconds. None: no such column."""

    value: Array
    key: Array | None
    partition: Array | None
    time_ms: Array | None
    now_ms: int
    # A list of structs of key and value, none of which is null, nor has a null for a key.
    headers: Array | None = None


class OpenBatches:
    """One open batch for each partition of a topic. At most `limit_bytes` of records each."""

    def __init__(self, partitions: int, limit_bytes: int, compression: Compression) -> None:
        self._compression = compression
        # Memory that is not touched costs nothing.
        self._memory = np.empty((partitions, limit_bytes), np.uint8)
        self._batches: Any = door.compiled.OpenBatches(partitions, limit_bytes, self._memory)

    @property
    def partitions(self) -> int:
        """How many partitions the topic has."""
        return len(self._memory)

    @property
    def room_bytes(self) -> int:
        """How many bytes all batches may get together."""
        return self._memory.size

    @property
    def sticky(self) -> int:
        """The partition of rows that have neither a key nor a partition."""
        return self._batches.sticky

    @sticky.setter
    def sticky(self, partition: int) -> None:
        self._batches.sticky = partition

    def append(self, rows: Rows) -> Iterator[Stop]:
        """Append rows, and yield where the caller has to do something first."""
        columns, row = _columns(rows), 0
        while (stopped := self._batches.append(columns, row)) is not None:
            stop = Stop(*stopped)
            yield stop
            row = stop.row + stop.is_alone

    def take(self, partition: int) -> bytes | None:
        """Return the batch of a partition, None if it is empty. The next one is open then."""
        size, count, first_ms, max_ms = self._batches.take(partition)
        if not count:
            return None
        body = self._memory[partition, :size].data
        return batch_of_body(body, count, first_ms, max_ms, self._compression)


def _columns(rows: Rows) -> Any:
    """Return the rows as the kernel takes them."""
    value, key = (None if each is None else bytes_column(each) for each in (rows.value, rows.key))
    numbers = (
        None if each is None else door.compiled.NumbersColumn(each.offset, len(each), *each.buffers(), width)
        for each, width in ((rows.partition, 4), (rows.time_ms, 8))
    )
    headers: tuple[Any, ...] = (None, None, None)
    if rows.headers is not None:
        ends, keys, values = header_columns(rows.headers)
        headers = (door.compiled.NumbersColumn(0, len(ends), None, ends, 4), bytes_column(keys), bytes_column(values))
    return door.compiled.ArrowRows(rows.now_ms, value, key, *numbers, *headers)


def header_columns(headers: Array) -> tuple[np.ndarray[Any, Any], Array, Array]:
    """Return the numbers of headers up to each row, from 0 on, and all keys and values one behind another."""
    pc: Any = import_module("pyarrow.compute")  # few rows have headers

    ends = np.zeros(len(headers) + 1, np.int32)
    if len(headers):
        counts = pc.fill_null(pc.list_value_length(headers), 0)
        numbers = np.frombuffer(counts.buffers()[1], np.int32)[counts.offset : counts.offset + len(counts)]
        np.cumsum(numbers, out=ends[1:])
    flat = headers.flatten()
    return ends, flat.field("key"), flat.field("value")


def bytes_column(column: Array) -> Any:
    """Return a column of bytes or texts as the kernel takes it."""
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        column = column.cast(pa.binary() if pa.types.is_large_binary(column.type) else pa.string())
    return door.compiled.BytesColumn(column.offset, len(column), *column.buffers())
