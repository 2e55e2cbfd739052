"""Where requests wait: a fetch for its `min_bytes`, anything else that an event will complete.

A waiting request is parked under keys (the partitions it looks at) with a deadline. Waking a key asks every request
parked under it whether it can be answered now; the deadline asks a last time. Nothing polls. Wakes within one turn of
the event loop are merged, so that a fetch woken by the first of many appends sees them all.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from .timers import TimerHandle, Timers

Answer = TypeVar("Answer")
# Asked with expired=False when woken (None: not yet), with expired=True at the deadline, when it must answer.
Attempt = Callable[[bool], Answer | None]


class _Parked(Generic[Answer]):
    __slots__ = ("attempt", "future", "keys", "timer")

    def __init__(self, keys: tuple[Hashable, ...], attempt: Attempt[Answer], future: asyncio.Future[Answer]) -> None:
        self.keys = keys
        self.attempt = attempt
        self.future = future
        self.timer: TimerHandle | None = None


class Purgatory:
    """The waiting requests of one broker."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._parked: dict[_Parked[object], None] = {}
        # Invariant: a parked request stands under each of its keys, and under no other; no key maps to an empty dict.
        self._by_key: dict[Hashable, dict[_Parked[object], None]] = {}
        self._woken: dict[Hashable, None] = {}
        self._scheduled = False

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, keys: Iterable[Hashable], timeout_ms: int, attempt: Attempt[Answer]) -> asyncio.Future[Answer]:
        """Waits until `attempt` answers, at the latest after `timeout_ms`. Cancelling the future takes it out."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        parked = _Parked(tuple(keys), attempt, future)
        for key in parked.keys:
            self._by_key.setdefault(key, {})[parked] = None  # type: ignore[index]
        self._parked[parked] = None  # type: ignore[index]
        parked.timer = self._timers.after(timeout_ms, lambda: self._try(parked, True))
        future.add_done_callback(lambda _: self._remove(parked))
        return future

    def wake(self, key: Hashable) -> None:
        """Something happened at `key`; costs one look-up where nobody waits."""
        if key in self._by_key:
            self._woken[key] = None
            if not self._scheduled:
                self._scheduled = True
                asyncio.get_running_loop().call_soon(self._run_woken)

    def expire_all(self) -> None:
        """Answers everyone now with what there is: the broker is stopping."""
        for parked in list(self._parked):
            self._try(parked, True)

    def _run_woken(self) -> None:
        self._scheduled = False
        woken, self._woken = self._woken, {}
        tried: set[_Parked[object]] = set()
        for key in woken:
            for parked in list(self._by_key.get(key, ())):
                if parked not in tried:
                    tried.add(parked)
                    self._try(parked, False)

    def _try(self, parked: _Parked[Answer], expired: bool) -> None:
        if parked.future.done():
            return
        try:
            answer = parked.attempt(expired)
        except Exception as error:  # noqa: BLE001 - handed to whoever waits on the future, not swallowed
            parked.future.set_exception(error)
            return
        if answer is not None:
            parked.future.set_result(answer)

    def _remove(self, parked: _Parked[Answer]) -> None:
        del self._parked[parked]  # type: ignore[arg-type]
        if parked.timer is not None:
            parked.timer.cancel()
        for key in parked.keys:
            waiting = self._by_key.get(key)
            if waiting is not None:
                waiting.pop(parked, None)  # type: ignore[arg-type]
                if not waiting:
                    del self._by_key[key]
