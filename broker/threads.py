"""A thread for one piece of work that may last: the event loop's own executor is for what is short."""

import asyncio
import contextlib
import threading
from collections.abc import Callable


def in_thread(work: Callable[[], None], name: str) -> "asyncio.Future[None]":
    """Runs `work` in a thread that does not keep the process from ending, as one of the loop's own executor would."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def tell(error: BaseException | None) -> None:
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
        except Exception as raised:  # noqa: BLE001 - handed to the loop, not swallowed
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
