"""The thread whose event loop carries out the calls of all blocking clients of a process.

    lease --first one--> the thread runs --last release--> it ends

A call holds a lease while it lasts, and a client from its start to its stop. A thread that waits for a call can be
interrupted (Ctrl-C, an exception of a signal handler). The call is then cancelled, and what it had returned but nobody
received is given back to the client. A client that the program has lost is stopped when it is collected. At the
interpreter's exit all others that still run are stopped. A forked process gets a thread of its own with its first
client.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from ..errors import ClientError, ClientStopped, ErrorCode

_log = logging.getLogger(__name__)

R = TypeVar("R")
# Closes a client that nobody stopped, within so many milliseconds.
Closer = Callable[[float], Coroutine[Any, Any, None]]

# For the clients that the program did not stop before its end.
_EXIT_TIMEOUT_MS = 5_000.0
# For a client that was lost: its records may still be sent.
_LOST_TIMEOUT_MS = 30_000.0
# For the clients of a loop that broke.
_BROKEN_TIMEOUT_MS = 500.0
# The loop's last steps close connections; a name look-up that hangs is not waited for.
_ENDED_WITHIN_S = 5.0


class LoopThreadCall(ClientError, code=ErrorCode.INVALID_REQUEST):
    """A blocking call came from the thread of the event loop, which it would wait for for ever.

    Callbacks of futures, serializers and interceptors run there. Hand such work to another thread.
    """


class ClientForked(ClientError, code=ErrorCode.INVALID_REQUEST):
    """The client was started before a fork: its thread and connections belong to the parent process."""


_OWN_THREAD = (
    "a blocking call came from the clients' own thread, which could never answer it: callbacks of futures and of "
    "options run there. Hand the work to another thread, such as by a queue"
)
_FORKED = (
    "this client was started before the process was forked, and belongs to the parent process: make and start a client "
    "after the fork"
)


class Call(Generic[R]):
    """One call of a thread, carried out by a task of the loop. `undo` gets a result that the caller did not receive."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, R]], undo: Callable[[R], object] | None) -> None:
        self._work = work
        self._undo = undo
        self._task: asyncio.Task[R] | None = None
        self._given_up = False
        self._failure: BaseException | None = None
        self._is_over = False
        # What the work returned: one element, none before.
        self._results: list[R] = []
        self._ended = threading.Lock()
        self._ended.acquire()
        # Whether the caller has the result or the error.
        self.is_delivered = False

    # -- On the loop

    def begin(self) -> None:
        """Start the task."""
        if not self._given_up:
            self._task = asyncio.get_running_loop().create_task(self._carry_out())
            self._task.add_done_callback(self._done)

    async def _carry_out(self) -> R:
        """Let the caller go on within the turn in which the work ends.

        A callback of the task would come behind what the work has set off: a `send` wakes the sender, and the caller
        would wait until the request is written, and where the broker is a thread of this process until it is handled.
        """
        result = await self._work()
        if not self._given_up:
            self._results.append(result)
            self.end(None)
        return result

    def give_up(self) -> None:
        """Cancel the task; give its result back if it has one already."""
        self._given_up = True
        if self._task is None:
            self.end(None)
        elif self._task.done():
            self._done(self._task)
        else:
            self._task.cancel()

    def _done(self, task: asyncio.Task[R]) -> None:
        try:
            if not task.cancelled():
                self._failure = task.exception()
                if self._given_up and self._failure is None and self._undo is not None:
                    undo, self._undo = self._undo, None
                    undo(task.result())
        finally:  # also where `undo` raises: the loop logs that
            self.end(self._failure)

    # -- In any thread

    def end(self, failure: BaseException | None) -> None:
        """Let the caller go on."""
        if not self._is_over:
            self._failure, self._is_over = failure, True
            self._ended.release()

    def wait(self) -> None:
        """Wait for the end. May be called again after Ctrl-C, which can come while the lock is taken already."""
        if not self._is_over:
            self._ended.acquire()

    def outcome(self) -> R:
        """Return the result after the end, or raise the error."""
        if self._failure is None and not self._results:
            self._failure = ClientStopped("the client was stopped before this call was done")
        self.is_delivered = True
        if self._failure is not None:
            raise self._failure
        return self._results[0]


