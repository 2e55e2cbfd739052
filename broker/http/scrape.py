"""A scrape: what the pages of metrics read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ...storage.errors import StorageError
from ..network.acceptor import Acceptor
from ..services import Services
from ..threads import DiskThreads, Work
from .unread_ages import READ_WITHIN_S, UnreadAges

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Questions:
    """What scrapes ask threads. A disk that hangs holds a scrape for READ_WITHIN_S, and gets each question once."""

    _open: dict[tuple[Path, str], asyncio.Future[Any]] = field(default_factory=dict[tuple[Path, str], Any])

    async def ask(self, threads: DiskThreads, directory: Path, what: str, work: Callable[[], Result]) -> Result | None:
        """Return what `work` returns in a thread; None where it fails, or there is no answer in time."""
        key = directory, what
        asked = self._open.get(key)
        if asked is None:
            asked = self._open[key] = threads.run(Work.BACKGROUND, directory, work)
        await asyncio.wait({asked}, timeout=READ_WITHIN_S)
        if not asked.done():
            return None
        if self._open.get(key) is asked:
            del self._open[key]
        try:
            return asked.result()
        except (StorageError, OSError):
            return None


@dataclass(frozen=True, slots=True)
class ScrapedBroker:
    """The broker as its pages see it."""

    services: Services
    acceptor: Acceptor
    ages: UnreadAges
    questions: Questions = field(default_factory=Questions)


# Makes the pieces of a page. It may wait for look-ups in files before.
MakePage = Callable[[ScrapedBroker], Awaitable[Iterator[str]]]
