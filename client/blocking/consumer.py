"""The blocking consumers: `Consumer`, `ShareConsumer`, `SimpleConsumer` of one broker, and `read_topic`.

    with Consumer("flights", bootstrap_servers="127.0.0.1:9092", group_id="delays") as consumer:
        for record in consumer: ...
        # or many at a time, which is much faster:
        batches = consumer.getmany(timeout_ms=500, max_records=1000)

Options, defaults and promises are those of `odradek.client`. A thread stands for what is a task there: one thread at a
time polls, and `stop` counts the returned records as processed for the thread that polled last. For another thread it
does not, because the one that polled may still work on them. Any thread may acknowledge records of a share group.

Listeners of rebalances and stores of offsets are called in threads beside the event loop, so they may block, and may
call the blocking clients. An `acknowledgement_listener` is called on the clients' thread, so it must return at once.
"""

from __future__ import annotations

# Derived methods are functions outside of the class whose protected members they use.
# pyright: reportPrivateUsage=false
import asyncio
import re
import signal
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Generic, Protocol, TypeVar, overload

from .. import consumer as asyncio_client
from .. import share, topic_table
from ..consumer import simple_consumer, streams
from ..consumer.fetched_batch import FetchedBatch, RecordColumns
from ..consumer.poller import LONG_POLL_MS, Poller
from ..consumer.workers import signals_to
from ..core.options import check_numbers
from ..core.serialization import KeyT, ValueT
from ..errors import ClientStopped
from ..record import ConsumerRecord, OffsetAndMetadata, ShareRecord, TopicPartition
from .derivation import BlockingClient, PollingClient, at_once, documented_by, options_of, waiting, waiting_function

R = TypeVar("R")
ByPartition = dict[TopicPartition, list[R]]
Poll = Callable[[], Coroutine[Any, Any, ByPartition[R]]]

Handler = Callable[[ConsumerRecord[Any, Any]], object]
ShareHandler = Callable[[ShareRecord[Any, Any]], object]
DeadLetters = Callable[[ConsumerRecord, Exception], object]

read_topic = waiting_function(topic_table.read_topic)


