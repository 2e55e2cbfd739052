"""Workers: `Consumer.consume` calls a handler for each record, in several tasks, and commits what is done.

    poll --by key or in turn--> a worker's queue --handler, attempts with back-off--> done | dead letter | failed

Records with the same partition and key go to the same worker, so their order holds. Records without a key keep the
order of their partition. At most `MAX_QUEUED` records wait for each worker; while they do, no more are polled. Where
the order does not matter, all workers take from one queue. No record costs more where there are more workers.

The end: on `drain`, a signal or a stop of the consumer the workers finish what they have, up to a limit, and that is
committed before the consumer leaves its group. After a handler has failed for good, the others stop at once. Records
that are not done are returned again by later polls.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from zlib import crc32

from ..core.clock import Backoff, monotonic_ms
from ..core.lifetime import end_tasks, of_the_user
from ..core.serialization import Serialized
from ..errors import ClientStopped, DeserializationFailed, HandlerFailed
from ..record import ConsumerRecord, TopicPartition
from .options import WorkOptions

if TYPE_CHECKING:
    from ..producer import Producer

_log = logging.getLogger(__name__)

T = TypeVar("T")
Handler = Callable[[ConsumerRecord[Any, Any]], Awaitable[object]]
DeadLetters = Callable[[ConsumerRecord, Exception], Awaitable[object]]

# Enough that no worker waits for the next poll; few, so that a rebalance is not held up by what waits.
MAX_QUEUED = 16
# Where a record comes from, and why it is here.
TOPIC_HEADER = "__dead_letter_topic"
PARTITION_HEADER = "__dead_letter_partition"
OFFSET_HEADER = "__dead_letter_offset"
ERROR_HEADER = "__dead_letter_error"
# What is told of a handler's error. One of a decoder holds all that it could not read: with it a dead letter would be
# larger than its record, and too large for the topic.
MAX_ERROR_CHARS = 500

# The workers whose handlers the code that runs now belongs to, also in tasks and threads that a handler waits for.
_around: ContextVar[frozenset[Workers]] = ContextVar("workers around", default=frozenset())


class Outstanding(Protocol):
    """The records that workers have."""

    def has(self, record: Any) -> bool:
        """Return whether the record is still this consumer's."""
        ...

    def finish(self, record: Any, now_ms: float) -> None:
        """Note that a record is done."""
        ...

    def count(self) -> int:
        """Return how many records are not done."""
        ...


class Source(Protocol):
    """What polls for workers: a Poller, or the HeldRecords of a share consumer."""

    def begin_by_record(self) -> Outstanding: ...

    async def records_in_flight(self, room: Callable[[], int]) -> Mapping[TopicPartition, Sequence[Any]]: ...

    async def end_by_record(self) -> None: ...


