"""The blocking producer: `Producer`.

    with Producer("127.0.0.1:9092") as producer:
        producer.send_many("flights", ((carrier, record) for ...))      # returns when all are acknowledged
        future = producer.send("flights", b"value", key=b"UA")          # a concurrent.futures.Future

Options, defaults and promises are those of `odradek.client.Producer`.
"""

from __future__ import annotations

# Derived methods are functions outside of the class whose protected members they use.
# pyright: reportPrivateUsage=false
import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from .. import producer as asyncio_client
from ..core.options import check_records
from ..producer.batch import BulkDelivery, BulkMetadata
from ..producer.transactions import TransactionScope
from ..record import HeadersLike, K, RecordMetadata, TopicPartition, V
from .derivation import ConnectedClient, at_once, documented_by, options_of, waiting
from .loop_thread import Closer

R = TypeVar("R")

KeyValue = tuple[Any, Any]

# `send_many` hands so many records of an iterator over at a time, or those that came within this time.
_PART_RECORDS = 1024
_PART_S = 0.02


def _for_threads(inner: asyncio.Future[R]) -> Future[R]:
    """Return a future that ends as `inner` does. It cannot be cancelled, because a queued record is sent."""
    outer: Future[R] = Future()
    outer.set_running_or_notify_cancel()

    def copy(inner: asyncio.Future[R]) -> None:
        error = asyncio.CancelledError() if inner.cancelled() else inner.exception()
        if error is None:
            outer.set_result(inner.result())
        else:
            outer.set_exception(error)

    inner.add_done_callback(copy)
    return outer


def _parts(records: Iterator[KeyValue]) -> Iterator[list[KeyValue]]:
    """Yield the records in parts that are ready at about the same time."""
    part: list[KeyValue] = []
    begun_s = time.monotonic()
    for record in records:
        part.append(record)
        if len(part) >= _PART_RECORDS or time.monotonic() - begun_s > _PART_S:
            yield part
            part, begun_s = [], time.monotonic()
    if part:
        yield part


class Transaction:
    """One transaction as a context: committed at the end of the block, aborted if the block raises."""

    def __init__(self, begin: Callable[[], object], end: Callable[[BaseException | None], None]) -> None:
        self._begin = begin
        self._end = end

    def __enter__(self) -> None:
        self._begin()

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._end(error)


class Producer(ConnectedClient, Generic[K, V]):
    """Writes records to topics. Use `with`, or `start()` and `stop()`.

    Keys and values are bytes, or what the serializers take; `Producer[str, dict[str, int]]` tells a type checker.
    Serializers, partitioners, interceptors and listeners run on the clients' thread, so they must return at once.
    """

    @options_of(asyncio_client.Producer)
    def __init__(self, inner: asyncio_client.Producer[Any, Any]) -> None:
        super().__init__(inner)

    def stop(self, timeout_ms: float | None = None) -> None:
        """Send the queued records and close. An open transaction is aborted.

        Records that are not acknowledged after `timeout_ms` (delivery_timeout_ms if none) fail.
        """
        self._stop_by(lambda: self._inner.stop(timeout_ms))

    def _closer(self) -> Closer:
        return self._inner.stop

    # -- Records

    def _queued(self, queue: Callable[[], Coroutine[Any, Any, asyncio.Future[R]]]) -> Future[R]:
        async def work() -> Future[R]:
            return _for_threads(await queue())

        return self._call(work)

    def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike = (),
    ) -> Future[RecordMetadata]:
        """Queue a record. Return the future of its acknowledgement; its callbacks run on the clients' thread.

        Waits for the topic's metadata and for room in the buffer (`max_block_ms`). Raises UnknownTopic, RecordTooLarge,
        BufferFull; the future raises later errors.
        """
        return self._queued(lambda: self._inner.send(topic, value, key, partition, timestamp_ms, headers))

    def send_nowait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike = (),
    ) -> Future[RecordMetadata]:
        """Queue a record without waiting for room. Return the future of its acknowledgement.

        Raises BufferFull if there is no room, UnknownTopic if the topic's metadata is not known yet.
        """
        send = self._inner.send_nowait
        return self._at_once(lambda: _for_threads(send(topic, value, key, partition, timestamp_ms, headers)))

    def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike = (),
    ) -> RecordMetadata:
        """Send a record and wait for its acknowledgement; `send_many` is faster for many records."""
        return self._call(lambda: self._inner.send_and_wait(topic, value, key, partition, timestamp_ms, headers))

    @documented_by(asyncio_client.Producer.send_batch)
    def send_batch(
        self, partition: TopicPartition, batch: bytes, *, splittable: bool = False
    ) -> Future[RecordMetadata]:
        return self._queued(lambda: self._inner.send_batch(partition, batch, splittable=splittable))

    send_values = waiting(asyncio_client.Producer.send_values)
    flush = waiting(asyncio_client.Producer.flush)
    partitions_for = waiting(asyncio_client.Producer.partitions_for)
    metrics = at_once(asyncio_client.Producer.metrics)

    def send_many(
        self, topic: str, records: Iterable[tuple[K | None, V | None]], *, partition: int | None = None
    ) -> BulkMetadata:
        """Write many (key, value) pairs and wait until all are acknowledged, without a future per record.

        At most `buffer_memory` bytes of them wait at a time, so `records` may be a generator over more than fits into
        memory; it runs in this thread. Raises the first error of a record; the rest of `records` is then not read.
        """
        check_records("send_many", records)
        if isinstance(records, Collection):
            return self._call(lambda: self._inner.send_many(topic, records, partition=partition))
        append = self._inner._append_many
        bulk = self._at_once(lambda: BulkDelivery(asyncio.get_running_loop().create_future()))
        for part in _parts(iter(records)):
            self._call(lambda part=part: append(bulk, topic, part, partition))
            if bulk.error is not None:
                break

        async def finish() -> BulkMetadata:
            bulk.close()
            return await bulk.done

        return self._call(finish)

    # -- Transactions

    def transaction(self) -> Transaction:
        """Return a context for one transaction: committed at the end of the block, aborted if the block raises.

        with producer.transaction():
            producer.send("flights", b"value")
        """
        scope: TransactionScope = self._inner.transaction()
        return Transaction(
            lambda: self._call(scope.__aenter__),
            lambda error: self._call(lambda: scope.__aexit__(None if error is None else type(error), error, None)),
        )

    begin_transaction = waiting(asyncio_client.Producer.begin_transaction)
    commit_transaction = waiting(asyncio_client.Producer.commit_transaction)
    abort_transaction = waiting(asyncio_client.Producer.abort_transaction)
    send_offsets = waiting(asyncio_client.Producer.send_offsets)
    send_offsets_to_transaction = send_offsets