class Consumer(PollingClient[ConsumerRecord[KeyT, ValueT]], Generic[KeyT, ValueT]):
    """Reads topics. Use `with`, or `start()` and `stop()`. Only one thread may poll at a time: see ConcurrentPoll.

    Keys and values are bytes, or what the deserializers return; `Consumer[str, dict[str, int]]` tells a type checker.
    Deserializers run on the clients' thread, so they must return at once.
    """

    _inner: asyncio_client.Consumer[Any, Any]

    @options_of(asyncio_client.Consumer)
    def __init__(self, inner: asyncio_client.Consumer[Any, Any]) -> None:
        super().__init__(inner)
        # The thread that got the last records.
        self._polled_by: threading.Thread | None = None

    # -- Start and stop

    def stop(self, timeout_ms: float | None = None) -> None:
        """Commit (with auto-commit) the processed records, leave the group and close.

        The returned records count as processed if the thread that polled last calls this. Otherwise it may still work
        on them: then they do not, and its `for` ends.

        After `timeout_ms` (request_timeout_ms if none) it closes without the commit or the LeaveGroup that is not done.
        """
        caller = threading.current_thread()

        async def work() -> None:
            at_work = self._polled_by is not None and self._polled_by is not caller
            await (self._inner._close if at_work else self._inner.stop)(timeout_ms)

        self._stop_by(work)

    # -- Poll

    def _poll(self, work: Poll[R], give_back: Callable[[Poller, ByPartition[R]], None]) -> ByPartition[R]:
        """Poll in this thread. What it was interrupted before it had is given back."""
        caller = threading.current_thread()

        async def poll() -> ByPartition[R]:
            found = await work()
            self._polled_by = caller
            return found

        def undo(found: ByPartition[R]) -> None:
            if self._inner._poller is not None:
                give_back(self._inner._poller, found)

        return self._call(poll, undo)

    @documented_by(asyncio_client.Consumer.getmany)
    def getmany(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[KeyT, ValueT]]]:
        poll = self._inner.getmany
        return self._poll_records(lambda: poll(timeout_ms=timeout_ms, max_records=max_records))

    @documented_by(asyncio_client.Consumer.getbatches)
    def getbatches(
        self, *, timeout_ms: float = 0, max_bytes: int = 1_048_576
    ) -> dict[TopicPartition, list[FetchedBatch]]:
        poll = self._inner.getbatches
        return self._poll(lambda: poll(timeout_ms=timeout_ms, max_bytes=max_bytes), Poller.give_back_batches)

    @documented_by(asyncio_client.Consumer.batches)
    def batches(self, *, max_bytes: int = 4_194_304) -> Iterator[RecordColumns]:
        while True:
            try:
                found = self.getbatches(timeout_ms=LONG_POLL_MS, max_bytes=max_bytes)
            except ClientStopped:
                if self._was_stopped:
                    return
                raise
            for partition, some in found.items():
                yield RecordColumns(partition, some)

    def _poll_records(self, work: Poll[ConsumerRecord[KeyT, ValueT]]) -> ByPartition[ConsumerRecord[KeyT, ValueT]]:
        return self._poll(work, Poller.give_back_records)

    # -- Many threads

    def consume(
        self,
        handler: Handler,
        *,
        concurrency: int = 1,
        by_key: bool = True,
        attempts: int = 5,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 10_000,
        dead_letters: DeadLetters | None = None,
        drain_timeout_ms: float = 30_000,
        drain_on: Sequence[signal.Signals] = (),
    ) -> None:
        """Call `handler` for each record in `concurrency` threads, until `drain`, a stop, or a signal of `drain_on`.

        Order, commits, attempts and dead letters are those of the asyncio consumer. Signals are taken in the main
        thread only. When this returns or raises, no handler runs any more. Raises HandlerFailed,
        GroupRequired, InvalidOption.
        """

        def consume(pool: Executor) -> Coroutine[Any, Any, None]:
            return self._inner.consume(
                _in_threads(pool, handler),
                concurrency=concurrency,
                by_key=by_key,
                attempts=attempts,
                retry_backoff_ms=retry_backoff_ms,
                retry_backoff_max_ms=retry_backoff_max_ms,
                dead_letters=None if dead_letters is None else _in_threads(pool, dead_letters),
                drain_timeout_ms=drain_timeout_ms,
            )

        _consume(self, consume, concurrency, drain_on)

    drain = waiting(asyncio_client.Consumer.drain)

    @overload
    def streams(self, topics: Mapping[str, int]) -> dict[str, list[Stream]]: ...

    @overload
    def streams(self, topics: str | re.Pattern[str], count: int) -> list[Stream]: ...

    def streams(
        self, topics: Mapping[str, int] | str | re.Pattern[str], count: int = 1
    ) -> dict[str, list[Stream]] | list[Stream]:
        """Subscribe, and return iterators over disjoint partitions: n of each topic, or `count` of a pattern.

        Each is for a thread of its own. A record counts as processed when its stream is asked for the next one, and is
        committed when all before it in its partition are processed. The streams end when the consumer stops.
        """
        if isinstance(topics, Mapping):
            named = self._at_once(lambda: self._inner.streams(topics))
            return {topic: [Stream(each, self) for each in found] for topic, found in named.items()}
        return [Stream(each, self) for each in self._at_once(lambda: self._inner.streams(topics, count))]

    # -- Subscription

    def subscribe(
        self,
        *topics: str | Iterable[str],
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics instead of earlier ones: shared with the group, or all partitions if there is no group.

        With a `pattern`, read every topic whose whole name it matches, also those that are made later (they are found
        within `metadata_max_age_ms`), but no internal ones. The `listener` is called in a thread of its own, and may
        call this consumer.
        """
        threaded = None if listener is None else ThreadedListener(listener)
        self._at_once(lambda: self._inner.subscribe(*topics, pattern=pattern, listener=threaded))

    assign = at_once(asyncio_client.Consumer.assign)
    unsubscribe = waiting(asyncio_client.Consumer.unsubscribe)
    assignment = at_once(asyncio_client.Consumer.assignment)
    subscription = at_once(asyncio_client.Consumer.subscription)

    # -- Positions

    position = waiting(asyncio_client.Consumer.position)
    high_watermark = at_once(asyncio_client.Consumer.high_watermark)
    seek = at_once(asyncio_client.Consumer.seek)
    seek_to_beginning = at_once(asyncio_client.Consumer.seek_to_beginning)
    seek_to_end = at_once(asyncio_client.Consumer.seek_to_end)
    pause = at_once(asyncio_client.Consumer.pause)
    resume = at_once(asyncio_client.Consumer.resume)
    paused = at_once(asyncio_client.Consumer.paused)

    # -- Offsets of the group and of the log

    commit = waiting(asyncio_client.Consumer.commit)
    committed = waiting(asyncio_client.Consumer.committed)
    group_metadata = at_once(asyncio_client.Consumer.group_metadata)
    beginning_offsets = waiting(asyncio_client.Consumer.beginning_offsets)
    end_offsets = waiting(asyncio_client.Consumer.end_offsets)
    offsets_for_times = waiting(asyncio_client.Consumer.offsets_for_times)
    partitions_for = waiting(asyncio_client.Consumer.partitions_for)

    # -- Seeing inside

    metrics = at_once(asyncio_client.Consumer.metrics)
    explain = at_once(asyncio_client.Consumer.explain)


def _consume(
    client: PollingClient[Any],
    consume: Callable[[Executor], Coroutine[Any, Any, None]],
    concurrency: int,
    drain_on: Sequence[signal.Signals],
) -> None:
    """Run `consume` of an asyncio client, whose handlers have the threads of a pool."""
    check_numbers(concurrency=concurrency)
    thread, asked = client._thread, threading.Event()
    with ThreadPoolExecutor(concurrency, thread_name_prefix="odradek-handler") as pool:

        async def work() -> None:
            if not asked.is_set():  # by a signal that came before this began
                await consume(pool)

        def begin_drain() -> None:
            if client._inner._workers is not None:
                client._inner._workers.halt.set()

        def drain() -> None:
            asked.set()
            if thread is not None:
                thread.post(begin_drain)

        with signals_to(drain, drain_on):
            client._call(work)


def _in_threads(pool: Executor, function: Callable[..., object]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return the user's function as the asyncio consumer calls it: in threads of the pool."""

    async def call(*args: object) -> None:
        # In this context, so that `drain` and `stop` know a handler, which must not wait for itself.
        context = copy_context()
        await asyncio.get_running_loop().run_in_executor(pool, lambda: context.run(_called, function, *args))

    return call


def _called(function: Callable[..., object], *arguments: object) -> None:
    """Call what the user has given. Raises TypeError for a coroutine, which nothing would run: the record were lost."""
    made = function(*arguments)
    if isinstance(made, Coroutine):
        made.close()
        raise TypeError("consume of the blocking client takes plain functions, not coroutines: write `def`")


class Stream(Iterator[ConsumerRecord[Any, Any]]):
    """Records of some partitions. One thread at a time may read it; it ends when the consumer stops."""

    def __init__(self, inner: streams.Stream, client: BlockingClient) -> None:
        self._inner = inner
        self._client = client
        # A record that an interrupted thread did not receive.
        self._missed: ConsumerRecord[Any, Any] | None = None

    def __next__(self) -> ConsumerRecord[Any, Any]:
        """Return the next record, and wait for it. The record before it then counts as processed."""
        try:
            return self._client._call(self._take, self._keep)
        except StopAsyncIteration:
            raise StopIteration from None

    async def _take(self) -> ConsumerRecord[Any, Any]:
        missed, self._missed = self._missed, None
        return await self._inner.__anext__() if missed is None else missed

    def _keep(self, record: ConsumerRecord[Any, Any]) -> None:
        self._missed = record


class SimpleConsumer(BlockingClient):
    """Fetches from one broker, without a group. Use `with`, or `start()` and `stop()`."""

    @options_of(simple_consumer.SimpleConsumer)
    def __init__(self, inner: simple_consumer.SimpleConsumer) -> None:
        super().__init__(inner)

    fetch = waiting(simple_consumer.SimpleConsumer.fetch)
    multifetch = waiting(simple_consumer.SimpleConsumer.multifetch)
    offsets_before = waiting(simple_consumer.SimpleConsumer.offsets_before)
    find_leader = waiting(simple_consumer.SimpleConsumer.find_leader)
    find_coordinator = waiting(simple_consumer.SimpleConsumer.find_coordinator)
    commit_offsets = waiting(simple_consumer.SimpleConsumer.commit_offsets)
    fetch_offsets = waiting(simple_consumer.SimpleConsumer.fetch_offsets)


class ShareConsumer(PollingClient[ShareRecord[KeyT, ValueT]], Generic[KeyT, ValueT]):
    """Takes records of topics as a member of a share group. Use `with`, or `start()` and `stop()`.

    Deserializers run on the clients' thread, so they must return at once.
    """

    _inner: share.ShareConsumer[Any, Any]

    @options_of(share.ShareConsumer)
    def __init__(self, inner: share.ShareConsumer[Any, Any]) -> None:
        super().__init__(inner)

    # -- Stop

    @documented_by(share.ShareConsumer.stop)
    def stop(self, timeout_ms: float | None = None) -> None:
        self._stop_by(lambda: self._inner.stop(timeout_ms))

    # -- Poll

    @documented_by(share.ShareConsumer.getmany)
    def getmany(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ShareRecord[KeyT, ValueT]]]:
        return self._poll_records(lambda: self._inner.getmany(timeout_ms=timeout_ms, max_records=max_records))

    def _poll_records(
        self, work: Callable[[], Coroutine[Any, Any, ByPartition[ShareRecord[KeyT, ValueT]]]]
    ) -> ByPartition[ShareRecord[KeyT, ValueT]]:
        return self._call(work, self._inner.give_back)

    # -- Many threads

    def consume(
        self,
        handler: ShareHandler,
        *,
        concurrency: int = 1,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 10_000,
        drain_timeout_ms: float = 30_000,
        drain_on: Sequence[signal.Signals] = (),
    ) -> None:
        """Call `handler` for each record in `concurrency` threads, until `drain`, a stop, or a signal of `drain_on`.

        What becomes of records is as with the asyncio share consumer. Signals are taken in the main thread only. When
        this returns or raises, no handler runs any more. Raises InvalidOption, ConcurrentPoll.
        """

        def consume(pool: Executor) -> Coroutine[Any, Any, None]:
            return self._inner.consume(
                _in_threads(pool, handler),
                concurrency=concurrency,
                retry_backoff_ms=retry_backoff_ms,
                retry_backoff_max_ms=retry_backoff_max_ms,
                drain_timeout_ms=drain_timeout_ms,
            )

        _consume(self, consume, concurrency, drain_on)

    drain = waiting(share.ShareConsumer.drain)

    # -- What became of records

    accept = at_once(share.ShareConsumer.accept)
    release = at_once(share.ShareConsumer.release)
    reject = at_once(share.ShareConsumer.reject)
    renew = waiting(share.ShareConsumer.renew)
    commit = waiting(share.ShareConsumer.commit)
    commit_soon = at_once(share.ShareConsumer.commit_soon)
    acquisition_lock_timeout_ms = at_once(share.ShareConsumer.acquisition_lock_timeout_ms)
    lock_left_ms = at_once(share.ShareConsumer.lock_left_ms)

    # -- Subscription

    subscribe = at_once(share.ShareConsumer.subscribe)
    subscription = at_once(share.ShareConsumer.subscription)


