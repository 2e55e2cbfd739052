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
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Generic, Unpack

from ..core.clock import wall_clock_ms
from ..core.lifetime import StartedClient, retrieve
from ..core.metadata import NO_LEADER, TopicInfo
from ..core.metrics import Metric
from ..core.options import (
    ClusterOptions,
    as_partition,
    check_mapping,
    check_options,
    check_records,
    check_stop_timeout,
    checked_offset,
    part_of,
    security_options,
)
from ..core.security import SecurityArguments
from ..core.serialization import SchemaMissing, Serializer, serializer
from ..errors import KafkaError, SerializationFailed
from ..record import ConsumerGroupMetadata, HeadersLike, K, OffsetAndMetadata, RecordMetadata, TopicPartition, V
from .appender import Appender
from .batch import AwaitedRecords, BulkDelivery, BulkMetadata
from .listeners import Interceptors, Listeners, ProducerInterceptor, ProducerListener
from .options import ProducerOptions
from .partitioner import DEFAULT, OwnPartitioner, Partitioner, choice_for
from .preparation import Preparation, Prepared, checked_batch, checked_partition, checked_timestamp
from .session import ProducerSession
from .transactions import TransactionScope


class Producer(StartedClient, Generic[K, V]):
    """Writes records to topics. Use `async with`, or `start()` and `stop()`.

    Keys and values are bytes, or what the serializers take; `Producer[str, dict[str, int]]` tells a type checker.

    One default differs from Java's: `batch_size` is 128 KiB, not 16, because a batch costs Python more than it costs
    Java. Raises InvalidOption for an invalid option.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        *,
        client_id: str = "odradek-producer",
        acks: int | str = "all",
        linger_ms: float = 5,
        batch_size: int = 131_072,
        compression_type: str = "none",
        enable_idempotence: bool = True,
        max_request_size: int = 1_048_576,
        max_in_flight_requests_per_connection: int = 5,
        buffer_memory: int = 33_554_432,
        delivery_timeout_ms: float = 120_000,
        max_block_ms: float = 60_000,
        request_timeout_ms: float = 30_000,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 1_000,
        metadata_max_age_ms: float = 300_000,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: str | OwnPartitioner = DEFAULT,
        interceptors: Sequence[ProducerInterceptor] = (),
        listeners: Sequence[ProducerListener] = (),
        **security: Unpack[SecurityArguments],
    ) -> None:
        given = check_options(locals())
        options = part_of(given, ProducerOptions)
        cluster_options = part_of(
            given,
            ClusterOptions,
            default_api_timeout_ms=max_block_ms,
            # A refresh must not make a deleted topic again: only a record for it, or a call that names it.
            allow_auto_create_topics=False,
            security=security_options("Producer", security),
        )
        self._client_id = client_id
        self._interceptors = Interceptors(interceptors)
        self._session = session = ProducerSession(options, cluster_options, Listeners(listeners))
        self._accumulator = session.accumulator
        preparation = Preparation(
            self._interceptors,
            serializer(key_serializer, "key"),
            serializer(value_serializer, "value"),
            max_request_size,
        )
        own = Partitioner(batch_size)
        self._appender = Appender(session, preparation, own, choice_for(partitioner, own))
        # Whether `send_many` need not look at anything but bytes.
        serializes = preparation.serialize_key is not None or preparation.serialize_value is not None
        self._is_plain = not (serializes or interceptors or listeners) and partitioner == DEFAULT

    # -- Start and stop

    async def start(self) -> None:
        """Reach the cluster; with a `transactional_id`, take it over from any earlier producer.

        Raises NoBrokerReachable if no bootstrap server responds, ProducerUnusable if the id cannot be used.
        """
        await self._session.start()

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Send the queued records and close. An open transaction is aborted.

        Records that are not acknowledged after `timeout_ms` (delivery_timeout_ms if none) fail. The end of a
        transaction is waited for at most `max_block_ms`; after that its coordinator aborts it, unless it has the
        request to commit, when transaction_timeout_ms is over or another producer takes the id over.
        """
        check_stop_timeout(timeout_ms)
        await self._session.stop(self._session.options.delivery_timeout_ms if timeout_ms is None else timeout_ms)

    @property
    def is_connected(self) -> bool:
        """Whether a connection to any broker is open now; lost ones are opened again when they are needed."""
        return self._session.cluster is not None and self._session.cluster.is_connected

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

        Waits for the schema, the topic's metadata and room in the buffer, at most `max_block_ms` in all. Raises
        SchemaRegistryUnavailable, UnknownTopic, RecordTooLarge, BufferFull; the future raises later errors.
        """
        session, appender = self._session, self._appender
        view = session.running().view
        until_s: float | None = None
        try:
            prepared = appender.prepare(topic, value, key, partition, timestamp_ms, headers)
        except SchemaMissing as missing:
            given = (topic, value, key, partition, timestamp_ms, headers)
            until_s = session.deadline_s()
            prepared = await appender.preparation.prepare_in_time(missing, until_s, *given)
            # The producer may have been stopped meanwhile.
            view = session.running().view
        try:
            if not self._accumulator.used_bytes:
                # Not for each record: to ask for the running loop is a system call.
                session.lifetime.check_loop()
            info = view.topics.get(prepared[0])
            if info is None or not info.partitions or not self._accumulator.has_room(prepared[4]):
                info = await self._wait_to_queue(prepared, session.deadline_s() if until_s is None else until_s)
            return self._append_one(prepared, info)
        except KafkaError as error:
            self._interceptors.on_acknowledgement(None, error)
            raise

    async def _wait_to_queue(self, prepared: Prepared, until_s: float) -> TopicInfo | None:
        """Wait for what the buffer needs to take a record. Return what is known of the topic then."""
        await self._session.topic(prepared.topic, until_s)
        while not self._accumulator.has_room(prepared.size_bytes):
            await self._appender.wait_for_room(prepared.size_bytes, until_s)
        return self._session.known_topic(prepared.topic)

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
        self._session.running_here()
        try:
            prepared = self._appender.prepare(topic, value, key, partition, timestamp_ms, headers)
        except SchemaMissing as missing:
            failure = SerializationFailed(str(missing))  # nobody may wait for the schema here
            self._interceptors.on_acknowledgement(None, failure)
            raise failure from None
        try:
            return self._append_one(prepared, self._session.known_topic(prepared.topic))
        except KafkaError as error:
            self._interceptors.on_acknowledgement(None, error)
            raise

    def _append_one(self, prepared: Prepared, info: TopicInfo | None) -> asyncio.Future[RecordMetadata]:
        future: asyncio.Future[RecordMetadata] = self._session.loop.create_future()
        self._appender.append(prepared, info, None, future)
        if self._session.transactions is not None:
            # The commit fails if the record does, so nobody need wait for the record as well.
            future.add_done_callback(retrieve)
        return future

    # -- Send many records

    async def send_many(
        self, topic: str, records: Iterable[tuple[K | None, V | None]], *, partition: int | None = None
    ) -> BulkMetadata:
        """Write many (key, value) pairs and wait until all are acknowledged, without a future or task per record.

        At most `buffer_memory` bytes of them wait at a time, so `records` may be a generator over more than fits into
        memory. Raises the first error of a record, with a note of how many were not delivered; the rest of `records` is
        then not read.
        """
        check_records("send_many", records)
        return await (await _queued(lambda bulk: self._append_many(bulk, topic, records, partition)))

    async def _append_many(
        self, bulk: BulkDelivery, topic: str, records: Iterable[tuple[K | None, V | None]], partition: int | None
    ) -> None:
        """Put records into the buffer, until one has failed. What is queued then comes behind them."""
        self._session.running_here()
        append = self._appender.append_plain if self._is_plain else self._appender.append_each
        await append(bulk, topic, records, partition)

    async def send_values(
        self, topic: str, values: Sequence[bytes], *, partition: int | None = None, timestamp_ms: int | None = None
    ) -> BulkMetadata:
        """Write records without keys and headers, and wait until all are acknowledged: the fastest way for short ones.

        All get one timestamp (now if none). Errors are those of `send_many`.
        """
        time_ms = wall_clock_ms() if timestamp_ms is None else checked_timestamp(timestamp_ms)
        append = self._appender.append_values
        return await (await _queued(lambda bulk: append(bulk, topic, values, partition, time_ms)))

    async def send_batch(
        self, partition: TopicPartition, batch: bytes, *, splittable: bool = False
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a whole record batch of format 2, whose codec, timestamps, keys and headers stay as they are.

        Its offset, producer and sequence are replaced. With `splittable` two batches are sent in its place where the
        broker says that it is too large. Return the future of its acknowledgement with the offset of its
        first record. Raises InvalidRecord for a batch that no broker takes from a client, and as `send` does.
        """
        header = checked_batch(batch)
        until_s = self._session.deadline_s()
        info = await self._session.topic(partition.topic, until_s)
        checked_partition(info, partition.partition)
        future: asyncio.Future[RecordMetadata] = self._session.loop.create_future()
        queued = await self._appender.append_batch(partition, batch, header.record_count, until_s)
        queued.splittable = splittable
        queued.awaited = AwaitedRecords([0], [header.base_timestamp], [future])
        if self._session.transactions is not None:
            future.add_done_callback(retrieve)
        return future

    # -- Transactions

    def transaction(self) -> TransactionScope:
        """Return a context for one transaction: committed at the end of the block, aborted if the block raises.

        async with producer.transaction():
            await producer.send("flights", b"value")
        """
        return TransactionScope(self._session.running_transactions)

    async def begin_transaction(self) -> None:
        """Open a transaction; first wait for the end of one that is under way.

        Raises InvalidTransactionState, TransactionFailed, ProducerUnusable, RequestTimedOut.
        """
        await self._session.running_transactions().begin()

    async def commit_transaction(self) -> None:
        """Send the queued records, then commit.

        Raises TransactionFailed if only `abort_transaction` is left, ProducerUnusable if nothing is. After a
        cancellation or a RequestTimedOut the commit goes on: call this again to learn how it ended.
        """
        await self._session.running_transactions().commit()

    async def abort_transaction(self) -> None:
        """Drop the queued records, then abort. Raises ProducerUnusable, RequestTimedOut, InvalidTransactionState."""
        await self._session.running_transactions().abort()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: ConsumerGroupMetadata | str
    ) -> None:
        """Commit a group's offsets as a part of the transaction: they become visible with its records.

        With `consumer.group_metadata()` the commit is rejected if the consumer has lost its partitions; with the
        group's id alone it is not checked. Raises TransactionFailed, ProducerUnusable, RequestTimedOut.
        """
        metadata = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        check_mapping("send_offsets", offsets, "TopicPartition and offset")
        checked = {as_partition("send_offsets", each): checked_offset(offset) for each, offset in offsets.items()}
        await self._session.running_transactions().send_offsets(checked, metadata)

    # Kafka's name.
    send_offsets_to_transaction = send_offsets

    # -- Flush and metadata

    async def flush(self, timeout: None = None) -> None:  # noqa: ASYNC109 - it is not taken
        """Send the queued records without lingering. Return when all are acknowledged or have failed.

        There is no `timeout`, because `delivery_timeout_ms` bounds it: one that is given raises TypeError.
        """
        if timeout is not None:
            raise TypeError("flush takes no timeout: delivery_timeout_ms bounds it; to wait for less, cancel the call")
        self._session.lifetime.check_loop()
        await self._session.running_sender().flush()

    def metrics(self) -> list[Metric]:
        """Return what the producer has counted, under Kafka's names; nothing before the start and after the stop."""
        sender = self._session.sender
        if sender is None:
            return []
        return list(self._session.counts.metrics(self._client_id, self._accumulator, sender.requests_in_flight))

    async def partitions_for(self, topic: str, *, led: bool = False) -> list[int]:
        """Return the numbers of a topic's partitions; `led`: of those that have a leader. Raises UnknownTopic.

        Waits for the topic for `max_block_ms`.
        """
        info = await self._session.topic(topic)
        return [each.partition for each in info.partitions if not led or each.leader != NO_LEADER]


async def _queued(append: Callable[[BulkDelivery], Awaitable[None]]) -> asyncio.Future[BulkMetadata]:
    """Have `append` put all records into the buffer. Return the future of their common outcome."""
    bulk = BulkDelivery(asyncio.get_running_loop().create_future())
    try:
        await append(bulk)
    except BaseException:
        bulk.done.add_done_callback(retrieve)  # nobody waits for it: what is raised here comes first
        raise
    finally:
        bulk.close()
    return bulk.done
