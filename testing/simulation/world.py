"""The world: virtual time, and what happens next in it, drawn by a seed.

Each simulated process (process.py) has an event loop of its own, and the world runs one callback after the other: of
the processes that have something to do, the seed draws one. Inside a process callbacks keep the order of `call_soon`,
as asyncio promises. What comes from outside (bytes, the end of a thread's work, timers) comes when the world says: the
seed draws each delay, and what comes along one direction of a connection keeps its order. When nobody has anything to
do, time jumps to what comes next.

A callback takes some microseconds of virtual time, so that no loop of work without a wait stands still.
"""

from __future__ import annotations

import gc
import heapq
from asyncio.events import Handle
from collections.abc import Callable
from contextvars import Context
from random import Random
from typing import Any, Protocol

# Virtual days begin here: 2026-01-01 UTC.
EPOCH_MS = 1_767_225_600_000
# What a callback takes, at least, and how many bits more the seed adds.
_TURN_NS = 2_000
_TURN_BITS = 13
# So many callbacks of one process may run before another one has its turn: 1 to 4.
_MORE_CALLBACKS = 3
# Python's collector runs after so many turns: what it finds may act (`__del__`). When it would run by itself depends on
# what the process has done before (cluster.py switches that off).
_COLLECTED_TURNS = 100_000


class Loop(Protocol):
    """A loop, as the world and the network see it."""

    # Invariant: whether the world has it among those that have something to do.
    is_busy: bool

    def turn(self, callbacks: int, /) -> int:
        """Run so many callbacks, if there are so many. Return how many."""
        ...

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Handle: ...

    def reader(self, read: Callable[[], object], /) -> Handle: ...

    def take(self, handle: Handle, /) -> None: ...


class NothingLeft(Exception):
    """What is waited for can never come: no process has anything to do, and no timer runs."""


class TooLate(Exception):
    """What is waited for has not come in the virtual time that it may take."""


class World:
    """One run of the simulation."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_ns = 0
        self.turns = 0
        # Each kind of decision has its own source: a fault more or less does not change what all others draw.
        self._order = Random(f"{seed} order")
        # When, a number that settles the order, who takes it, and what comes.
        self._to_come: list[tuple[int, int, Callable[[Any], object], Any]] = []
        self._number = 0
        # The loops that have something to do, in the order in which they got it.
        self._busy: list[Loop] = []
        # Those that run nothing, whatever they have to do.
        self.paused: set[Loop] = set()
        # The lines of the time line: when, who, what.
        self.story: list[tuple[float, str, str]] = []

    def random(self, what: str) -> Random:
        """Return a source of randomness for one kind of decision."""
        return Random(f"{self.seed} {what}")

    @property
    def now_s(self) -> float:
        """The virtual time since the begin, in seconds."""
        return self.now_ns / 1e9

    def tell(self, who: str, what: str) -> None:
        """Add a line to the time line."""
        self.story.append((self.now_s, who, what))

    def next_number(self) -> int:
        """Return a number that nothing else in this world has."""
        self._number += 1
        return self._number

    # -- What comes

    def at(self, when_s: float, take: Callable[[Any], object], item: Any) -> None:
        """Have `take` called with an item at this time, between two callbacks."""
        self._number += 1
        heapq.heappush(self._to_come, (int(when_s * 1e9), self._number, take, item))

    def note_busy(self, loop: Loop) -> None:
        """Take down that a loop has something to do."""
        loop.is_busy = True
        self._busy.append(loop)

    def run_until(self, is_over: Callable[[], bool], within_s: float) -> None:
        """Go on until `is_over`. Raises NothingLeft, TooLate."""
        ends_ns = self.now_ns + int(within_s * 1e9)
        coming = self._to_come
        while not is_over():
            while coming and coming[0][0] <= self.now_ns:
                _, _, take, item = heapq.heappop(coming)
                take(item)
            busy = [each for each in self._busy if each not in self.paused] if self.paused else self._busy
            if busy:
                self._run_one(busy)
            elif not coming:
                raise NothingLeft("it can never come: no process has anything to do, and no timer runs")
            else:
                self.now_ns = max(self.now_ns, coming[0][0])
            if self.now_ns > ends_ns:
                raise TooLate(f"it has not come within {within_s:g} s")

    def _run_one(self, busy: list[Loop]) -> None:
        """Run some callbacks of one process."""
        draw = self._order.getrandbits(32)
        loop = busy[(draw >> _TURN_BITS) % len(busy)]
        self.turns += 1
        if self.turns % _COLLECTED_TURNS == 0:
            gc.collect()
        callbacks = loop.turn(1 + (draw >> 30 & _MORE_CALLBACKS))
        if not loop.is_busy:
            self._busy.remove(loop)
        self.now_ns += (_TURN_NS + (draw & (1 << _TURN_BITS) - 1)) * callbacks