class LoopThread:
    """A daemon thread with an event loop. Take it by `leased`, never directly."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._calls: set[Call[Any]] = set()
        # Guarded by the module's lock.
        self.leases = 0
        # Set by the last release, and when the loop has ended for another reason.
        self.is_ending = False
        # Set in the child of a fork, where the thread does not exist.
        self.is_forked = False
        # The asyncio clients of those that are started, each of which has a lease; used on the loop alone.
        self._clients: dict[object, Closer] = {}
        # They close clients that were lost.
        self._closing: set[asyncio.Task[None]] = set()
        # A daemon: an ordinary thread would keep the interpreter from coming to its exit handlers.
        self._thread = threading.Thread(target=self._run, name="odradek-client", daemon=True)

    def start(self) -> None:
        """Start the thread, and return when its loop runs."""
        self._thread.start()
        try:
            self._ready.wait()
        except BaseException:  # Ctrl-C: nobody will use this thread
            self.stop()
            raise

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                try:
                    runner.run(self._serve())
                except BaseException as error:  # noqa: BLE001 - such as SystemExit of a callback, which ends a loop
                    _log.error("the thread of the blocking clients has failed, and all of them with it: %r", error)
                    _forget(self)
                    runner.run(self.close_clients(_BROKEN_TIMEOUT_MS))
        finally:
            _forget(self)
            for call in list(self._calls):
                call.end(ClientStopped("the thread of the blocking clients has ended"))

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._stopping.wait()

    def stop(self) -> None:
        """Have the loop end."""
        self._ready.wait()
        assert self._stopping is not None
        self.post(self._stopping.set)

    def join(self) -> None:
        """Wait for the end of a thread that ends, unless this is that thread."""
        if threading.current_thread() is not self._thread:
            self._thread.join(_ENDED_WITHIN_S)

    def post(self, callback: Callable[[], object]) -> None:
        """Have the loop call `callback`. Nothing happens after the loop's end."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError as error:  # the loop is closed
            _log.debug("a callback came after the loop's end: %r", error)

    # -- Clients

    def add_client(self, client: object, closer: Closer) -> None:
        """Take a client that has started, with a lease of its own: `closer` closes it where the program does not."""
        take_lease()
        self._clients[client] = closer

    async def end_client(self, client: object, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Stop a client by `work`, and end its lease."""
        try:
            await work()
        finally:
            if self._clients.pop(client, None) is not None:
                release(self)

    def lose_client(self, client: object) -> None:
        """Have the loop close a client that nobody can stop any more.

        A finalizer calls this, in any thread and at any moment: it must take no lock.
        """
        if not (self.is_forked or self.is_ending):
            self.post(lambda: self._close_lost(client))

    def _close_lost(self, client: object) -> None:
        if client in self._clients:
            _log.warning("a client was lost before it was stopped: it is stopped now; use `with`, or call stop()")
            task = asyncio.get_running_loop().create_task(self._close_client(client, _LOST_TIMEOUT_MS))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _close_client(self, client: object, limit_ms: float) -> None:
        closer = self._clients[client]
        try:
            await self.end_client(client, lambda: closer(limit_ms))
        except Exception as error:  # noqa: BLE001 - nobody is there to get it
            _log.warning("a client could not be stopped in order: %s", error)

    async def close_clients(self, limit_ms: float) -> None:
        """Close all clients, within the limit."""
        await asyncio.gather(*(self._close_client(client, limit_ms) for client in self._clients))

    def count_clients(self) -> int:
        """Return how many clients are started."""
        return len(self._clients)

    # -- Calls

    def check_caller(self) -> None:
        """Raise ClientForked or LoopThreadCall if this thread must not wait for the loop."""
        if self.is_forked:
            raise ClientForked(_FORKED)
        if threading.current_thread() is self._thread:
            raise LoopThreadCall(_OWN_THREAD)

    def run(self, work: Callable[[], Coroutine[Any, Any, R]], undo: Callable[[R], object] | None = None) -> R:
        """Carry out `work` on the loop; return its result, or raise its error.

        An exception that interrupts the wait cancels `work` first. A second one does not wait for the cancellation.
        """
        call = Call(work, undo)
        self._calls.add(call)
        try:
            try:
                self.post(call.begin)
                if self.is_ending:  # its end may have missed this call
                    call.end(ClientStopped("the thread of the blocking clients has ended"))
                call.wait()
                return call.outcome()
            except BaseException:
                if not call.is_delivered:
                    self.post(call.give_up)
                    call.wait()
                raise
        finally:
            self._calls.discard(call)


_lock = threading.Lock()
_shared: LoopThread | None = None
# Threads of the parent process: their loops must be neither closed nor freed here, because that would change what the
# parent's loop waits for.
_of_the_parent: list[LoopThread] = []


def take_lease() -> LoopThread:
    """Return the shared thread, which runs until as many releases have come. The first lease starts it."""
    global _shared
    with _lock:
        if _shared is None:
            thread = LoopThread()
            thread.start()
            _shared = thread
        _shared.leases += 1
        return _shared


def release(thread: LoopThread) -> None:
    """End a lease. The last release ends the thread."""
    global _shared
    with _lock:
        thread.leases -= 1
        if thread.leases or _shared is not thread:
            return
        _shared, thread.is_ending = None, True
    thread.stop()


def _forget(thread: LoopThread) -> None:
    global _shared
    with _lock:
        thread.is_ending = True
        if _shared is thread:
            _shared = None


@contextmanager
def leased() -> Generator[LoopThread]:
    """Lease the shared thread for the block. Raises LoopThreadCall in the thread itself."""
    running = _shared
    if running is not None:
        running.check_caller()
    thread = take_lease()
    try:
        yield thread
    finally:
        release(thread)
        if thread.is_ending:
            thread.join()


def _stop_at_exit() -> None:
    """Stop the clients that the program has left running, so that queued records are sent and groups are left."""
    with _lock:
        if _shared is None:
            return
    with leased() as thread:
        if left := thread.count_clients():
            who, they = ("1 client was", "it is") if left == 1 else (f"{left} clients were", "they are")
            _log.warning("%s not stopped before the program's end: %s stopped now", who, they)
        thread.run(lambda: thread.close_clients(_EXIT_TIMEOUT_MS))


def _after_fork() -> None:
    """Leave the parent's thread to the parent."""
    global _lock, _shared
    _lock = threading.Lock()
    if _shared is not None:
        _shared.is_forked = True
        _of_the_parent.append(_shared)
        _shared = None


atexit.register(_stop_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
