"""Threads for work that waits for the disk: a few for each kind of work and data directory. None delays another.

An fsync that hangs holds up the fsyncs of its data directory alone: reads, look-ups, checkpoints and other directories
have threads of their own. The queue of each has a bound: a partition has one fsync at a time, a connection one request
and one piece of a response, the background tasks one step each.

No thread keeps the process from exiting, as those of asyncio's executor would: after a stop the disk may hang for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from ..storage.errors import StorageError
from .clock import Clock
from .timers import Timers

# Work of a thread that takes longer is logged, while it hangs and when it is done.
SLOW_MS = 5_000

Result = TypeVar("Result")
_log = logging.getLogger(__name__)


class Work(Enum):
    """A kind of work, with the number of threads that it may have in each data directory."""

    # Batches of several partitions become durable at the same time.
    FSYNC = "fsync", 8
    # Pieces of responses that are not in the page cache: at most 1 MiB of memory each.
    READ = "read", 8
    # Finds the position of an offset or a timestamp. By timestamp it may read a whole segment.
    LOOK_UP = "look-up", 4
    CHECKPOINT = "checkpoint", 1
    # Batches of 8 MiB and more. Their bytes count as those of requests.
    WRITE = "write", 2
    # Removal of files, and what else nobody waits for.
    BACKGROUND = "background", 2
    # Compression and conversion of large batches. One may take 256 MiB; more threads would share Python's lock.
    CONVERSION = "conversion", 2
    # Decoding and encoding of messages of very many values (network/large_messages.py), which keeps a processor busy.
    LARGE_MESSAGE = "large message", 2

    def __init__(self, label: str, threads: int) -> None:
        self.label = label
        self.threads = threads


class ThreadPool:
    """At most `size` threads, which start when there is work and stay until `close`."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._changed = threading.Condition()
        # These are read and written under `_changed`.
        self._queue: deque[Callable[[], None]] = deque()
        self._threads = 0
        self._idle = 0
        self._is_closed = False

    def submit(self, work: Callable[[], None]) -> None:
        """Run `work`, which must not raise, in one of the threads, in the order of the calls."""
        with self._changed:
            self._queue.append(work)
            if self._idle >= len(self._queue):
                self._changed.notify()
                return
            if self._threads == self._size:
                return
            self._threads += 1
            number = self._threads
        try:
            threading.Thread(target=self._run, name=f"{self._name}-{number}", daemon=True).start()
        except RuntimeError:
            self._without_thread()

    def _without_thread(self) -> None:
        """Leave the queue to the other threads, and where there are none, do its work here.

        At the interpreter's exit Python starts no thread any more, and a broker stops then: it must still write.
        """
        with self._changed:
            self._threads -= 1
            if self._threads:
                return
            left = list(self._queue)
            self._queue.clear()
        for work in left:
            work()

    def close(self) -> None:
        """End the threads when their work is done. Work that is already queued is still run."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    if self._is_closed:
                        return
                    self._idle += 1
                    self._changed.wait()
                    self._idle -= 1
                work = self._queue.popleft()
            work()
            # A thread that waits keeps nothing alive: a view of deleted files, a large request, a token.
            del work


class Pool(Protocol):
    """What runs work beside the event loop: a ThreadPool, or what a simulation has in its place."""

    def submit(self, work: Callable[[], None]) -> None: ...

    def close(self) -> None: ...


# Makes a pool of this name with at most so many threads.
NewPool = Callable[[str, int], Pool]


def _submit(pool: Pool, work: Callable[[], Result], future: asyncio.Future[Result], ended: Callable[[], None]) -> None:
    """Run `work` in a thread. Then, on the event loop, give the future what came of it, and call `ended`."""
    # Thousands may wait for a thread, and Python's collector looks at all that is made for each: no closures here.
    pool.submit(partial(_run, asyncio.get_running_loop(), work, future, ended))


def _run(
    loop: asyncio.AbstractEventLoop,
    work: Callable[[], Result],
    future: asyncio.Future[Result],
    ended: Callable[[], None],
) -> None:
    try:
        settle = partial(future.set_result, work())
    except BaseException as error:  # noqa: BLE001 - passed on to the future, not swallowed
        settle = partial(future.set_exception, error)
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_finish, future, ended, settle)


def _finish(future: asyncio.Future[Any], ended: Callable[[], None], settle: Callable[[], None]) -> None:
    if not future.done():
        settle()
    # Who waits for the end of all work comes behind those who wait for this one.
    ended()


class _Running(NamedTuple):
    """Work that was handed over and is not done."""

    kind: Work
    directory: Path
    since_ms: int


class DiskThreads:
    """The thread pools of one broker. Everything here is called on the event loop."""

    def __init__(self, timers: Timers, clock: Clock, new_pool: NewPool = ThreadPool) -> None:
        self._timers = timers
        self._clock = clock
        self._new_pool = new_pool
        # Bounded by the kinds of work and the data directories.
        self._pools: dict[tuple[Work, Path], Pool] = {}
        self._running: dict[asyncio.Future[Any], _Running] = {}
        # Set whenever some work has ended.
        self._ended = asyncio.Event()
        # The work that the last look found running, and the work that was logged.
        self._seen: set[asyncio.Future[Any]] = set()
        self._reported: set[asyncio.Future[Any]] = set()
        self._is_watching = False

    def run(self, kind: Work, directory: Path, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Return a future of the result of `work`, run in a thread for this kind of work in this data directory.

        Cancelling the future does not stop the thread.
        """
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        pool = self._pools.get((kind, directory))
        if pool is None:
            name = f"odradek-{kind.label.replace(' ', '-')}"
            pool = self._pools[kind, directory] = self._new_pool(name, kind.threads)
        self._running[future] = _Running(kind, directory, self._clock.monotonic_ms())
        self._watch()
        _submit(pool, work, future, partial(self._forget, future))
        return future

    async def wait_idle(self, directory: Path) -> None:
        """Return when no work of this data directory is under way, nor any whose future was cancelled."""
        while any(each.directory == directory for each in self._running.values()):
            self._ended.clear()
            await self._ended.wait()
            # Tasks that waited for that work have their turn now (_finish), and may begin more.
            await asyncio.sleep(0)

    def alone(self, work: Callable[[], None], name: str) -> asyncio.Future[None]:
        """Run `work` in a thread of its own, which ends with it."""
        return in_thread(work, name, self._new_pool)

    def close(self) -> None:
        """End the threads when their work is done."""
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def _forget(self, future: asyncio.Future[Any]) -> None:
        running = self._running.pop(future)
        self._ended.set()
        if future in self._reported:
            self._reported.discard(future)
            took_s = (self._clock.monotonic_ms() - running.since_ms) / 1000
            _log.warning("a %s in %s took %.1f s", running.kind.label, running.directory, took_s)

    def _watch(self) -> None:
        """Look again in SLOW_MS whether some work hangs. Without work no timer runs."""
        if not self._is_watching:
            self._is_watching = True
            self._timers.after(SLOW_MS, self._report_slow)

    def _report_slow(self) -> None:
        """Log work that this look and the one before have found running: a jump of the clock alone is no hang."""
        self._is_watching = False
        now_ms = self._clock.monotonic_ms()
        slow: dict[tuple[Work, Path], list[_Running]] = {}
        for future in self._seen & self._running.keys() - self._reported:
            self._reported.add(future)
            running = self._running[future]
            slow.setdefault((running.kind, running.directory), []).append(running)
        self._seen = set(self._running)
        for (kind, directory), waiting in slow.items():
            text = "%s: %s does not end: %d wait for the disk, the first for %.1f s"
            waits_s = (now_ms - min(each.since_ms for each in waiting)) / 1000
            _log.warning(text, directory, kind.label, len(waiting), waits_s)
        if self._running:
            self._watch()


