"""What clients cost that have not logged in: the bytes of their requests, and of the tokens that are checked.

Nobody knows who they are, so they have little of both, and those who are logged in lose nothing to them. A login has
some hundred bytes; the largest tokens have a hundred KiB.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol, TypeVar, cast

from ..clock import Clock
from ..timers import Timers
from ..turns import keeper
from .connection_memory import ConnectionMemory, Holder

# Of all strangers together, beyond the first 4 KiB of each.
STRANGER_BYTES = 16 * 1024 * 1024
# Tokens of more than 4 KiB that are checked at a time.
MAX_LARGE = 16

Result = TypeVar("Result")


class _Stranger(Holder, Protocol):
    """A connection whose client has not logged in."""

    client_host: str


def _address_of(holder: Holder) -> str:
    return cast(_Stranger, holder).client_host


class StrangerMemory(ConnectionMemory):
    """The memory of strangers, fair by address: who finds no room takes it from the address that holds the most."""

    uncounted_bytes = 4 * 1024

    def __init__(self, limit_bytes: int, clock: Clock, timers: Timers) -> None:
        """`limit_bytes` is that of all requests; a negative one means no limit."""
        super().__init__(min(limit_bytes, STRANGER_BYTES) if limit_bytes >= 0 else STRANGER_BYTES, clock, timers)
        # Invariant: the sums of what is held, by address; all are positive.
        self._by_address: dict[str, int] = {}

    def has_room(self, holder: Holder, size: int) -> bool:
        """Return whether `holder` may hold `size` bytes in all, after others had to go for it."""
        while not super().has_room(holder, size):
            others = self._by_address.get(_address_of(holder), 0) - self.held_by(holder)
            heaviest = max(self._by_address, key=self._by_address.__getitem__)
            if self._by_address[heaviest] <= others + size:
                return False
            self._drop_oldest(heaviest)
        return True

    def hold(self, holder: Holder, size: int) -> None:
        self._add(_address_of(holder), size - self.held_by(holder))
        super().hold(holder, size)

    def release(self, holder: Holder) -> None:
        self._add(_address_of(holder), -self.held_by(holder))
        super().release(holder)

    def _add(self, address: str, size: int) -> None:
        left = self._by_address.get(address, 0) + size
        if left:
            self._by_address[address] = left
        else:
            self._by_address.pop(address, None)

    def _drop_oldest(self, address: str) -> None:
        oldest = next(each for each in self._held if _address_of(each) == address)
        oldest.drop("it has not logged in, and clients of other addresses need the memory")


class TokenChecks:
    """The large tokens that threads check, or have in their queue: few, because each is in memory several times."""

    def __init__(self) -> None:
        self._large = 0
        # What lets connections go on when there is room, in the order in which they began to wait.
        self._waiting: dict[Callable[[], None], None] = {}

    def have_room(self, size: int) -> bool:
        """Return whether a request of so many bytes may be handled now."""
        return size <= StrangerMemory.uncounted_bytes or self._large < MAX_LARGE

    def wait(self, go_on: Callable[[], None]) -> None:
        """Let a connection go on when there is room."""
        self._waiting[go_on] = None

    def leave(self, go_on: Callable[[], None]) -> None:
        """Forget a connection that is closed."""
        self._waiting.pop(go_on, None)

    def counted(self, work: Callable[[], Result], size: int) -> Callable[[], Result]:
        """Return the work that checks a token, which counts from now until a thread has done it."""
        self._large += size > StrangerMemory.uncounted_bytes
        loop = asyncio.get_running_loop()

        def run() -> Result:
            try:
                return work()
            finally:
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(self.uncount, size)

        return run

    def uncount(self, size: int) -> None:
        """Forget a token: it is checked, or no thread takes it."""
        if size <= StrangerMemory.uncounted_bytes:
            return
        self._large -= 1
        keeper().queue(self._go_on)

    def _go_on(self) -> bool:
        """Let one that waits go on; return whether another may."""
        if self._waiting and self._large < MAX_LARGE:
            go_on = next(iter(self._waiting))
            del self._waiting[go_on]
            go_on()
        return bool(self._waiting) and self._large < MAX_LARGE
