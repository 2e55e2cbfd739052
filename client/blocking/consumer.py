"""The blocking consumer: `Consumer`.

    with Consumer("flights", bootstrap_servers="127.0.0.1:9092", group_id="delays") as consumer:
        for record in consumer: ...
        # or many at a time, which is much faster:
        batches = consumer.getmany(timeout_ms=500, max_records=1000)

Options, defaults and promises are those of `odradek.client.Consumer`. A thread stands for what is a task there: one
thread at a time polls, and `stop` counts the returned records as processed for the thread that polled last. For another
thread it does not, because the one that polled may still work on them.
"""

from __future__ import annotations

# Derived methods are functions outside of the class whose protected members they use.
# pyright: reportPrivateUsage=false
import asyncio
import logging
import re
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from types import TracebackType
from typing import Any, Generic, TypeVar, overload

from .. import consumer as asyncio_client
from ..consumer.fetched_batch import FetchedBatch, RecordColumns
from ..consumer.streams import Stream as AsyncioStream
from ..consumer.workers import signals_to
from ..core.options import check_numbers
from ..errors import ClientStopped
from ..record import ConsumerRecord, K, TopicPartition, V
from .callbacks import RebalanceListener, ThreadedListener
from .derivation import BlockingClient, at_once, options_of, waiting
from .loop_thread import Closer
from .polled_consumer import PolledConsumer
from .streams import Stream

_log = logging.getLogger(__name__)

R = TypeVar("R")
# How long a poll of `batches` waits; it ends sooner when there are records.
_LONG_POLL_MS = 60_000

Handler = Callable[[ConsumerRecord[Any, Any]], object]
DeadLetters = Callable[[ConsumerRecord, Exception], object]