class Workers:
    """The tasks that call one handler. `run` is all of `consume`."""

    def __init__(
        self,
        handler: Callable[[Any], Awaitable[object]],
        options: WorkOptions,
        poller: Source,
        dead_letters: DeadLetters | None,
        deserialize: Callable[[ConsumerRecord], Awaitable[ConsumerRecord[Any, Any]]],
    ) -> None:
        self._handler = handler
        self._options = options
        self._poller = poller
        self._in_flight = poller.begin_by_record()
        self._dead_letters = dead_letters
        self._deserialize = deserialize
        self._backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms)
        self._queues = Queues(options.concurrency, options.by_key)
        # Set when a handler has failed for good, or the workers must drain: nothing more is polled.
        self.halt = asyncio.Event()
        # Set when everything is committed and the workers have ended.
        self.ended = asyncio.Event()
        # Stops the consumer after the handlers, one of which has asked for it.
        self.then: Callable[[], Awaitable[None]] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        # Of how many records the handler is called, or the dead letters.
        self._at_work = 0
        # Set when a worker has taken a record, or has ended.
        self._moved = asyncio.Event()
        # Why a worker has ended, the first one.
        self._failure: BaseException | None = None

    async def run(self, drain_on: Sequence[signal.Signals]) -> None:
        """Handle records until `halt`, a stop of the consumer or one of these signals. Raises HandlerFailed."""
        loop = asyncio.get_running_loop()
        try:
            with signals_to(lambda: loop.call_soon_threadsafe(self.halt.set), drain_on):
                self._start()
                await self._feed()
                await self._finish()
        finally:
            try:
                await self._end()
            finally:
                self.ended.set()
                if self.then is not None:
                    await self.then()

    async def drain(self) -> None:
        """End `run`, and wait until it has committed. A handler that asks does not wait."""
        self.halt.set()
        if not self.are_around:
            await self.ended.wait()

    @property
    def are_around(self) -> bool:
        """Whether a handler of theirs calls, and so must not wait for them."""
        return self in _around.get()

    async def _end(self) -> None:
        """End the workers, and commit what they have done."""
        try:
            await end_tasks(self._tasks)
        finally:
            await self._poller.end_by_record()

    # -- Records for the workers

    async def _feed(self) -> None:
        """Poll for the workers until they must drain, or the consumer stops. Raises HandlerFailed, KafkaError."""
        while True:
            await unless(self.halt, self._wait_until(lambda: self._queues.room > 0))
            if self.halt.is_set():
                return  # perhaps without room: a poll that may take nothing would hold the loop until its time is over
            try:
                found = await unless(self.halt, self._poller.records_in_flight(lambda: self._queues.room))
            except ClientStopped:
                return
            for records in (found or {}).values():
                for record in records:
                    self._queues.put(record)

    async def _wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait for the workers. Raises HandlerFailed if a handler has failed for good."""
        while True:
            self._moved.clear()
            if self._failure is not None:
                raise self._failure
            if ready():
                return
            await self._moved.wait()

    async def _finish(self) -> None:
        """Finish what is queued, up to `drain_timeout_ms`. Raises HandlerFailed."""
        try:
            async with asyncio.timeout(self._options.drain_timeout_ms / 1000):
                await self._wait_until(lambda: not self._at_work and not self._in_flight.count())
        except TimeoutError:
            _log.warning("consume: %d records were not done within the time to drain", self._in_flight.count())

    # -- The workers

    def _start(self) -> None:
        for number in range(self._options.concurrency):
            task = asyncio.create_task(self._work(number), name=f"worker {number}")
            task.add_done_callback(self._ended)
            self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if self._failure is None:
            what = "a worker of consume was cancelled: the program cancelled all tasks"
            self._failure = error or ClientStopped(what)
        self._moved.set()
        self.halt.set()

    async def _work(self, number: int) -> None:
        _around.set(_around.get() | {self})
        while True:
            record = await self._queues.get(number)
            if self._in_flight.has(record):
                self._at_work += 1
                try:
                    await self._process(record)
                finally:
                    self._at_work -= 1
                self._in_flight.finish(record, monotonic_ms())
            self._moved.set()

    async def _process(self, record: ConsumerRecord) -> None:
        """Call the handler until it succeeds; after the last attempt hand the record to the dead letters."""
        try:
            given = await self._deserialize(record)
        except DeserializationFailed as error:
            if self._dead_letters is None:
                raise
            await of_the_user(self._dead_letters(record, error))
            return
        failures = 0
        while True:
            try:
                await of_the_user(self._handler(given))
                return
            except Exception as error:
                failures += 1
                place = f"{record.topic}-{record.partition} at offset {record.offset}"
                if failures >= self._options.attempts:
                    if self._dead_letters is None:
                        raise HandlerFailed(
                            f"the handler failed for {place}: {error!r:.{MAX_ERROR_CHARS}}", given
                        ) from error
                    await of_the_user(self._dead_letters(record, error))
                    return
                _log.info("consume: attempt %d for %s failed: %.*r", failures, place, MAX_ERROR_CHARS, error)
            await asyncio.sleep(self._backoff.pause_ms(failures) / 1000)
            if not self._in_flight.has(record):
                return  # another consumer has it now


class Queues:
    """The records that wait for workers: for each by its keys, or for all in one queue."""

    def __init__(self, workers: int, by_key: bool) -> None:
        self._queues = [asyncio.Queue[ConsumerRecord]() for _ in range(workers if by_key else 1)]
        # As many as find a worker at once are not held up by what waits.
        self._most = MAX_QUEUED if by_key else MAX_QUEUED + workers
        # How many queues have so many records. Invariant: one entry for each number up to `_most`.
        self._of_size = [len(self._queues), *(0 for _ in range(self._most))]
        self._longest = 0

    def put(self, record: ConsumerRecord) -> None:
        """Have a record wait for its worker. There must be room."""
        place = f"{record.topic}-{record.partition}".encode()
        queue = self._queues[crc32(record.key or b"", crc32(place)) % len(self._queues)]
        self._grow(queue.qsize(), 1)
        queue.put_nowait(record)

    async def get(self, worker: int) -> ConsumerRecord:
        """Return the next record for a worker."""
        queue = self._queues[worker % len(self._queues)]
        record = await queue.get()
        self._grow(queue.qsize() + 1, -1)
        return record

    @property
    def room(self) -> int:
        """How many records may come now, all of them for one worker; 0 while one of the queues is full."""
        return self._most - self._longest

    def _grow(self, size: int, by: int) -> None:
        """Note that a queue of a size grows by one, or shrinks."""
        self._of_size[size] -= 1
        self._of_size[size + by] += 1
        # A queue grows and shrinks by one: so does the longest one.
        if size + by > self._longest or not self._of_size[self._longest]:
            self._longest = size + by


def told(dead_letters: DeadLetters) -> DeadLetters:
    """Return what hands a record to the dead letters, and says so."""

    async def bury(record: ConsumerRecord, error: Exception) -> None:
        _log.warning("consume: %s-%d at offset %d goes to the dead letters: %.*r", *record[:3], MAX_ERROR_CHARS, error)
        await dead_letters(record, error)

    return bury


class DeadLetterTopic:
    """Writes records to one topic, with key, value, timestamp and headers as they were, and four headers more.

    The producer's serializers have no part in it.
    """

    def __init__(self, producer: Producer[Any, Any], topic: str) -> None:
        self._producer = producer
        self._topic = topic

    async def __call__(self, record: ConsumerRecord, error: Exception) -> None:
        """Write a record, and wait until it is acknowledged. Raises KafkaError."""
        headers = [
            *record.headers,
            (TOPIC_HEADER, record.topic.encode()),
            (PARTITION_HEADER, b"%d" % record.partition),
            (OFFSET_HEADER, b"%d" % record.offset),
            (ERROR_HEADER, f"{error!r:.{MAX_ERROR_CHARS}}".encode(errors="backslashreplace")),
        ]
        key, value = (None if raw is None else Serialized(raw) for raw in (record.key, record.value))
        # A record of an old format has no time.
        at_ms = record.timestamp_ms if record.timestamp_ms >= 0 else None
        await self._producer.send_and_wait(self._topic, value, key=key, headers=headers, timestamp_ms=at_ms)


class _SignalHandler:
    """Calls what the blocks of `signals_to` want called at one signal, and then the handler before it.

    All blocks share it, because they may end in any order: the last one that ends puts the handler before it back.
    """

    def __init__(self, before: Any) -> None:
        self.before = before
        self.calls: list[Callable[[], object]] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        for call in list(self.calls):
            call()
        if callable(self.before) and number != signal.SIGINT:
            self.before(number, frame)


@contextmanager
def signals_to(call: Callable[[], object], signals: Sequence[signal.Signals]) -> Generator[None]:
    """Have signals call `call` inside the block, in the main thread, and the handler before it too, except for Ctrl-C.

    A handler that the program has given to an event loop is called as well: the loop hears of the signal by itself.
    Only the main thread can take signals.
    """
    taken: dict[signal.Signals, _SignalHandler] = {}
    for each in dict.fromkeys(signals):
        before = signal.getsignal(each)
        handler = before if isinstance(before, _SignalHandler) else _SignalHandler(before)
        try:
            signal.signal(each, handler)
        except ValueError:
            _log.info("consume: %s does not end it: only the main thread can handle signals", each.name)
            continue
        handler.calls.append(call)
        taken[each] = handler
    try:
        yield
    finally:
        for each, handler in taken.items():
            handler.calls.remove(call)
            # Another handler that was set meanwhile stays; where it calls this one, this one calls the one before.
            if not handler.calls and signal.getsignal(each) is handler:
                signal.signal(each, handler.before)


async def unless(event: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work`; cancel it, and return None, if `event` is set before."""
    task, stop = asyncio.create_task(work, name="poll"), asyncio.create_task(event.wait(), name="drain")
    try:
        await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        await end_tasks([each for each in (task, stop) if not each.done()])
