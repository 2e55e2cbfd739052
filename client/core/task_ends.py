"""The end of tasks: of those that a stop cancels, that callers share, and that a cancellation must not cut in half."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Coroutine
from typing import Any, TypeVar

from ..errors import ClientStopped, ErrorCode, KafkaError

T = TypeVar("T")

_log = logging.getLogger(__name__)

# A task of the client ends at once. One that runs the user's code may take its time, and a stop must not.
_PATIENCE_S = 0.2


class CancelledInside(Exception):
    """Code of the user raised CancelledError, and nobody had cancelled the task that runs it."""


async def end_tasks(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended. A task that goes on is left alone, with a line in the log."""
    for task in tasks:
        task.cancel()
    pending = (await asyncio.wait(tasks, timeout=_PATIENCE_S))[1] if tasks else set[asyncio.Task[Any]]()
    for task in pending:
        why = "the task %r still runs %g s after its cancellation; nobody waits for it any longer"
        _log.warning(why, task.get_name(), _PATIENCE_S)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # retrieved: nobody else asks for it


def broken_task(task: asyncio.Task[Any], what: str) -> KafkaError | None:
    """Return why a task of a running client has ended, None if it has returned.

    The client cancels it with its stop alone. Another cancellation comes with the end of the event loop, or from a
    program that cancels all tasks.
    """
    if task.cancelled():
        return ClientStopped(f"{what} was cancelled: the program cancelled all tasks, or its event loop has ended")
    error = task.exception()
    if error is None:
        return None
    failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{what} broke: {error!r}")
    failure.__cause__ = error
    return failure


async def of_the_user(call: Awaitable[T]) -> T:
    """Return the result of a call of the user's code.

    Raises CancelledInside where it raises CancelledError and nobody has cancelled this task: it awaited something that
    was cancelled, and the task of the client that runs it would end without a word.
    """
    try:
        return await call
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise CancelledInside("it awaited something that was cancelled") from error


async def without_cancelling(future: asyncio.Future[T]) -> T:
    """Return the result of a future that goes on where the caller is cancelled. Nobody is told of its error then.

    `asyncio.shield` does the same, but logs that error from Python 3.14 on.
    """
    try:
        if not future.done():
            await asyncio.wait((future,))
    except asyncio.CancelledError:
        future.add_done_callback(retrieve)
        raise
    return future.result()


def retrieve(future: asyncio.Future[Any]) -> None:
    """Mark a future's exception as retrieved, so that asyncio does not warn of it."""
    if not future.cancelled():
        future.exception()


async def shared(task: asyncio.Task[T]) -> T:
    """Return the result of a task that other callers may wait for, too: a caller that is cancelled leaves it running.

    Raises ClientStopped if the stop of the client has cancelled the task: its caller was not cancelled.
    """
    try:
        return await without_cancelling(task)
    except asyncio.CancelledError:
        caller = asyncio.current_task()
        if task.cancelled() and caller is not None and not caller.cancelling():
            raise ClientStopped("this client was stopped") from None
        raise


async def to_the_end(work: Coroutine[Any, Any, None], name: str) -> None:
    """Finish `work`, such as closing, although the caller is cancelled meanwhile; then raise the cancellation.

    `work` must end soon by itself.
    """
    task = asyncio.create_task(work, name=name)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancellation = error
    task.result()
    if cancellation is not None:
        raise cancellation
