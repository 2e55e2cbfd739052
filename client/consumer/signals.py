"""Wake-ups between the parts of a running consumer."""

from __future__ import annotations

import asyncio


class Signals:
    """Three events: work for the fetcher, news for a waiting poll, and positions that were found."""

    def __init__(self) -> None:
        # Set while there may be something to fetch.
        self.fetch = asyncio.Event()
        # Set while a waiting poll should look for records, errors or the end of a rebalance.
        self.poll = asyncio.Event()
        # Replaced each time it is set, so that every waiter waits for the next time.
        self._positions = asyncio.Event()

    def wake_fetcher(self) -> None:
        """Have the fetcher look for partitions to fetch."""
        self.fetch.set()

    def wake_poll(self) -> None:
        """Have a waiting poll look again."""
        self.poll.set()

    def positions_changed(self) -> None:
        """Wake the callers that wait for a position."""
        self._positions.set()
        self._positions = asyncio.Event()

    async def wait_for_positions(self) -> None:
        """Wait until positions change."""
        await self._positions.wait()