class BackgroundWork:
    """Runs work on files that nobody waits for. The broker waits for it when it stops.

    `on_storage_error` is called on the event loop with every StorageError that the work raises.
    """

    def __init__(self, threads: DiskThreads, on_storage_error: Callable[[StorageError], None]) -> None:
        self._threads = threads
        self._on_storage_error = on_storage_error
        self._running: set[asyncio.Future[None]] = set()

    @property
    def running(self) -> list[asyncio.Future[None]]:
        """The work that is under way."""
        return list(self._running)

    def run(self, work: Callable[[], None], directory: Path, failed: str, kind: Work = Work.BACKGROUND) -> None:
        """Run `work` in a thread of a data directory. If it fails, log one line that begins with `failed`."""
        self.watch(self._threads.run(kind, directory, work), failed)

    def watch(self, running: asyncio.Future[None], failed: str) -> None:
        """Wait at a stop for work that was begun elsewhere, too, and log its failure as `run` does."""
        self._running.add(running)
        running.add_done_callback(lambda done: self._done(done, failed))

    def _done(self, done: asyncio.Future[None], failed: str) -> None:
        self._running.discard(done)
        error = None if done.cancelled() else done.exception()
        if error is not None:
            _log.error("%s: %s", failed, error)
        if isinstance(error, StorageError):
            self._on_storage_error(error)


class Workers:
    """A few threads for work whose result one client waits for. The queue has a bound; past it `run` returns None."""

    def __init__(self, name: str, threads: int, most_queued: int, new_pool: NewPool = ThreadPool) -> None:
        self._pool = new_pool(name, threads)
        self._most = most_queued
        self._queued = 0

    def run(self, work: Callable[[], Result]) -> asyncio.Future[Result] | None:
        """Run `work` in a thread. The future has its result or its exception. None: too much waits already."""
        if self._queued >= self._most:
            return None
        self._queued += 1
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        _submit(self._pool, work, future, self._forget_one)
        return future

    def _forget_one(self) -> None:
        self._queued -= 1

    def close(self) -> None:
        """End the threads when their work is done."""
        self._pool.close()


def in_thread(work: Callable[[], None], name: str, new_pool: NewPool = ThreadPool) -> asyncio.Future[None]:
    """Run `work` in a thread of its own. It does not keep the process from exiting, as the loop's executor would."""
    workers = Workers(name, 1, 1, new_pool)
    future = workers.run(work)
    assert future is not None, "nothing is queued before it"
    workers.close()
    return future
