"""A live tail: the records that come from now on, all of them up to a rate, a sample of them above.

A burst is kept until it is shown, up to `MAX_WAITING` records and `MAX_WAITING_BYTES`. When more wait, every other one
of those goes, again and again, and the tail says how many it left out: nobody takes a sample for the whole.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field

from ...client import Consumer
from ...client.record import ConsumerRecord
from .search import Prepare, Wanted, chosen, size_of

# Shown at once, four times a second at most: what a browser draws without stopping.
SHOWN_AT_ONCE = 250
TICK_S = 0.25
MAX_WAITING = 5_000
# Records may be large: of all that wait together.
MAX_WAITING_BYTES = 16 << 20
# Of one poll.
_AT_A_TIME = 5_000


@dataclass(slots=True)
class Tick:
    """What a tail shows at once: records, and how many came and were left out since the last time."""

    records: list[ConsumerRecord] = field(default_factory=list[ConsumerRecord])
    came: int = 0
    left_out: int = 0


class Backlog:
    """Records that wait to be shown."""

    def __init__(self) -> None:
        self._waiting: deque[ConsumerRecord] = deque()
        self._waiting_bytes = 0
        self._came = self._left_out = 0

    def add(self, records: Iterable[ConsumerRecord]) -> None:
        """Add records that came; where too many wait, keep a sample."""
        for record in records:
            self._came += 1
            self._waiting.append(record)
            self._waiting_bytes += size_of(record)
            # The newest one stays, however large it is.
            while self._is_too_much():
                self._thin()

    def _is_too_much(self) -> bool:
        count = len(self._waiting)
        return count > MAX_WAITING or (count > 1 and self._waiting_bytes > MAX_WAITING_BYTES)

    def _thin(self) -> None:
        before = len(self._waiting)
        # Every other one, counted from the newest: it stays.
        self._waiting = deque(record for number, record in enumerate(self._waiting, before % 2) if number % 2)
        self._waiting_bytes = sum(map(size_of, self._waiting))
        self._left_out += before - len(self._waiting)

    def take(self) -> Tick:
        """Return what is to be shown next."""
        shown = [self._waiting.popleft() for _ in range(min(SHOWN_AT_ONCE, len(self._waiting)))]
        self._waiting_bytes -= sum(map(size_of, shown))
        tick = Tick(shown, self._came, self._left_out)
        self._came = self._left_out = 0
        return tick

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self._left_out


async def ticks(consumer: Consumer, wanted: Wanted | None, prepare: Prepare | None = None) -> AsyncGenerator[Tick]:
    """Yield what to show, four times a second, without an end; an empty tick where nothing came."""
    loop = asyncio.get_running_loop()
    backlog = Backlog()
    while True:
        until_s = loop.time() + TICK_S
        while (left_s := until_s - loop.time()) > 0:
            chunk = await consumer.getmany(timeout_ms=left_s * 1000, max_records=_AT_A_TIME)
            if prepare is not None:
                await prepare(record for records in chunk.values() for record in records)
            for records in chunk.values():
                backlog.add(await chosen(records, wanted))
            # getmany returns at once while there are records: others have their turn.
            await asyncio.sleep(0)
        yield backlog.take()
