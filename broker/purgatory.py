"""The purgatory: requests that wait for an event, such as a fetch for its `min_bytes`.

A waiting request is parked under keys (its partitions), with a deadline. When a key is woken, every request under it
tries to complete; at its deadline it completes with what there is. Nothing polls. Wakes in one turn of the event loop
are merged: a fetch that the first of many appends wakes sees all of them.

It also remembers in which order keys were woken last, so that a wide fetch session learns what has changed since it
looked, without a look at each of its partitions.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, TypeVar

from .timers import TimerHandle, Timers
from .turns import keeper

Result = TypeVar("Result")
# Keys whose last wake is remembered: as many as the widest fetch session has. A reader for whom that is not enough
# looks at everything.
REMEMBERED_KEYS = 10_000
# Called with expired=False when woken: None means not yet. Called with expired=True at the deadline: it must return a
# response.
Attempt = Callable[[bool], Result | None]


class Parked(asyncio.Future[Result]):
    """A waiting request: the future of its response. Cancelling it removes the request."""

    __slots__ = ("attempt", "keys", "purgatory", "then", "timer")

    def __init__(self, purgatory: Purgatory, keys: tuple[Hashable, ...], attempt: Attempt[Result]) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.purgatory = purgatory
        self.keys = keys
        self.attempt = attempt
        self.timer: TimerHandle | None = None
        # Called with this future in the turn of the loop in which it is done. Callbacks of asyncio come a turn later,
        # which costs a consumer at the end of a partition a tenth of its CPU time.
        self.then: Callable[[asyncio.Future[Result]], object] | None = None

    def cancel(self, msg: Any = None) -> bool:
        """Remove the request. False where it has its response."""
        if not super().cancel(msg):
            return False
        self.end()
        return True

    def try_(self, expired: bool) -> None:
        """Complete the request if its response can be made, or must be."""
        if self.done():
            return
        try:
            response = self.attempt(expired)
        except Exception as error:  # noqa: BLE001 - passed on to the future, not swallowed
            self.set_exception(error)
        else:
            if response is None:
                return
            self.set_result(response)
        self.end()

    def end(self) -> None:
        """Leave the purgatory, and call `then`."""
        self.purgatory.remove(self)
        if self.then is not None:
            self.then(self)


class Purgatory:
    """The waiting requests of one broker."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._parked: dict[Parked[Any], None] = {}
        # Invariant: a parked request is under each of its keys and under no other; no key maps to an empty dict.
        self._by_key: dict[Hashable, dict[Parked[Any], None]] = {}
        self._woken: dict[Hashable, None] = {}
        # Requests that were woken and wait for their turn.
        self._due: dict[Parked[Any], None] = {}
        self._scheduled = False
        # Key -> number of its last wake. Invariant: ascending, at most REMEMBERED_KEYS.
        self._changed: OrderedDict[Hashable, int] = OrderedDict()
        # The number of the last wake.
        self.wakes = 0
        # What was woken up to this number may not be in `_changed`.
        self._forgotten = 0

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, keys: Iterable[Hashable], timeout_ms: int, attempt: Attempt[Result]) -> Parked[Result]:
        """Return the response of `attempt` once it has one, after `timeout_ms` at the latest.

        Cancelling the future removes the request.
        """
        parked = Parked(self, tuple(keys), attempt)
        for key in parked.keys:
            self._by_key.setdefault(key, {})[parked] = None
        self._parked[parked] = None
        parked.timer = self._timers.after(timeout_ms, partial(parked.try_, True))
        return parked

    def wake(self, key: Hashable) -> None:
        """Let the requests under `key` try to complete, and remember the wake. Costs little if there are none."""
        self.wakes += 1
        changed = self._changed
        changed[key] = self.wakes
        changed.move_to_end(key)
        if len(changed) > REMEMBERED_KEYS:
            _, self._forgotten = changed.popitem(last=False)
        if key in self._by_key:
            self._woken[key] = None
            if not self._scheduled:
                self._schedule()

    def changed_since(self, wakes: int) -> list[Hashable] | None:
        """Return the keys that were woken since `self.wakes` was `wakes`; None where that is too long ago to tell."""
        if wakes < self._forgotten:
            return None
        found: list[Hashable] = []
        for key, number in reversed(self._changed.items()):
            if number <= wakes:
                break
            found.append(key)
        return found

    def forget(self, key: Hashable) -> None:
        """Forget when a key was woken, because it goes away. Each reader then looks at everything once."""
        if self._changed.pop(key, None) is not None:
            self._forgotten = self.wakes

    def expire_all(self) -> None:
        """Complete every request now with what there is, because the broker stops."""
        for parked in list(self._parked):
            parked.try_(True)

    def _schedule(self) -> None:
        self._scheduled = True
        asyncio.get_running_loop().call_soon(self._run_woken)

    def _run_woken(self) -> None:
        self._scheduled = False
        woken, self._woken = self._woken, {}
        for key in woken:
            self._due.update(self._by_key.get(key, ()))
        due, ends_ns = self._due, 0
        try:
            while due:
                parked = next(iter(due))
                del due[parked]
                parked.try_(False)
                if due:
                    ends_ns = ends_ns or keeper().slice_end()
                    if keeper().clock() >= ends_ns:
                        break
        finally:
            if due and not self._scheduled:
                self._schedule()

    def remove(self, parked: Parked[Any]) -> None:
        """Forget a request that is done."""
        del self._parked[parked]
        self._due.pop(parked, None)
        if parked.timer is not None:
            parked.timer.cancel()
        for key in parked.keys:
            waiting = self._by_key.get(key)
            if waiting is not None:
                waiting.pop(parked, None)
                if not waiting:
                    del self._by_key[key]
