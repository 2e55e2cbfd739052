"""Time in the client: the two clocks, and waiting for an event with a time limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

from ..errors import RequestTimedOut

T = TypeVar("T")


def monotonic_ms() -> float:
    """Return a clock that only goes forward, in milliseconds; for time-outs and pauses."""
    return time.monotonic() * 1000


def wall_clock_ms() -> int:
    """Return the milliseconds since 1970 UTC; for timestamps of records."""
    return time.time_ns() // 1_000_000


async def wait_for(event: asyncio.Event, limit_ms: float | None) -> bool:
    """Wait until `event` is set, at most `limit_ms` (None: without a limit). Return whether it was set."""
    try:
        async with asyncio.timeout(None if limit_ms is None else limit_ms / 1000):
            return await event.wait()
    except TimeoutError:
        return False


async def api_result(call: Awaitable[T], limit_ms: float) -> T:
    """Return the result of a call. Raises RequestTimedOut after `limit_ms`: it may have been carried out."""
    limit = asyncio.timeout(limit_ms / 1000)
    try:
        async with limit:
            return await call
    except TimeoutError:
        if not limit.expired():
            raise
        raise RequestTimedOut(f"no broker has answered within {limit_ms:g} ms (default_api_timeout_ms)") from None
