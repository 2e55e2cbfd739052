"""A scrape: what the pages of metrics read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from ..services import Services
from .unread_ages import UnreadAges


@dataclass(frozen=True, slots=True)
class Scraped:
    """The broker as its pages see it."""

    services: Services
    # The number of open connections, and whether the broker accepts more.
    connections: Callable[[], int]
    listens: Callable[[], bool]
    ages: UnreadAges


# Makes the pieces of a page. It may wait for look-ups in files before.
MakePage = Callable[[Scraped], Awaitable[Iterator[str]]]
