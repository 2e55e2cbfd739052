"""Waiting for what is about to happen on this event loop, or in a thread beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

# For a machine on which much else runs.
WITHIN_S = 60


async def until(true: Callable[[], object]) -> None:
    """Look again until something is true."""
    async with asyncio.timeout(WITHIN_S):
        while not true():
            await asyncio.sleep(0.002)


async def accepted(ask: Callable[[], Awaitable[Any]], *passing: int) -> Any:
    """Ask again while the answer has an error, or one of these: a coordinator loads, say, or a transaction is ended."""
    async with asyncio.timeout(WITHIN_S):
        while (error := (answer := await ask()).error_code) and (not passing or error in passing):
            await asyncio.sleep(0.001)
    return answer
