"""Work in turns of the event loop: large responses, and long work that nobody waits for.

What a small request asks for may be large. A handler knows how many values its response gets (array elements: topics,
partitions, groups). `fill` makes one of a few values at once. Of more it returns a `LargeResponse`, which the
dispatcher makes in turns, and encodes in a thread. Nothing of it is made before its turn comes, so that thousands of
clients who ask at once cost no memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..protocol.schema import Message

R = TypeVar("R", bound=Message)

# The most values that one turn adds to a response. Each takes some 5 microseconds, with all that belongs to it.
VALUES_PER_TURN = 1_000
# A response of more is encoded in a thread; others are made and encoded in the turn of their request.
VALUES_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class LargeResponse(Generic[R]):
    """A response with the steps that fill it. Each step adds to it, and yields how many values it has added."""

    response: R
    steps: Iterator[int]

    def advance(self) -> bool:
        """Add what one turn may add; return whether there is more."""
        added = 0
        for values in self.steps:
            added += values
            if added >= VALUES_PER_TURN:
                return True
        return False


def fill(response: R, steps: Iterator[int], values: int) -> R | LargeResponse[R]:
    """Return `response` after all `steps`, or with them where there are more than a few values."""
    if values > VALUES_AT_ONCE:
        return LargeResponse(response, steps)
    for _ in steps:
        pass
    return response


def in_turns(steps: Iterator[None]) -> None:
    """Take the first step now, and one in each turn of the event loop after this."""
    for _ in steps:
        asyncio.get_running_loop().call_soon(in_turns, steps)
        return


class Turns:
    """Work of one kind, much of which may come at once: one step of all of it in each turn of the event loop."""

    def __init__(self) -> None:
        self._due: deque[Iterator[None]] = deque()
        self._has_turn = False

    def add(self, steps: Iterator[None]) -> None:
        """Take the steps in order, behind those that came before. The first one is taken now where there are none."""
        self._due.append(steps)
        if not self._has_turn:
            self._turn()

    def _turn(self) -> None:
        self._has_turn = bool(self._due)
        if self._has_turn:
            asyncio.get_running_loop().call_soon(self._turn)
            for _ in self._due[0]:
                return
            self._due.popleft()
