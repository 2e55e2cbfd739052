"""The share consumer: `ShareConsumer`.

    async with ShareConsumer("jobs", bootstrap_servers="127.0.0.1:9092", group_id="workers") as consumer:
        async for record in consumer: ...
        # or, with an acknowledgement of each record:
        consumer = ShareConsumer("jobs", group_id="workers", share_acknowledgement_mode="explicit")
        for records in (await consumer.getmany(timeout_ms=500)).values(): ...
            consumer.accept(record)  # or release, or reject
    # or with a handler, in many tasks:
    await consumer.consume(handle, concurrency=20)

Members of a share group share records, not partitions (KIP-932): there may be more members than partitions, and a
record that one could not process goes to another. Each record is locked for its member for a time
(`acquisition_lock_timeout_ms`), and is delivered again if nobody acknowledges it before; after some deliveries
(`share.delivery.count.limit` of the group) it is not. Option names and meanings are Kafka's in snake case.

Promise: with implicit acknowledgement, records count as processed when the user asks for the next ones, or stops the
consumer without an error. A record is delivered at least once, and again after a crash.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Unpack

from ..consumer.options import GroupOptions, WorkOptions
from ..consumer.session_client import SessionClient
from ..consumer.workers import Workers
from ..core.clock import api_result, monotonic_ms
from ..core.options import (
    ClusterOptions,
    check_numbers,
    check_options,
    check_stop_timeout,
    items_of,
    part_of,
    security_options,
)
from ..core.security import SecurityArguments
from ..core.serialization import AS_BYTES, DeserializerOf, Deserializers, KeyT, ValueT
from ..errors import ClientStopped, InvalidAcknowledgement, InvalidOption, results_of
from ..record import ShareRecord, TopicPartition
from .deliveries import RECORD_LIMIT, Acknowledgement, ShareFetchOptions
from .held_records import HeldRecords
from .leaders import AcknowledgementListener
from .session import Session, ShareOptions

Handler = Callable[[ShareRecord[Any, Any]], Awaitable[object]]
_ACQUIRE_MODES = {"batch_optimized": 0, "record_limit": RECORD_LIMIT}


class ShareConsumer(SessionClient[Session], AsyncIterator[ShareRecord[KeyT, ValueT]], Generic[KeyT, ValueT]):
    """Takes records of topics as a member of a share group. Use `async with`, or `start()` and `stop()`.

    Only one task may poll at a time; any task may acknowledge.
    """

    def __init__(
        self,
        *topics: str | Iterable[str],
        group_id: str,
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        client_id: str = "odradek-share-consumer",
        client_rack: str | None = None,
        share_acknowledgement_mode: str = "implicit",
        share_acquire_mode: str = "batch_optimized",
        acknowledgement_listener: AcknowledgementListener | None = None,
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52_428_800,
        max_poll_records: int = 500,
        max_poll_interval_ms: int = 300_000,
        check_crcs: bool = True,
        allow_auto_create_topics: bool = True,
        request_timeout_ms: float = 30_000,
        default_api_timeout_ms: float = 60_000,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 1_000,
        metadata_max_age_ms: float = 300_000,
        key_deserializer: DeserializerOf[KeyT] | None = AS_BYTES,
        value_deserializer: DeserializerOf[ValueT] | None = AS_BYTES,
        **security: Unpack[SecurityArguments],
    ) -> None:
        given = check_options(locals())
        names = items_of("ShareConsumer", str, topics)
        if not group_id:
            raise InvalidOption("group_id must not be empty: a share consumer is a member of a share group")
        if request_timeout_ms <= fetch_max_wait_ms:
            raise InvalidOption("request_timeout_ms must be above fetch_max_wait_ms")
        cluster = part_of(given, ClusterOptions, security=security_options("ShareConsumer", security))
        fetch = part_of(given, ShareFetchOptions, acquire_mode=_ACQUIRE_MODES[share_acquire_mode])
        self._options = part_of(
            given,
            ShareOptions,
            cluster=cluster,
            fetch=fetch,
            group=part_of(given, GroupOptions),
            is_explicit=share_acknowledgement_mode == "explicit",
            deserializers=Deserializers(key_deserializer, value_deserializer),
        )
        # The session reads it.
        self._topics = set(names)
        super().__init__("share consumer", request_timeout_ms)

    # -- Start and stop

    async def _open(self) -> Session:
        return await Session.open(self._options, self._topics)

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Acknowledge what is settled, give the other records back, leave the group and close.

        With implicit acknowledgement, the records that were returned are accepted.
        """
        check_stop_timeout(timeout_ms)
        await self._close(timeout_ms, accept=True)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After an error in the user's code, the records that it worked on go back to the group.
        await self._close(accept=kind is None)

    async def _close(self, timeout_ms: float | None = None, *, accept: bool = False) -> None:
        async def finish() -> None:
            session = self._session
            assert session is not None
            await self.drain()
            await session.leave(accept=accept and not self._options.is_explicit)

        await self._stop_by(finish, timeout_ms, lambda: self._close(timeout_ms, accept=accept))

    # -- Subscription

    def subscribe(self, *topics: str | Iterable[str]) -> None:
        """Take records of these topics instead of earlier ones."""
        names = items_of("subscribe", str, topics)
        self._topics.clear()
        self._topics.update(names)
        if self._session is not None:
            self._session.subscribe()

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics."""
        return frozenset(self._topics)

    # -- Poll

    async def getmany(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ShareRecord[KeyT, ValueT]]]:
        """Return up to `max_records` (`max_poll_records` if none) records by partition; none after `timeout_ms`.

        With implicit acknowledgement, a further call accepts the records of the last one. With explicit, it raises
        InvalidAcknowledgement while one of them is neither acknowledged nor renewed. Raises the error that ended the
        membership, and DeserializationFailed for a record, which is released.
        """
        limit = self._options.fetch.max_poll_records if max_records is None else max_records
        check_numbers(timeout_ms=timeout_ms, **({} if max_records is None else {"max_records": max_records}))
        found: dict[TopicPartition, list[ShareRecord[KeyT, ValueT]]] = {}
        for record in await self._running().poll(limit, timeout_ms):
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return found

    async def getone(self) -> ShareRecord[KeyT, ValueT]:
        """Return the next record, and wait for it without a limit."""
        while True:
            for record in await self._running().poll(1, None):
                return record

    async def __anext__(self) -> ShareRecord[KeyT, ValueT]:
        """Return the next record, and wait for it without a limit. The iteration ends when the consumer is stopped."""
        session = self._session
        if session is None and self._stopped:
            raise StopAsyncIteration
        try:
            return await self.getone()
        except ClientStopped:
            if session is not None and session.is_stopping:
                raise StopAsyncIteration from None
            raise

    # -- Many tasks

    async def consume(
        self,
        handler: Handler,
        *,
        concurrency: int = 1,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 10_000,
        drain_timeout_ms: float = 30_000,
        drain_on: Sequence[signal.Signals] = (),
    ) -> None:
        """Call `handler` for each record in `concurrency` tasks, until `drain`, a stop, or a signal of `drain_on`.

        A record is accepted when its handler returns, unless the handler has accepted, released or rejected it. Where
        the handler raises, the record is released after a pause, which doubles with each delivery: the group delivers
        it again, to any member, up to its limit. As many records are held as the tasks soon work on, whatever
        `share_acquire_mode` is: `concurrency`, or as many as they do within a moment. Locks are renewed while
        records wait, are handled or pause, at most for `max_poll_interval_ms`: a record whose lock has ended is another
        member's. A record that cannot be deserialized is released at once. At the end, what was polled is finished
        within `drain_timeout_ms`, and the rest is released. Works with implicit and explicit acknowledgement. Raises
        InvalidOption, ConcurrentPoll, and the error that ended the membership.
        """
        options = WorkOptions(concurrency, False, 1, retry_backoff_ms, retry_backoff_max_ms, drain_timeout_ms)
        max_handler_ms = self._options.group.max_poll_interval_ms
        held = HeldRecords(self._running(), options, max_handler_ms, self._options.fetch.max_poll_records)
        await self._run(Workers(handler, options, held, held.fail, _as_it_is), drain_on)

    def give_back(self, found: Mapping[TopicPartition, Sequence[ShareRecord[Any, Any]]]) -> None:
        """Return these records again, which a poll has returned and nobody has received."""
        if self._session is not None:
            self._session.deliveries.put_back([record for records in found.values() for record in records])

    # -- Acknowledgements

    def accept(self, *records: ShareRecord[Any, Any] | Iterable[ShareRecord[Any, Any]]) -> None:
        """Say that these records are processed."""
        self._settle(records, Acknowledgement.ACCEPT)

    def release(self, *records: ShareRecord[Any, Any] | Iterable[ShareRecord[Any, Any]]) -> None:
        """Give these records back: they are delivered again, up to the group's limit."""
        self._settle(records, Acknowledgement.RELEASE)

    def reject(self, *records: ShareRecord[Any, Any] | Iterable[ShareRecord[Any, Any]]) -> None:
        """Say that nobody can process these records: they are not delivered again."""
        self._settle(records, Acknowledgement.REJECT)

    def _settle(
        self, records: Iterable[ShareRecord[Any, Any] | Iterable[ShareRecord[Any, Any]]], what: Acknowledgement
    ) -> None:
        wanted = items_of(what.name.lower(), ShareRecord, records)
        deliveries = self._explicit_only().deliveries
        for record in wanted:
            deliveries.settle(record, what, monotonic_ms())

    async def renew(self, *records: ShareRecord[Any, Any] | Iterable[ShareRecord[Any, Any]]) -> None:
        """Lock these records for the whole time again: they may be kept past the next poll, and settled later.

        Raises KafkaError, INVALID_RECORD_STATE for a lock that has ended; UnsupportedVersion by a broker of Kafka 4.1.
        """
        wanted = items_of("renew", ShareRecord, records)
        await self._explicit_only().renew(wanted)

    def _explicit_only(self) -> Session:
        session = self._running()
        if not session.is_explicit:
            text = "acknowledgement is implicit: give the consumer share_acknowledgement_mode='explicit'"
            raise InvalidAcknowledgement(text)
        return session

    async def commit(self) -> None:
        """Send the acknowledgements, and wait for the answers. Implicit acknowledgement accepts all that was returned.

        Those that the last fetch took along count, too; errors of older ones reach `acknowledgement_listener` alone.
        Raises KafkaError, or ItemsFailed, if a leader does not take it, such as INVALID_RECORD_STATE where a lock has
        ended before: the records are delivered again. RequestTimedOut after `default_api_timeout_ms`.
        """
        session = self._running()
        self._accept_if_implicit(session)
        results_of(await api_result(session.leaders.tell_all(), self._options.cluster.default_api_timeout_ms))

    def commit_soon(self) -> None:
        """Have the leaders told, and do not wait: `acknowledgement_listener` gets the results."""
        session = self._running()
        self._accept_if_implicit(session)
        session.leaders.tell_soon()

    def _accept_if_implicit(self, session: Session) -> None:
        if not session.is_explicit:
            session.deliveries.accept_held(monotonic_ms())

    def acquisition_lock_timeout_ms(self) -> int | None:
        """Return how long records are locked for this group's members, None before the first records."""
        return self._running().leaders.lock_timeout_ms

    def lock_left_ms(self, record: ShareRecord[Any, Any]) -> float:
        """Return how long the lock of a record still holds: 0 if it has ended, or the record is settled."""
        ends_ms = self._running().deliveries.lock_ends_ms(record)
        return 0.0 if ends_ms is None else max(ends_ms - monotonic_ms(), 0.0)


async def _as_it_is(record: Any) -> Any:
    """Return a record that is deserialized already."""
    return record
