"""The producer: `Producer`.

    async with Producer("127.0.0.1:9092") as producer:
        await producer.send_many("flights", ((carrier, record) for ...))      # returns when all are acknowledged
        metadata = await (await producer.send("flights", b"value", key=b"UA"))  # one record

`send` waits only for room in the buffer and returns a future; the record goes into a batch with its neighbours. Option
names and meanings are Kafka's in snake case.

Promise: with `enable_idempotence` (the default) every record whose future succeeds is in the log once, and the records
of a partition are in the order of the calls. A future that fails says whether its record may be in the log all the
same. `buffer_memory` bounds the memory for records that wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...protocol.records.batch import encode_value_batch
from ..core.arguments import check_mapping, check_records, checked_offset
from ..core.clock import monotonic_ms, wall_clock_ms
from ..core.metadata import NO_LEADER, TopicInfo
from ..core.metrics import Metric
from ..core.task_ends import retrieve
from ..errors import (
    InvalidTransactionState,
    KafkaError,
    UnknownTopic,
)
from ..record import (
    ConsumerGroupMetadata,
    HeadersLike,
    K,
    OffsetAndMetadata,
    RecordMetadata,
    TopicPartition,
    V,
)
from .batch import DeliveryCallback
from .deliveries import BulkDelivery, BulkMetadata, Delivery
from .lifecycle import Lifecycle
from .listeners import InterceptedDelivery
from .preparation import Prepared, too_large
from .record_checks import checked_batch, checked_partition, checked_timestamp
from .room import value_batches
from .spreading import Spreader, Turn, no_pair
from .transactions.transactions import Transactions, TransactionScope

# send_many with serializers or hooks yields to the event loop after so many records: some 5 ms of work.
_RECORDS_PER_TURN = 1024


class Producer(Lifecycle[K, V]):
    """Writes records to topics. Use `async with`, or `start()` and `stop()`.

    Keys and values are bytes, or what the serializers take; `Producer[str, dict[str, int]]` tells a type checker.

    One default differs from Java's: `batch_size` is 128 KiB, not 16, because a batch costs Python more than it costs
    Java. Raises InvalidOption for an invalid option.
    """

    # -- Send one record

    async def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike = (),
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a record. Return the future of its acknowledgement.

        Waits for the topic's metadata and for room in the buffer (`max_block_ms`). Raises UnknownTopic, RecordTooLarge,
        BufferFull; the future raises later errors.
        """
        view = self._running().view
        prepared = self._prepare(topic, value, key, partition, timestamp_ms, headers)
        try:
            if not self._accumulator.used_bytes:
                # Not for each record: to ask for the running loop is a system call.
                self._lifetime.check_loop()
            info = view.topics.get(prepared[0])
            if info is None or not info.partitions or not self._accumulator.has_room(prepared[4]):
                info = await self._wait_to_queue(prepared)
            return self._queue_one(prepared, info)
        except KafkaError as error:
            self._interceptors.on_acknowledgement(None, error)
            raise

    async def _wait_to_queue(self, prepared: Prepared) -> TopicInfo | None:
        """Wait for what the buffer needs to take a record. Return what is known of the topic then."""
        await self._topic(prepared.topic)
        while not self._accumulator.has_room(prepared.size_bytes):
            await self._room.wait(prepared.size_bytes)
        return self._topic_info(prepared.topic)

    async def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike = (),
    ) -> RecordMetadata:
        """Send a record and wait for its acknowledgement; `send_many` is faster for many records."""
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    def send_nowait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike = (),
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a record without waiting. Return the future of its acknowledgement.

        Raises BufferFull if there is no room, UnknownTopic if the topic's metadata is not known yet.
        """
        self._running_here()
        prepared = self._prepare(topic, value, key, partition, timestamp_ms, headers)
        try:
            return self._queue_one(prepared, self._topic_info(prepared.topic))
        except KafkaError as error:
            self._interceptors.on_acknowledgement(None, error)
            raise

    def _queue_one(self, prepared: Prepared, info: TopicInfo | None) -> asyncio.Future[RecordMetadata]:
        future: asyncio.Future[RecordMetadata] = self._loop.create_future()
        if self._has_interceptors:
            self._queue_prepared(prepared, info, Delivery(future, prepared.record.timestamp_ms))
        else:
            self._queue_prepared(prepared, info, None, future)
        if self._transactions is not None:
            # The commit fails if the record does, so nobody need wait for the record as well.
            future.add_done_callback(retrieve)
        return future

    def _queue_prepared(
        self,
        prepared: Prepared,
        info: TopicInfo | None,
        callback: DeliveryCallback | None,
        future: asyncio.Future[RecordMetadata] | None = None,
    ) -> None:
        """Put a record into the buffer, with a callback or a future. Raises BufferFull, UnknownTopic."""
        if self._transactions is not None:
            self._transactions.check_open()
        topic, partition, key, record, size_bytes = prepared
        if info is None:
            raise UnknownTopic(f"topic {topic!r} is not known yet: await partitions_for({topic!r}) first")
        if partition is None:
            number = self._preparation.choose(info, key, record[2], size_bytes)
        else:
            number = checked_partition(info, partition)
        accumulator = self._accumulator
        queue = accumulator.queues.get((topic, number)) or accumulator.queue(TopicPartition(topic, number))
        if self._has_interceptors and callback is not None:
            callback = InterceptedDelivery(self._interceptors, callback, record.timestamp_ms)
        if accumulator.append(queue, record, size_bytes, callback, monotonic_ms(), future):
            assert self._sender is not None
            self._sender.wake()
        if self._has_listeners:
            self._listeners.enqueued(queue.partition, record.key, record.value)

    # -- Send many records

    async def send_many(
        self, topic: str, records: Iterable[tuple[K | None, V | None]], *, partition: int | None = None
    ) -> BulkMetadata:
        """Write many (key, value) pairs and wait until all are acknowledged, without a future or task per record.

        At most `buffer_memory` bytes of them wait at a time, so `records` may be a generator over more than fits into
        memory. Raises the first error of a record, with a note of how many were not delivered; the rest of `records` is
        then not read.
        """
        return await (await self._queue_many(topic, records, partition))

    async def _queue_many(
        self, topic: str, records: Iterable[tuple[K | None, V | None]], partition: int | None
    ) -> asyncio.Future[BulkMetadata]:
        """Put all records into the buffer; return what `send_many` waits for. What is queued then comes behind them."""
        self._running_here()
        check_records("send_many", records)
        bulk = BulkDelivery(self._loop.create_future())
        try:
            if self._is_plain:
                await self._append_many(bulk, topic, records, partition)
            else:
                await self._prepare_many(bulk, topic, records, partition)
        except BaseException:
            bulk.done.add_done_callback(retrieve)  # nobody waits for it: what is raised here comes first
            raise
        finally:
            bulk.close()
        return bulk.done

    async def _prepare_many(
        self, bulk: BulkDelivery, topic: str, records: Iterable[tuple[Any, Any]], partition: int | None
    ) -> None:
        for number, pair in enumerate(records, 1):
            try:
                key, value = pair
            except (TypeError, ValueError):
                raise no_pair(pair) from None
            prepared = self._prepare(topic, value, key, partition)
            if not self._accumulator.has_room(prepared.size_bytes) or not number % _RECORDS_PER_TURN:
                await self._room.end_turn(prepared.size_bytes)
                if bulk.error is not None:
                    return
            info = self._topic_info(prepared.topic) or await self._topic(prepared.topic)
            bulk.sent += 1
            try:
                self._queue_prepared(prepared, info, bulk)
            except BaseException:
                bulk.sent -= 1
                raise

    async def _append_many(
        self,
        bulk: BulkDelivery,
        topic: str,
        records: Iterable[tuple[Any, Any]],
        partition: int | None,
    ) -> None:
        info = await self._topic(topic)
        self._check_open()
        fixed = None if partition is None else checked_partition(info, partition)
        spreader = Spreader(records, self._partitioner.by_key, self._options.max_request_size)
        while bulk.error is None:
            turn = self._turn(info, fixed)
            spreader.fill(turn)
            await self._room.wait(turn.size_bytes)
            self._running()
            self._check_open()
            self._append_turn(bulk, info, turn, fixed)
            if spreader.error is not None:
                raise spreader.error
            if spreader.ended:
                return
            await asyncio.sleep(0)
            info = self._topic_info(topic) or info

    def _turn(self, info: TopicInfo, fixed: int | None) -> Turn:
        """Return an empty turn: of about a batch of bytes, and no more than there is room for."""
        size = min(self._options.batch_size, self._accumulator.free_bytes)
        if fixed is not None:
            return Turn(1, 0, wall_clock_ms(), size)
        return Turn(len(info.partitions), self._partitioner.keyless(info, 0), wall_clock_ms(), size)

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
            assert self._sender is not None
            self._sender.wake()

    async def send_values(
        self, topic: str, values: Sequence[bytes], *, partition: int | None = None, timestamp_ms: int | None = None
    ) -> BulkMetadata:
        """Write records without keys and headers, and wait until all are acknowledged: the fastest way for short ones.

        All get one timestamp (now if none). Errors are those of `send_many`.
        """
        info = await self._topic(topic)
        number = None if partition is None else checked_partition(info, partition)
        bulk = BulkDelivery(asyncio.get_running_loop().create_future())
        time_ms = wall_clock_ms() if timestamp_ms is None else checked_timestamp(timestamp_ms)
        try:
            for part in value_batches(values, self._options.batch_size):
                bulk.sent += len(part)
                batch = encode_value_batch(part, time_ms, self._accumulator.compression)
                target = self._preparation.choose(info, None, None, len(batch)) if number is None else number
                await self._append_batch(TopicPartition(topic, target), batch, len(part), bulk, splittable=True)
                if bulk.error is not None:
                    break
        except BaseException:
            bulk.done.add_done_callback(retrieve)
            raise
        finally:
            bulk.close()
        return await bulk.done

    async def send_batch(
        self, partition: TopicPartition, batch: bytes, *, splittable: bool = False
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a whole record batch of format 2, whose codec, timestamps, keys and headers stay as they are.

        Its offset, producer and sequence are replaced. With `splittable` two batches are sent in its place where the
        broker says that it is too large. Return the future of its acknowledgement with the offset of its
        first record. Raises InvalidRecord for a batch that no broker takes from a client, and as `send` does.
        """
        header = checked_batch(batch)
        info = await self._topic(partition.topic)
        checked_partition(info, partition.partition)
        delivery = Delivery(asyncio.get_running_loop().create_future(), header.base_timestamp)
        await self._append_batch(partition, batch, header.record_count, delivery, splittable=splittable)
        if self._transactions is not None:
            delivery.future.add_done_callback(retrieve)
        return delivery.future

    async def _append_batch(
        self, partition: TopicPartition, batch: bytes, count: int, callback: DeliveryCallback, *, splittable: bool
    ) -> None:
        if len(batch) > self._options.max_request_size:
            raise too_large(len(batch), self._options.max_request_size)
        await self._room.end_turn(len(batch))
        self._running()
        self._check_open()
        queue = self._accumulator.queue(partition)
        self._accumulator.append_batch(queue, batch, count, callback, monotonic_ms(), splittable=splittable)
        assert self._sender is not None
        self._sender.wake()

    # -- Transactions

    def transaction(self) -> TransactionScope:
        """Return a context for one transaction: committed at the end of the block, aborted if the block raises.

        async with producer.transaction():
            await producer.send("flights", b"value")
        """
        return TransactionScope(self._transactional)

    async def begin_transaction(self) -> None:
        """Open a transaction; first wait for the end of one that is under way.

        Raises InvalidTransactionState, TransactionFailed, ProducerUnusable, RequestTimedOut.
        """
        await self._transactional().begin()

    async def commit_transaction(self) -> None:
        """Send the queued records, then commit.

        Raises TransactionFailed if only `abort_transaction` is left, ProducerUnusable if nothing is. After a
        cancellation or a RequestTimedOut the commit goes on: call this again to learn how it ended.
        """
        await self._transactional().commit()

    async def abort_transaction(self) -> None:
        """Drop the queued records, then abort. Raises ProducerUnusable, RequestTimedOut, InvalidTransactionState."""
        await self._transactional().abort()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: ConsumerGroupMetadata | str
    ) -> None:
        """Commit a group's offsets as a part of the transaction: they become visible with its records.

        With `consumer.group_metadata()` the commit is rejected if the consumer has lost its partitions; with the
        group's id alone it is not checked. Raises TransactionFailed, ProducerUnusable, RequestTimedOut.
        """
        metadata = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        check_mapping("send_offsets", offsets, "TopicPartition and offset")
        checked = {partition: checked_offset(offset) for partition, offset in offsets.items()}
        await self._transactional().send_offsets(checked, metadata)

    # Kafka's name.
    send_offsets_to_transaction = send_offsets

    def _transactional(self) -> Transactions:
        self._running_here()
        if self._transactions is None:
            raise InvalidTransactionState("this producer has no transactional_id: give it one to use transactions")
        return self._transactions

    def _check_open(self) -> None:
        """Raise InvalidTransactionState if records need a transaction and there is none."""
        if self._transactions is not None:
            self._transactions.check_open()

    # -- Flush and metadata

    async def flush(self, timeout: None = None) -> None:  # noqa: ASYNC109 - it is not taken
        """Send the queued records without lingering. Return when all are acknowledged or have failed.

        There is no `timeout`, because `delivery_timeout_ms` bounds it: one that is given raises TypeError.
        """
        if timeout is not None:
            raise TypeError("flush takes no timeout: delivery_timeout_ms bounds it; to wait for less, cancel the call")
        self._running_here()
        assert self._sender is not None
        await self._sender.flush()

    def metrics(self) -> list[Metric]:
        """Return what the producer has counted, under Kafka's names; nothing before the start and after the stop."""
        sender = self._sender
        if sender is None:
            return []
        client_id = self._cluster_options.client_id
        return list(self._counts.metrics(client_id, self._accumulator, sender.requests_in_flight))

    async def partitions_for(self, topic: str, *, led: bool = False) -> list[int]:
        """Return the numbers of a topic's partitions; `led`: of those that have a leader. Raises UnknownTopic.

        Waits for the topic for `max_block_ms`.
        """
        info = await self._topic(topic)
        return [each.partition for each in info.partitions if not led or each.leader != NO_LEADER]

    def _topic_info(self, topic: str) -> TopicInfo | None:
        """Return what is known of a topic, None if it has no known partitions."""
        info = self._running().view.topics.get(topic)
        return info if info is not None and info.partitions else None
