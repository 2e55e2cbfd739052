"""The purgatory: requests that wait for an event, such as a fetch for its `min_bytes`.

A waiting request is parked under keys (its partitions), with a deadline. When a key is woken, every request under it
tries to complete; at its deadline it completes with what there is. Nothing polls. Wakes in one turn of the event loop
are merged: a fetch that the first of many appends wakes sees all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from .timers import TimerHandle, Timers

Result = TypeVar("Result")
# The keys of the requests that are tried in one turn. A request looks at each of its partitions again.
KEYS_PER_TURN = 1_000
# Called with expired=False when woken: None means not yet. Called with expired=True at the deadline: it must return a
# response.
Attempt = Callable[[bool], Result | None]


class _Parked(Generic[Result]):
    __slots__ = ("attempt", "future", "keys", "timer")

    def __init__(self, keys: tuple[Hashable, ...], attempt: Attempt[Result], future: asyncio.Future[Result]) -> None:
        self.keys = keys
        self.attempt = attempt
        self.future = future
        self.timer: TimerHandle | None = None


class Purgatory:
    """The waiting requests of one broker."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._parked: dict[_Parked[object], None] = {}
        # Invariant: a parked request is under each of its keys and under no other; no key maps to an empty dict.
        self._by_key: dict[Hashable, dict[_Parked[object], None]] = {}
        self._woken: dict[Hashable, None] = {}
        # Requests that were woken and wait for their turn.
        self._due: dict[_Parked[object], None] = {}
        self._scheduled = False

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, keys: Iterable[Hashable], timeout_ms: int, attempt: Attempt[Result]) -> asyncio.Future[Result]:
        """Return the response of `attempt` once it has one, after `timeout_ms` at the latest.

        Cancelling the future removes the request.
        """
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        parked = _Parked(tuple(keys), attempt, future)
        for key in parked.keys:
            self._by_key.setdefault(key, {})[parked] = None  # type: ignore[index]
        self._parked[parked] = None  # type: ignore[index]
        parked.timer = self._timers.after(timeout_ms, lambda: self._try(parked, True))
        future.add_done_callback(lambda _: self._remove(parked))
        return future

    def wake(self, key: Hashable) -> None:
        """Let the requests under `key` try to complete. Costs one look-up if there are none."""
        if key in self._by_key:
            self._woken[key] = None
            if not self._scheduled:
                self._scheduled = True
                asyncio.get_running_loop().call_soon(self._run_woken)

    def expire_all(self) -> None:
        """Complete every request now with what there is, because the broker stops."""
        for parked in list(self._parked):
            self._try(parked, True)

    def _run_woken(self) -> None:
        self._scheduled = False
        woken, self._woken = self._woken, {}
        for key in woken:
            self._due.update(self._by_key.get(key, ()))
        due, tried_keys = self._due, 0
        while due and tried_keys < KEYS_PER_TURN:
            parked = next(iter(due))
            del due[parked]
            tried_keys += len(parked.keys)
            self._try(parked, False)
        if due and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run_woken)

    def _try(self, parked: _Parked[Result], expired: bool) -> None:
        if parked.future.done():
            return
        try:
            response = parked.attempt(expired)
        except Exception as error:  # noqa: BLE001 - passed on to the future, not swallowed
            parked.future.set_exception(error)
            return
        if response is not None:
            parked.future.set_result(response)

    def _remove(self, parked: _Parked[Result]) -> None:
        del self._parked[parked]  # type: ignore[arg-type]
        self._due.pop(parked, None)  # type: ignore[arg-type]
        if parked.timer is not None:
            parked.timer.cancel()
        for key in parked.keys:
            waiting = self._by_key.get(key)
            if waiting is not None:
                waiting.pop(parked, None)  # type: ignore[arg-type]
                if not waiting:
                    del self._by_key[key]
