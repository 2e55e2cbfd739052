"""Threads for blocking work: the event loop's executor for short work, a thread of its own for long work."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable

from ..storage.errors import StorageError

_log = logging.getLogger(__name__)


class ThreadRunner:
    """Runs short work on files in the event loop's executor. The broker waits for it when it stops.

    `on_storage_error` is called on the event loop with every StorageError that the work raises.
    """

    def __init__(self, on_storage_error: Callable[[StorageError], None]) -> None:
        self._on_storage_error = on_storage_error
        self._running: set[asyncio.Future[None]] = set()

    @property
    def running(self) -> list[asyncio.Future[None]]:
        """The work that is under way."""
        return list(self._running)

    def run(self, work: Callable[[], None], failed: str) -> None:
        """Run `work` in a thread. If it fails, log one line that begins with `failed`."""
        running = asyncio.get_running_loop().run_in_executor(None, work)
        self._running.add(running)
        running.add_done_callback(lambda done: self._done(done, failed))

    def _done(self, done: asyncio.Future[None], failed: str) -> None:
        self._running.discard(done)
        error = None if done.cancelled() else done.exception()
        if error is not None:
            _log.error("%s: %s", failed, error)
        if isinstance(error, StorageError):
            self._on_storage_error(error)


def in_thread(work: Callable[[], None], name: str) -> asyncio.Future[None]:
    """Run `work` in a thread of its own. It does not keep the process from exiting, as the loop's executor would."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def finish(error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            work()
        except Exception as raised:  # noqa: BLE001 - passed on to the future, not swallowed
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(finish, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
