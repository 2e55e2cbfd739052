"""Writing records: `Producer`.

    async with Producer("127.0.0.1:9092") as producer:
        await producer.send_many("flights", ((carrier, record) for ...))      # returns when all are acknowledged
        metadata = await (await producer.send("flights", b"value", key=b"UA"))  # one record

`send` waits only for room in the buffer and hands out a future; the record travels in a batch with its neighbours.
Option names and meanings are Kafka's in snake case. Promise: with `enable_idempotence` (the default) every record for
which the future succeeds is in the log once, and the records of one partition are in the order of the calls; a future
that fails says whether its record may be there all the same. Memory for records that wait is bounded by
`buffer_memory`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import NoReturn, cast

from ...protocol.records.compression import Compression
from ...protocol.records.record import RECORD_OVERHEAD_BYTES, Record, size_upper_bound
from ..errors import BufferFull, ClientStopped, ErrorCode, InvalidOption, KafkaError, RecordTooLarge, UnknownTopic
from ..metadata import TopicInfo
from ..network.cluster import Cluster, ClusterOptions
from ..record import Headers, RecordMetadata, TopicPartition
from .accumulator import Accumulator, PartitionQueue
from .deliveries import Bulk, BulkMetadata, Delivery
from .partitioner import Partitioner
from .sender import Sender, SenderOptions

# send_many gives way to the event loop after so many records: some 5 ms of work.
_RECORDS_BETWEEN_BREATHS = 1024
_LAST_TIMESTAMP = 0x7FFFFFFFFFFFFFFF
_ACKS = {0: 0, 1: 1, -1: -1, "0": 0, "1": 1, "-1": -1, "all": -1}


class Producer:
    """Writes records to topics. Use `async with`, or `start()` and `stop()`.

    Differences from Java's defaults: `batch_size` is 128 KiB, not 16, because a batch costs Python more than it costs
    Java. Raises InvalidOption for an option that cannot be.
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
    ) -> None:
        if acks not in _ACKS:
            raise InvalidOption(f'acks must be 0, 1 or "all", not {acks!r}')
        if compression_type.upper() not in Compression.__members__:
            names = ", ".join(codec.name.lower() for codec in Compression)
            raise InvalidOption(f"compression_type must be one of {names}, not {compression_type!r}")
        if enable_idempotence and (_ACKS[acks] != -1 or max_in_flight_requests_per_connection > 5):
            raise InvalidOption(
                'enable_idempotence needs acks="all" and at most 5 max_in_flight_requests_per_connection: '
                "change those, or say enable_idempotence=False"
            )
        for name, value in (("batch_size", batch_size), ("buffer_memory", buffer_memory), ("linger_ms", linger_ms)):
            if value < 0:
                raise InvalidOption(f"{name} must not be below 0, but is {value}")
        if max_in_flight_requests_per_connection < 1:
            raise InvalidOption("max_in_flight_requests_per_connection must be at least 1")
        if delivery_timeout_ms < linger_ms + request_timeout_ms:
            raise InvalidOption(
                f"delivery_timeout_ms ({delivery_timeout_ms:g}) must not be below linger_ms + request_timeout_ms "
                f"({linger_ms + request_timeout_ms:g})"
            )
        self._max_block_ms = max_block_ms
        self._max_request_size = max_request_size
        self._delivery_timeout_ms = delivery_timeout_ms
        self._cluster_options = ClusterOptions(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            default_api_timeout_ms=max_block_ms,
        )
        self._sender_options = SenderOptions(
            _ACKS[acks], max_request_size, max_in_flight_requests_per_connection, request_timeout_ms
        )
        self._accumulator = Accumulator(
            batch_size=min(batch_size, max_request_size),
            linger_ms=linger_ms,
            buffer_memory=buffer_memory,
            delivery_timeout_ms=delivery_timeout_ms,
            compression=Compression[compression_type.upper()],
            idempotent=enable_idempotence,
        )
        self._partitioner = Partitioner(batch_size)
        self._cluster: Cluster | None = None
        self._sender: Sender | None = None
        self._room = asyncio.Event()
        self._accumulator.on_release = self._room.set

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reach the cluster. Raises NoBrokerReachable where no bootstrap server answers."""
        if self._cluster is not None:
            return
        cluster = Cluster(self._cluster_options)
        try:
            await cluster.start()
        except BaseException:
            await cluster.close()
            raise
        self._cluster = cluster
        self._sender = Sender(cluster, self._accumulator, self._sender_options, _monotonic_ms)
        cluster.spawn(self._sender.run(), "sender").add_done_callback(self._sender_ended)

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Send what waits and close.

        What is not acknowledged after `timeout_ms` (delivery_timeout_ms if none) fails.
        """
        cluster, self._cluster = self._cluster, None
        if cluster is None:
            return
        limit_ms = self._delivery_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._flush()
        except TimeoutError:
            pass  # said to each record that is left, below
        finally:
            await cluster.close()
            self._sender = None
            self._fail_all(ClientStopped("the producer was stopped before the broker acknowledged this record"))

    async def __aenter__(self) -> Producer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _sender_ended(self, task: asyncio.Task[None]) -> None:
        """The sender never ends by itself: if it broke, nobody shall wait for it."""
        if not task.cancelled() and (error := task.exception()) is not None:
            failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the producer's sender broke: {error!r}")
            failure.__cause__ = error
            self._broken = failure
            self._fail_all(failure)

    _broken: KafkaError | None = None

    def _fail_all(self, error: KafkaError) -> None:
        for batch in self._accumulator.pending():
            self._accumulator.fail(batch, error)

    # -- writing -----------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> asyncio.Future[RecordMetadata]:
        """Put a record on its way.

        Waits for the topic's metadata and for room (`max_block_ms`), not for the acknowledgement.

        Raises UnknownTopic, RecordTooLarge, BufferFull; what goes wrong later, the future raises.
        """
        if self._known(topic) is None:
            await self._running().topic(topic, timeout_ms=self._max_block_ms)
        while True:
            try:
                return self.send_nowait(topic, value, key, partition, timestamp_ms, headers)
            except BufferFull:
                await self._wait_for_room(size_upper_bound(key, value, tuple(headers)))

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """`send`, and wait for the acknowledgement.

        For one record now and then: many are sent faster by `send_many`.
        """
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    def send_nowait(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> asyncio.Future[RecordMetadata]:
        """`send` without waiting.

        Raises BufferFull where there is no room, UnknownTopic where the topic is not known yet.
        """
        self._running()
        info = self._known(topic)
        if info is None:
            raise UnknownTopic(f"topic {topic!r} is not known yet: await partitions_for({topic!r}) first")
        key, value, headers = _bytes(key, "key"), _bytes(value, "value"), _headers(headers)
        size = size_upper_bound(key, value, headers)
        if size > self._max_request_size:
            self._too_large(size)
        now_ms = _monotonic_ms()
        time_ms = _wall_ms() if timestamp_ms is None else _time(timestamp_ms)
        number = self._partition(info, key, size) if partition is None else _checked(info, partition)
        delivery = Delivery(asyncio.get_running_loop().create_future(), time_ms)
        queue = self._accumulator.queue(TopicPartition(topic, number))
        self._append(queue, Record(-1, time_ms, key, value, headers), size, delivery, now_ms)
        return delivery.future

    async def send_many(
        self, topic: str, records: Iterable[tuple[bytes | None, bytes | None]], *, partition: int | None = None
    ) -> BulkMetadata:
        """Write many (key, value) pairs and wait until all are acknowledged; no future, task or await per record.

        At most `buffer_memory` bytes of them wait at a time: `records` may be a generator over more than fits into
        memory. Raises the first error that a record met, with a note of how many were not delivered; the rest of
        `records` is then not read.
        """
        bulk = Bulk(asyncio.get_running_loop().create_future())
        try:
            await self._feed(bulk, topic, records, partition)
        finally:
            bulk.close()
        return await bulk.done

    async def _feed(
        self, bulk: Bulk, topic: str, records: Iterable[tuple[bytes | None, bytes | None]], partition: int | None
    ) -> None:
        info = await self._running().topic(topic, timeout_ms=self._max_block_ms)
        accumulator, by_key, limit = self._accumulator, self._partitioner.by_key, self._max_request_size
        queues = self._queues(info)
        fixed = None if partition is None else _checked(info, partition)
        now_ms, time_ms, count = _monotonic_ms(), _wall_ms(), len(queues)
        for number, (key, value) in enumerate(records, 1):
            if key.__class__ is not bytes:
                key = _bytes(key, "key")
            if value.__class__ is not bytes:
                value = _bytes(value, "value")
            size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
            if size > limit:
                self._too_large(size)
            if accumulator.used_bytes + size > accumulator.buffer_memory or not number % _RECORDS_BETWEEN_BREATHS:
                await self._breathe(size)
                if bulk.error is not None:
                    return
                info = self._known(topic) or info
                if len(info.partitions) != count:
                    queues, count = self._queues(info), len(info.partitions)
                now_ms, time_ms = _monotonic_ms(), _wall_ms()
            if fixed is not None:
                target = fixed
            elif key is None:
                target = self._partitioner.keyless(info, size)
            else:
                target = by_key(key, count)
            bulk.sent += 1
            self._append(queues[target], Record(-1, time_ms, key, value), size, bulk, now_ms)

    def _append(self, queue: PartitionQueue, record: Record, size: int, sink: Bulk | Delivery, now_ms: float) -> None:
        if self._accumulator.append(queue, record, size, sink, now_ms):
            assert self._sender is not None
            self._sender.wake()

    async def flush(self) -> None:
        """Send what waits now, without lingering, and return when all of it is acknowledged or has failed."""
        self._running()
        await self._flush()

    async def _flush(self) -> None:
        pending = self._accumulator.pending()
        if not pending or self._sender is None:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left = len(pending)

        def one_is_done() -> None:
            nonlocal left
            left -= 1
            if not left and not done.done():
                done.set_result(None)

        for batch in pending:
            batch.watchers.append(one_is_done)
        self._accumulator.flushing += 1
        self._sender.wake()
        try:
            await done
        finally:
            self._accumulator.flushing -= 1

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions. Raises UnknownTopic after `max_block_ms`."""
        info = await self._running().topic(topic, timeout_ms=self._max_block_ms)
        return [partition.partition for partition in info.partitions]

    # -- parts -------------------------------------------------------------------------------------

    def _running(self) -> Cluster:
        if self._broken is not None:
            raise self._broken
        if self._cluster is None:
            raise ClientStopped("the producer is not running: use `async with Producer(...)`, or await start() first")
        return self._cluster

    def _known(self, topic: str) -> TopicInfo | None:
        info = self._running().view.topics.get(topic)
        return info if info is not None and info.partitions else None

    def _queues(self, info: TopicInfo) -> list[PartitionQueue]:
        return [self._accumulator.queue(TopicPartition(info.name, number)) for number in range(len(info.partitions))]

    def _partition(self, info: TopicInfo, key: bytes | None, size: int) -> int:
        if key is None:
            return self._partitioner.keyless(info, size)
        return self._partitioner.by_key(key, len(info.partitions))

    async def _breathe(self, size: int) -> None:
        """Let others run, and wait for room where there is none."""
        await asyncio.sleep(0)
        if not self._accumulator.has_room(size):
            await self._wait_for_room(size)

    async def _wait_for_room(self, size: int) -> None:
        if size > self._accumulator.buffer_memory:
            raise BufferFull(
                f"a record of {size} bytes is larger than buffer_memory ({self._accumulator.buffer_memory})"
            )
        assert self._sender is not None
        self._sender.wake()
        try:
            async with asyncio.timeout(self._max_block_ms / 1000):
                while not self._accumulator.has_room(size):
                    self._running()
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            raise BufferFull(
                f"no room for a record within max_block_ms ({self._max_block_ms:g}): the brokers are slower than you"
            ) from None

    def _too_large(self, size: int) -> NoReturn:
        raise RecordTooLarge(
            f"a record of up to {size} bytes is larger than max_request_size ({self._max_request_size})"
        )


def _checked(info: TopicInfo, partition: int) -> int:
    if not 0 <= partition < len(info.partitions):
        raise UnknownTopic(f"topic {info.name!r} has partitions 0 to {len(info.partitions) - 1}, not {partition}")
    return partition


def _bytes(content: object, what: str) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, (bytearray, memoryview)):
        return bytes(cast("bytearray | memoryview[int]", content))
    raise TypeError(f"{what} must be bytes or None, not {type(content).__name__}: encode it first")


def _time(timestamp_ms: int) -> int:
    if not 0 <= timestamp_ms <= _LAST_TIMESTAMP:
        text = f"a timestamp is milliseconds since 1970, 0 or more, not {timestamp_ms}"
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, text)
    return timestamp_ms


def _headers(headers: Headers) -> tuple[tuple[str, bytes | None], ...]:
    checked: list[tuple[str, bytes | None]] = []
    for name, content in headers:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the name of a header must be str, not {type(name).__name__}")
        name.encode("utf-8", "surrogateescape")  # what has no form in UTF-8 is refused here, not on its way
        checked.append((name, _bytes(content, f"header {name!r}")))
    return tuple(checked)


def _monotonic_ms() -> float:
    return time.monotonic() * 1000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
