"""What all blocking clients share, and the functions that derive their methods from those of the asyncio clients.

    class Admin(BlockingClient):
        @options_of(asyncio_client.Admin)
        def __init__(self, inner: asyncio_client.Admin) -> None: ...

        list_topics = waiting(asyncio_client.Admin.list_topics)

A derived method has the parameters, the result and the documentation of its model, also for type checkers.
"""

from __future__ import annotations

# Derived methods are functions outside of the class whose protected members they use.
# pyright: reportPrivateUsage=false
import asyncio
import weakref
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from ..core.lifetime import StartedClient
from ..core.options import KnowsOtherNames
from ..errors import ClientStopped
from ..record import TopicPartition
from .loop_thread import Closer, LoopThread, leased

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])


class BlockingClient(KnowsOtherNames):
    """A client whose calls are carried out on the shared thread. Use `with`, or `start()` and `stop()`.

    Any thread may call it. A client that was stopped is not started again: make a new one.
    """

    def __init__(self, inner: StartedClient) -> None:
        self._inner: Any = inner
        # From the start to the stop.
        self._thread: LoopThread | None = None
        self._was_stopped = False
        self._starting: asyncio.Lock | None = None
        self._finalizer: weakref.finalize[..., Any]

    def start(self) -> None:
        """Reach the cluster. Raises NoBrokerReachable if no bootstrap server responds."""
        self._check_process()
        with leased() as thread:
            thread.run(lambda: self._start(thread))

    async def _start(self, thread: LoopThread) -> None:
        if self._starting is None:
            self._starting = asyncio.Lock()
        async with self._starting:
            if self._was_stopped:
                raise ClientStopped("this client was stopped: make a new one")
            if self._thread is None:
                await self._inner.start()
                thread.add_client(self._inner, self._closer())
                self._thread = thread
                # The thread must not hold this object: then a notebook's cell that runs twice would not let it go.
                self._finalizer = weakref.finalize(self, thread.lose_client, self._inner)
                self._finalizer.atexit = False

    def stop(self) -> None:
        """Close the connections; may be called again."""
        self._stop_by(self._inner.stop)

    def _stop_by(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Stop by `work`. In a forked process the client is only forgotten: it belongs to the parent."""
        thread = self._thread
        if thread is None or thread.is_forked or thread.is_ending:
            self._thread = None
            return
        with leased() as running:
            running.run(lambda: self._end(thread, work))

    async def _end(self, thread: LoopThread, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await thread.end_client(self._inner, work)
        finally:
            self._was_stopped = True
            if self._thread is thread:
                self._thread = None
                self._finalizer.detach()

    def _closer(self) -> Closer:
        """Return what closes the asyncio client where nobody stops this one. It does not hold this one."""
        inner = self._inner
        return lambda limit_ms: asyncio.wait_for(inner.stop(), limit_ms / 1000)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:  # it may have started before Ctrl-C came
            self._stop_by(self._inner.stop)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop_by(self._inner.stop)

    def _check_process(self) -> None:
        thread = self._thread
        if thread is not None:
            thread.check_caller()
            if thread.is_ending:
                raise ClientStopped("the thread of the blocking clients has ended: make a new client")

    def _call(self, work: Callable[[], Coroutine[Any, Any, R]], undo: Callable[[R], object] | None = None) -> R:
        """Carry out `work` on the loop. `undo` is called there with a result that an interrupted caller missed."""
        self._check_process()
        with leased() as thread:
            return thread.run(work, undo)

    def _at_once(self, function: Callable[[], R]) -> R:
        """Call a function that does not wait on the loop, so that nothing else runs beside it."""

        async def work() -> R:
            return function()

        return self._call(work)


class ConnectedClient(BlockingClient):
    """A client that can say whether it is connected."""

    @property
    def is_connected(self) -> bool:
        """Whether a connection to any broker is open now; lost ones are opened again by themselves."""
        return self._at_once(lambda: self._inner.is_connected)


class PollingClient(ConnectedClient, Iterator[R]):
    """A consumer. One thread at a time polls it."""

    def _poll_records(self, work: Callable[[], Coroutine[Any, Any, dict[TopicPartition, list[R]]]]) -> Any:
        """Poll in this thread. What it was interrupted before it had is given back."""
        raise NotImplementedError

    def getone(self) -> R:
        """Return the next record, and wait for it without a limit. Raises ClientStopped if the consumer is stopped."""
        return self._next(self._inner.getone)

    def __next__(self) -> R:
        """Return the next record, and wait for it without a limit. The iteration ends when the consumer is stopped."""
        try:
            return self._next(self._inner.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None

    def _next(self, poll: Callable[[], Coroutine[Any, Any, Any]]) -> R:
        async def work() -> dict[TopicPartition, list[R]]:
            record = await poll()
            return {TopicPartition(record.topic, record.partition): [record]}

        ((record,),) = self._poll_records(work).values()
        return record

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After an error in the user's code, the records that it worked on are not processed.
        if kind is None:
            self.stop()
        else:
            self._stop_by(self._inner._close)

    def _closer(self) -> Closer:
        return self._inner._close


def options_of(kind: Callable[P, A]) -> Callable[[Callable[[Any, A], None]], Callable[Concatenate[Any, P], None]]:
    """Give an `__init__` that takes the asyncio client the options from which that client is made."""

    def decorate(init: Callable[[Any, A], None]) -> Callable[Concatenate[Any, P], None]:
        @wraps(kind.__init__)
        def with_options(self: Any, *args: P.args, **options: P.kwargs) -> None:
            init(self, kind(*args, **options))

        return with_options

    return decorate


def waiting(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """Derive a method that waits for a coroutine's result."""

    @wraps(method)
    def call(self: BlockingClient, *args: P.args, **options: P.kwargs) -> R:
        return self._call(lambda: method(self._inner, *args, **options))

    return call


def at_once(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Derive a method that does not wait."""

    @wraps(method)
    def call(self: BlockingClient, *args: P.args, **options: P.kwargs) -> R:
        return self._at_once(lambda: method(self._inner, *args, **options))

    return call


def documented_by(model: object) -> Callable[[F], F]:
    """Give a method, which is no derived one because of its types, the documentation of its model."""

    def decorate(method: F) -> F:
        method.__doc__ = model.__doc__
        return method

    return decorate


def waiting_function(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """Derive a function that waits for a coroutine's result."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        with leased() as thread:
            return thread.run(lambda: function(*args, **options))

    return call