# -- The user's code, in threads


class RebalanceListener(Protocol):
    """Called in a thread when partitions come and go. `on_partitions_revoked` can still commit offsets.

    If a method raises, the consumer leaves the group, and every poll raises ListenerFailed until the topics are
    subscribed again.
    """

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """These partitions are about to be given up."""
        ...

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """These partitions are new."""
        ...

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """Other members have these partitions already; a commit would fail."""
        ...


class ThreadedListener:
    """A blocking listener as the asyncio consumer calls it: in threads."""

    def __init__(self, listener: RebalanceListener) -> None:
        self._listener = listener

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        await asyncio.to_thread(self._listener.on_partitions_revoked, partitions)

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        await asyncio.to_thread(self._listener.on_partitions_assigned, partitions)

    async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        await asyncio.to_thread(self._listener.on_partitions_lost, partitions)


class OffsetStore(Protocol):
    """Keeps offsets for a consumer. What a method raises reaches the user as OffsetStoreFailed."""

    def load(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int | OffsetAndMetadata | None]:
        """Return the offset of the next record to read in each partition; None, or no entry, if there is none."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Keep the offsets of the next records to read. They must survive when this returns."""
        ...


class ThreadedOffsetStore:
    """A blocking store for the option `offset_store`: `Consumer(offset_store=ThreadedOffsetStore(store))`."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store

    async def load(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | OffsetAndMetadata | None]:
        """Call the store in a thread."""
        return await asyncio.to_thread(self._store.load, partitions)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Call the store in a thread."""
        await asyncio.to_thread(self._store.commit, offsets)
