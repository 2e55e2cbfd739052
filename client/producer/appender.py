"""Puts records into the buffer of a producer: one, many pairs that are spread over partitions, or whole batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from ...kernel import door
from ...protocol.records.batch import encode_value_batch
from ...protocol.records.columns import MAX_VALUES
from ...protocol.records.record import RECORD_OVERHEAD_BYTES, Record, new_record
from ..core.clock import monotonic_ms, wall_clock_ms
from ..core.metadata import TopicInfo
from ..core.serialization import SchemaMissing, checked_bytes
from ..errors import UnknownTopic
from ..record import RecordMetadata, TopicPartition
from .batch import BulkDelivery, DeliveryCallback, ProducerBatch
from .listeners import InterceptedDelivery
from .partitioner import Choice, Partitioner
from .preparation import Preparation, Prepared, checked_partition, too_large
from .session import ProducerSession

# A turn of the event loop takes at most so many records: some milliseconds of work.
_RECORDS_PER_TURN = 1024
# What a short value without a key has around it.
_SHORT_OVERHEAD_BYTES = 8


class Appender:
    """Puts records into an accumulator that has room for them, and wakes the sender."""

    def __init__(
        self,
        session: ProducerSession,
        preparation: Preparation,
        partitioner: Partitioner,
        choose: Choice,
    ) -> None:
        self._session = session
        self._accumulator, self._options = session.accumulator, session.options
        self._partitioner = partitioner
        self._choose = choose
        # None where there are none, because each record asks.
        self._interceptors, self._listeners = preparation.interceptors or None, session.listeners or None
        self.preparation = preparation
        self.prepare = preparation.prepare_intercepted if preparation.interceptors else preparation.prepare
        # Set when the accumulator has room again.
        self._released = asyncio.Event()
        self._accumulator.on_release = self._released.set

    # -- Room

    async def wait_for_room(self, size_bytes: int, until_s: float | None = None) -> None:
        """Wait until a record of this size has room. Raises BufferFull then, or after `max_block_ms`."""
        accumulator, max_block_ms = self._accumulator, self._options.max_block_ms
        if size_bytes > accumulator.buffer_memory:
            text = f"a record of {size_bytes} bytes is larger than buffer_memory ({accumulator.buffer_memory})"
            raise accumulator.full(text)
        try:
            async with asyncio.timeout_at(self._session.deadline_s() if until_s is None else until_s):
                while not accumulator.has_room(size_bytes):
                    self._session.wake()
                    self._released.clear()
                    await self._released.wait()
        except TimeoutError:
            text = f"no room for a record within max_block_ms ({max_block_ms:g}): the brokers are slower than you"
            raise accumulator.full(text) from None

    async def _end_turn(self, size_bytes: int, until_s: float | None = None) -> None:
        """Yield to the event loop, then wait until a record of this size has room."""
        await asyncio.sleep(0)
        if not self._accumulator.has_room(size_bytes):
            await self.wait_for_room(size_bytes, until_s)

    # -- One record

    def append(
        self,
        prepared: Prepared,
        info: TopicInfo | None,
        callback: DeliveryCallback | None,
        future: asyncio.Future[RecordMetadata] | None = None,
    ) -> None:
        """Put a record into the buffer, with a callback or a future. Raises BufferFull, UnknownTopic."""
        if self._session.transactions is not None:
            self._session.transactions.machine.check_open()
        topic, partition, key, record, size_bytes = prepared
        if info is None:
            raise UnknownTopic(f"topic {topic!r} is not known yet: await partitions_for({topic!r}) first")
        number = (
            self._choose(info, key, record[2], size_bytes) if partition is None else checked_partition(info, partition)
        )
        accumulator = self._accumulator
        queue = accumulator.queues.get((topic, number)) or accumulator.queue(TopicPartition(topic, number))
        if self._interceptors is not None:
            callback = InterceptedDelivery(self._interceptors, callback, record.timestamp_ms)
        if accumulator.append(queue, record, size_bytes, callback, monotonic_ms(), future):
            self._session.wake()
        if self._listeners is not None:
            self._listeners.enqueued(queue.partition, record.key, record.value)

    # -- Many records

    async def append_each(
        self, bulk: BulkDelivery, topic: str, records: Iterable[tuple[Any, Any]], partition: int | None
    ) -> None:
        """Prepare and append pairs one by one."""
        for number, pair in enumerate(records, 1):
            try:
                key, value = pair
            except (TypeError, ValueError):
                raise no_pair(pair) from None
            try:
                prepared = self.prepare(topic, value, key, partition)
            except SchemaMissing as missing:
                given = (topic, value, key, partition)
                prepared = await self.preparation.prepare_in_time(missing, self._session.deadline_s(), *given)
            if not self._accumulator.has_room(prepared.size_bytes) or not number % _RECORDS_PER_TURN:
                await self._end_turn(prepared.size_bytes)
                if bulk.error is not None:
                    return
            info = self._session.known_topic(prepared.topic) or await self._session.topic(prepared.topic)
            bulk.sent += 1
            try:
                self.append(prepared, info, bulk)
            except BaseException:
                bulk.sent -= 1
                raise

    async def append_plain(
        self, bulk: BulkDelivery, topic: str, records: Iterable[tuple[Any, Any]], partition: int | None
    ) -> None:
        """Append pairs of bytes that nothing but Kafka's partitioner has to see, a turn of the loop at a time."""
        info = await self._session.topic(topic)
        self._session.check_takes_records()
        fixed = None if partition is None else checked_partition(info, partition)
        spreader = Spreader(records, self._partitioner.by_key, self._options.max_request_size)
        while bulk.error is None:
            turn = self._turn(info, fixed)
            spreader.fill(turn)
            await self.wait_for_room(turn.size_bytes)
            self._session.check_takes_records()
            self._append_turn(bulk, info, turn, fixed)
            if spreader.error is not None:
                raise spreader.error
            if spreader.ended:
                return
            await asyncio.sleep(0)
            info = self._session.known_topic(topic) or info

    def _turn(self, info: TopicInfo, fixed: int | None) -> Turn:
        """Return an empty turn: of about a batch of bytes, and no more than there is room for."""
        size = min(self._options.batch_size, self._accumulator.free_bytes)
        partitions, keyless = (len(info.partitions), self._partitioner.keyless(info, 0)) if fixed is None else (1, 0)
        return Turn(partitions, keyless, wall_clock_ms(), size)

    def _append_turn(self, bulk: BulkDelivery, info: TopicInfo, turn: Turn, fixed: int | None) -> None:
        now_ms, started = monotonic_ms(), False
        for number, (records, sizes) in enumerate(zip(turn.records, turn.sizes, strict=True)):
            if records:
                queue = self._accumulator.queue(TopicPartition(info.name, number if fixed is None else fixed))
                bulk.sent += len(records)
                started = self._accumulator.extend(queue, records, sizes, bulk, now_ms) or started
        if fixed is None:
            # What records with keys have filled of its batch counts too.
            self._partitioner.keyless(info, sum(turn.sizes[turn.keyless]))
        if started:
            self._session.wake()

    # -- Whole batches

    async def append_values(
        self, bulk: BulkDelivery, topic: str, values: Sequence[bytes], partition: int | None, timestamp_ms: int
    ) -> None:
        """Append records that have only values, in whole batches."""
        info = await self._session.topic(topic)
        fixed = None if partition is None else checked_partition(info, partition)
        for part in value_batches(values, self._options.batch_size):
            bulk.sent += len(part)
            encoded = encode_value_batch(part, timestamp_ms, self._options.compression)
            number = self._choose(info, None, None, len(encoded)) if fixed is None else fixed
            batch = await self.append_batch(TopicPartition(topic, number), encoded, len(part))
            batch.callbacks.append((0, bulk))
            if bulk.error is not None:
                return

    async def append_batch(
        self, partition: TopicPartition, whole: bytes, count: int, until_s: float | None = None
    ) -> ProducerBatch:
        """Append a whole batch of `count` records. The caller adds what waits for its outcome. Raises BufferFull."""
        if len(whole) > self._options.max_request_size:
            raise too_large(len(whole), self._options.max_request_size)
        await self._end_turn(len(whole), until_s)
        self._session.check_takes_records()
        batch = self._accumulator.append_batch(self._accumulator.queue(partition), whole, count, monotonic_ms())
        self._session.wake()
        return batch


