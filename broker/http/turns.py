"""Steps that are taken one a turn of the event loop before a page can begin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


async def take_turns(steps: Iterable[object]) -> None:
    """Take every step, each in a turn of its own."""
    for _ in steps:
        await asyncio.sleep(0)
