"""Work in turns of the event loop: long work is a generator, and one keeper ends its slices by a clock.

Every client waits while one turn of the loop runs. So each turn has one slice of some milliseconds for long work,
which all share that ask for it in this turn; a step that was begun ends before the slice does. What is left waits in
the keeper's queue, and has the next turns' slices in order. So work says where it may be interrupted (each `yield`,
each `pause`), and never how much of it a turn may hold.

What a small request asks for may be large. A handler knows how many values its response gets (array elements: topics,
partitions, groups). `fill` makes one of a few values at once, where the clock allows it. Of more it returns a
`LargeResponse`, which the dispatcher makes in turns, and encodes in a thread. Nothing of it is made before its turn
comes, so that thousands of clients who ask at once cost no memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from ..protocol.schema import Message

R = TypeVar("R", bound=Message)

# How long a slice lasts. On a machine three times slower, a slice with a long last step still ends in 50 ms.
SLICE_NS = 5_000_000
# A response of more values is made in turns, however fast the machine: each takes some 200 bytes until it is sent.
VALUES_AT_ONCE = 2_000

# Returns whether there is more to do.
Work = Callable[[], object]


class Keeper:
    """The slices of one event loop. `clock` says when they end, in nanoseconds: a broker passes its own as it starts.

    Before that no slice ends.
    """

    def __init__(self, clock: Callable[[], int] = int) -> None:
        self.clock = clock
        self._ends_ns = 0
        # Whether this turn of the loop has a slice. Invariant: then `_turn` is scheduled.
        self._is_open = False
        # Whether the next turn's slice belongs to the coroutine that was woken.
        self._is_given = False
        self._queue: deque[Work] = deque()

    def begin(self) -> int:
        """Return when the slice of this turn of the loop ends; it begins now if nobody has asked for it before."""
        if not self._is_open:
            self._ends_ns = self.clock() + SLICE_NS
            self._is_open = True
            asyncio.get_running_loop().call_soon(self._turn)
        return self._ends_ns

    def slice_end(self) -> int:
        """Return the same for work that seldom takes a slice. Others learn of it when it queues up."""
        return self._ends_ns if self._is_open else self.clock() + SLICE_NS

    @property
    def is_over(self) -> bool:
        """Whether the slice of this turn of the loop is over."""
        return self.begin() <= self.clock()

    def take(self, steps: Iterator[object]) -> bool:
        """Take steps until the slice is over, at least one; return whether there may be more."""
        return self._take_until(self.begin(), steps)

    def take_now(self, steps: Iterator[object]) -> bool:
        """Take steps in a slice of their own, for work that is seldom long; return whether there may be more."""
        return self._take_until(self.clock() + SLICE_NS, steps)

    def run(self, steps: Iterator[object]) -> None:
        """Take steps now, and in the next turns what this slice has no time for."""
        if self.take(steps):
            self.queue(partial(self.take, steps))

    def run_now(self, steps: Iterator[object]) -> None:
        """Do the same in a slice of their own: few steps are taken at once, whatever else has had its turn."""
        if self.take_now(steps):
            self.queue(partial(self.take, steps))

    def _take_until(self, ends_ns: int, steps: Iterator[object]) -> bool:
        clock = self.clock
        return any(clock() >= ends_ns for _ in steps)

    async def finish(self, steps: Iterator[object]) -> None:
        """Take all steps; return after the last one."""
        while self.take(steps):
            await self.next()

    async def pause(self) -> None:
        """Let others have their turns where the slice is over. A coroutine calls this after each of its steps."""
        if self.is_over:
            await self.next()

    async def next(self) -> None:
        """Return in a turn of the loop whose slice is the caller's."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.queue(partial(self._give, turn))
        await turn

    def queue(self, work: Work) -> None:
        """Do work in one of the next turns of the loop, and again behind the others while it returns True."""
        self.begin()
        self._queue.append(work)

    def _give(self, turn: asyncio.Future[None]) -> None:
        if not turn.done():
            turn.set_result(None)
            self._is_given = True

    def _turn(self) -> None:
        self._is_open = False
        if not self._queue and not self._is_given:
            return
        # The next turn is scheduled first, so that it comes before a coroutine that is woken, and after a failure, too.
        ends_ns = self.begin()
        if self._is_given:
            self._is_given = False
            return
        while self._queue:
            work = self._queue.popleft()
            if work():
                self._queue.append(work)
            if self._is_given or self.clock() >= ends_ns:
                return


_keepers: WeakKeyDictionary[asyncio.AbstractEventLoop, Keeper] = WeakKeyDictionary()


def keeper() -> Keeper:
    """Return the keeper of the running event loop. Without one nobody waits, and work is done at once."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return Keeper()
    found = _keepers.get(loop)
    if found is None:
        found = _keepers[loop] = Keeper()
    return found


def forget(loop: asyncio.AbstractEventLoop) -> None:
    """Forget the keeper of a loop that runs no more: its clock and its queue may hold the loop, and so all of it."""
    _keepers.pop(loop, None)


@dataclass(frozen=True, slots=True)
class LargeResponse(Generic[R]):
    """A response with the steps that fill it."""

    response: R
    steps: Iterator[object]


# A response that is complete, or one that is made in turns.
Made = R | LargeResponse[R]


def fill(response: R, steps: Iterator[object], values: int) -> Made[R]:
    """Return `response` after all `steps`; with those that are left where they add many values, or take long."""
    if values > VALUES_AT_ONCE:
        return LargeResponse(response, steps)
    # Most responses have one step, which needs no clock.
    next(steps, None)
    for _ in steps:
        return LargeResponse(response, steps) if keeper().take_now(steps) else response
    return response