class Turn:
    """The records of one turn of the event loop, by partition, with the bytes that each takes at most in a batch."""

    __slots__ = ("keyless", "left_bytes", "records", "sizes", "time_ms")

    def __init__(self, partitions: int, keyless: int, time_ms: int, max_bytes: int) -> None:
        self.records: list[list[Record]] = [[] for _ in range(partitions)]
        self.sizes: list[list[int]] = [[] for _ in range(partitions)]
        # The partition of records without a key.
        self.keyless = keyless
        self.time_ms = time_ms
        self.left_bytes = max_bytes

    @property
    def size_bytes(self) -> int:
        """Of all its records."""
        return sum(map(sum, self.sizes))


class Spreader:
    """Takes pairs out of an iterable. One that raises, or a pair that cannot be sent, ends it with an `error`."""

    def __init__(self, pairs: Iterable[tuple[Any, Any]], by_key: Callable[[bytes, int], int], max_size: int) -> None:
        self._pairs = iter(pairs)
        # A pair that had no room in the last turn, if there is one.
        self._held: tuple[Any, ...] = ()
        self._by_key = by_key
        self._max_size = max_size
        self.ended = False
        # What ended it. The records before are in the last turn.
        self.error: Exception | None = None

    def fill(self, turn: Turn) -> None:
        """Take pairs until the turn has enough. One that has no room comes next time, unless it is the first."""
        pairs = chain(self._held, self._pairs) if self._held else self._pairs
        self._held = ()
        try:
            self.ended = self._fill(turn, pairs) if door.compiled is None else self._fill_compiled(turn, pairs)
        except Exception as error:  # noqa: BLE001 - an iterable of the user may raise anything; the caller raises it
            self.ended, self.error = True, error

    def _fill_compiled(self, turn: Turn, pairs: Iterator[tuple[Any, Any]]) -> bool:
        assert door.compiled is not None
        ended, left = door.compiled.spread(
            pairs, turn.records, turn.sizes, Record, turn.time_ms, turn.keyless,
            _RECORDS_PER_TURN, turn.left_bytes, self._max_size,
        )  # fmt: skip
        if not left:
            return ended
        turn.left_bytes -= turn.size_bytes
        return self._fill(turn, chain(left, pairs))

    def _fill(self, turn: Turn, pairs: Iterator[tuple[Any, Any]]) -> bool:
        """Do as the kernel. Return whether the pairs have ended."""
        records, sizes, time_ms, left_bytes = turn.records, turn.sizes, turn.time_ms, turn.left_bytes
        partitions, is_first = len(records), not any(records)
        for number, pair in enumerate(pairs, 1):
            try:
                key, value = pair
            except (TypeError, ValueError):
                raise no_pair(pair) from None
            if key.__class__ is not bytes:
                key = checked_bytes(key, "key")
            if value.__class__ is not bytes:
                value = checked_bytes(value, "value")
            size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
            if size > self._max_size:
                raise too_large(size, self._max_size)
            if size > left_bytes and not is_first:
                self._held = (pair,)
                return False
            at = turn.keyless if key is None else self._by_key(key, partitions)
            records[at].append(new_record(Record, (-1, time_ms, key, value, ())))
            sizes[at].append(size)
            left_bytes -= size
            is_first = False
            if number == _RECORDS_PER_TURN:
                return False
        return True


def no_pair(given: object) -> TypeError:
    """Return the error of a record of `send_many` that is no pair."""
    return TypeError(f"send_many takes pairs of key and value, not {given!r:.100}; send_values takes values alone")


def value_batches(values: Sequence[bytes], batch_size: int) -> Iterator[Sequence[bytes]]:
    """Cut values into parts that make a batch of about `batch_size` bytes, or of one larger value."""
    index, count = 0, 1024
    while index < len(values):
        part = values[index : index + count]
        while (size := sum(map(len, part)) + len(part) * _SHORT_OVERHEAD_BYTES) > batch_size and len(part) > 1:
            part = part[: max(1, min(len(part) * batch_size // size, len(part) - 1))]
        yield part
        index += len(part)
        count = min(max(1, len(part) * batch_size // size), MAX_VALUES)
