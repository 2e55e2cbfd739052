"""Waiting for what is about to happen on this event loop, or in a thread beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

# For a machine on which much else runs.
WITHIN_S = 60


async def until(true: Callable[[], bool]) -> None:
    """Look again until something is true."""
    async with asyncio.timeout(WITHIN_S):
        while not true():
            await asyncio.sleep(0.002)
