"""Whether a client works and stops in time, on a machine that may be busy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from odradek.client.errors import ErrorCode, KafkaError, UnknownTopic

T = TypeVar("T")
LIMIT_MS = 50
# What closing takes beyond the limit, at most.
CLOSING_S = 0.5


async def answered(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call until it is in time: the limits of clients whose broker goes away are short for a busy machine."""
    while True:
        try:
            return await call()
        except KafkaError as error:
            if not isinstance(error, UnknownTopic) and error.code is not ErrorCode.REQUEST_TIMED_OUT:
                raise


async def in_time(stop: Callable[..., Awaitable[None]]) -> None:
    """Stop within the limit and the time for closing, not counting how late the busy machine wakes the loop."""
    loop, late_s, stopped = asyncio.get_running_loop(), 0.0, asyncio.Event()

    async def measure() -> None:
        nonlocal late_s
        while not stopped.is_set():
            due = loop.time() + 0.005
            await asyncio.sleep(0.005)
            late_s += loop.time() - due

    clock = asyncio.ensure_future(measure())
    began = loop.time()
    async with asyncio.timeout(30):
        await stop(timeout_ms=LIMIT_MS)
    lasted = loop.time() - began
    stopped.set()
    await clock
    assert lasted - late_s <= LIMIT_MS / 1000 + CLOSING_S
