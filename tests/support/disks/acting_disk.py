"""A disk on which something else happens at a step of a thread: before and after each link that the thread makes.

The thread waits until the other thing is done, so each interleaving is the same in every run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from odradek.storage.files import Disk


class ActingDisk(Disk):
    """`act` runs on the event loop at each step of a thread, once `watch` was called there."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._act: Callable[[], Awaitable[None]] | None = None

    def watch(self, act: Callable[[], Awaitable[None]]) -> None:
        """Run `act` on this loop at each step from now on."""
        self._loop, self._act = asyncio.get_running_loop(), act

    def forget_watch(self) -> None:
        """Run nothing more."""
        self._act = None

    def link(self, source: Path, target: Path) -> None:
        self._step()
        super().link(source, target)
        self._step()

    def _step(self) -> None:
        loop, act = self._loop, self._act
        if loop is None or act is None:
            return
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        # The loop makes links, too: those of a compacted segment.
        if running is None:
            asyncio.run_coroutine_threadsafe(_run(act), loop).result(60)


async def _run(act: Callable[[], Awaitable[None]]) -> None:
    await act()
