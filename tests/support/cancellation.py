"""Interrupts a coroutine at the n-th await that waits: by a cancellation, or by whatever a test does there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any


class InterruptedAt:
    """Awaits a coroutine, and calls `interrupt` at the n-th await that waits.

    `late`: at its end instead, in the turn in which what it waited for is done. What it brought is lost.
    """

    def __init__(
        self, work: Coroutine[Any, Any, Any], number: int, interrupt: Callable[[], object], *, late: bool = False
    ) -> None:
        self._work = work
        self._number = number
        self._interrupt = interrupt
        self._late = late
        # How many awaits have waited.
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work.__await__()
        thrown: BaseException | None = None
        while True:
            try:
                waits_for = next(steps) if thrown is None else steps.throw(thrown)
            except StopIteration as end:
                return end.value
            self.waits += 1
            if self.waits == self._number:
                if self._late and waits_for is not None:
                    waits_for.add_done_callback(lambda _: self._interrupt())
                else:
                    self._interrupt()
            thrown = None
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 - passed on to the coroutine
                thrown = error


async def cancelled_at(
    number: int, work: Coroutine[Any, Any, Any], *, late: bool = False
) -> tuple[bool, asyncio.Task[Any]]:
    """Run a coroutine in a task of its own, and cancel it at its n-th await.

    Return whether it has so many, and the task, which is done.
    """
    task: asyncio.Task[Any]
    watched = InterruptedAt(work, number, lambda: task.cancel(), late=late)

    async def run() -> Any:
        return await watched

    task = asyncio.create_task(run(), name="cancelled")
    await asyncio.wait((task,))
    return watched.waits >= number, task