class Consumer(BlockingClient, Iterator[ConsumerRecord[K, V]], Generic[K, V]):
    """Reads topics. Use `with`, or `start()` and `stop()`. Only one thread may poll at a time: see ConcurrentPoll.

    Keys and values are bytes, or what the deserializers return; `Consumer[str, dict[str, int]]` tells a type checker.
    Deserializers run on the clients' thread, so they must return at once.
    """

    _inner: PolledConsumer

    @options_of(PolledConsumer)
    def __init__(self, inner: PolledConsumer) -> None:
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
            if self._polled_by is None or self._polled_by is caller:
                await self._inner.stop(timeout_ms)
            else:
                await self._inner.stop_by_other(timeout_ms)

        self._stop_by(work)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error in the user's code, the records that it worked on are not processed.
        if kind is None:
            self.stop()
        else:
            self._stop_by(self._inner.stop_by_other)

    def _closer(self) -> Closer:
        return self._inner.stop_by_other

    @property
    def is_connected(self) -> bool:
        """Whether a connection to any broker is open now; lost ones are opened again by themselves."""

        async def work() -> bool:
            return self._inner.is_connected

        return self._call(work)

    # -- Poll

    def _poll(self, work: Callable[[], Coroutine[Any, Any, R]], give_back: Callable[[R], object]) -> R:
        caller = threading.current_thread()

        async def poll() -> R:
            found = await work()
            self._polled_by = caller
            return found

        return self._call(poll, give_back)

    def getmany(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Return up to `max_records` (`max_poll_records` if none) records by partition; none after `timeout_ms`.

        A further call says that the records of the last one are processed. Raises the error of a partition once (the
        other partitions can be read on), and the error that ended the membership. Raises DeserializationFailed while
        the next record of a partition cannot be deserialized: `seek` behind it.
        """
        return self._poll(
            lambda: self._inner.getmany(timeout_ms=timeout_ms, max_records=max_records), self._inner.give_back_records
        )

    def getbatches(
        self, *, timeout_ms: float = 0, max_bytes: int = 1_048_576
    ) -> dict[TopicPartition, list[FetchedBatch]]:
        """Return whole record batches by partition: `max_bytes` and at most one batch more; none after `timeout_ms`.

        For copies that keep codecs and timestamps, and for fast passes over values. Positions move behind the batches,
        and all else is as with `getmany`.
        """
        return self._poll(
            lambda: self._inner.getbatches(timeout_ms=timeout_ms, max_bytes=max_bytes), self._inner.give_back_batches
        )

    def getone(self) -> ConsumerRecord[K, V]:
        """Return the next record, and wait for it without a limit. The record before it then counts as processed.

        Raises ClientStopped when the consumer is stopped meanwhile.
        """
        return self._poll(self._inner.getone, self._inner.give_back_record)

    def batches(self, *, max_bytes: int = 4_194_304) -> Iterator[RecordColumns]:
        """Yield records by column, partition by partition, until the consumer is stopped.

        A column is decoded when it is asked for: `values` alone, or `to_arrow()`, is much faster than records. Records
        count as processed when the next poll begins, at the latest after those of the other partitions.
        """
        while True:
            try:
                found = self.getbatches(timeout_ms=_LONG_POLL_MS, max_bytes=max_bytes)
            except ClientStopped:
                if self._was_stopped:
                    return
                raise
            for partition, some in found.items():
                yield RecordColumns(partition, some)

    def __next__(self) -> ConsumerRecord[K, V]:
        """Return the next record, and wait for it without a limit. The record before it then counts as processed.

        The iteration ends when the consumer is stopped.
        """
        record = self._poll(self._next, self._give_back)
        if record is None:
            raise StopIteration
        return record

    async def _next(self) -> ConsumerRecord[K, V] | None:
        try:
            return await self._inner.__anext__()
        except StopAsyncIteration:
            return None

    def _give_back(self, record: ConsumerRecord[K, V] | None) -> None:
        if record is not None:
            self._inner.give_back_record(record)

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
        check_numbers(concurrency=concurrency)
        with ThreadPoolExecutor(concurrency, thread_name_prefix="odradek-handler") as pool:

            async def in_thread(call: Callable[..., object], *args: object) -> None:
                # In this context, so that `drain` and `stop` know a handler, which must not wait for itself.
                context = copy_context()
                await asyncio.get_running_loop().run_in_executor(pool, lambda: context.run(_called, call, *args))

            async def handle(record: ConsumerRecord) -> None:
                await in_thread(handler, record)

            async def bury(record: ConsumerRecord, error: Exception) -> None:
                assert dead_letters is not None
                await in_thread(dead_letters, record, error)

            async def work() -> None:
                if asked.is_set():
                    return  # by a signal that came before this began
                await self._inner.consume(
                    handle,
                    concurrency=concurrency,
                    by_key=by_key,
                    attempts=attempts,
                    retry_backoff_ms=retry_backoff_ms,
                    retry_backoff_max_ms=retry_backoff_max_ms,
                    dead_letters=None if dead_letters is None else bury,
                    drain_timeout_ms=drain_timeout_ms,
                    drain_on=(),
                )

            thread, asked = self._thread, threading.Event()

            def drain() -> None:
                asked.set()
                if thread is not None:
                    thread.post(self._inner.begin_drain)

            with signals_to(drain, drain_on):
                self._call(work)

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
            named = self._call(lambda: self._open_streams(topics))
            return {topic: [self._stream(each) for each in found] for topic, found in named.items()}
        return [self._stream(each) for each in self._call(lambda: self._match_streams(topics, count))]

    async def _open_streams(self, topics: Mapping[str, int]) -> dict[str, list[AsyncioStream]]:
        return self._inner.streams(topics)

    async def _match_streams(self, pattern: str | re.Pattern[str], count: int) -> list[AsyncioStream]:
        return self._inner.streams(pattern, count)

    def _stream(self, inner: AsyncioStream) -> Stream:
        return Stream(inner, self._call)

    # -- Subscription

    def subscribe(
        self,
        *topics: str,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics instead of earlier ones: shared with the group, or all partitions if there is no group.

        With a `pattern`, read every topic whose whole name it matches, also those that are made later (they are found
        within `metadata_max_age_ms`), but no internal ones. The `listener` is called in a thread of its own, and may
        call this consumer.
        """
        threaded = None if listener is None else ThreadedListener(listener)

        async def work() -> None:
            self._inner.subscribe(*topics, pattern=pattern, listener=threaded)

        self._call(work)

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


def _called(function: Callable[..., object], *arguments: object) -> None:
    """Call what the user has given. Raises TypeError for a coroutine, which nothing would run: the record were lost."""
    made = function(*arguments)
    if isinstance(made, Coroutine):
        made.close()
        raise TypeError("consume of the blocking client takes plain functions, not coroutines: write `def`")
