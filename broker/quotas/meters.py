"""Meters: one for each that uses a quota, a bounded number of them.

Client ids are invented by clients. A meter that nobody has used for an hour is forgotten, and past `MOST_METERS` the
one that was used longest ago: a client that invents an id for each request gets no more memory of the broker.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

# Of each key. Some 600 bytes each, with eleven samples 1.5 KB.
MOST_METERS: Final = 10_000
# As in Kafka.
IDLE_MS: Final = 3_600_000

Meter = TypeVar("Meter")


class Meters(Generic[Meter]):
    """The meters of one key by who shares them."""

    def __init__(self, make: Callable[[], Meter]) -> None:
        self._make = make
        # With the time of the last use; what was used last stands last.
        self._meters: OrderedDict[Hashable, tuple[Meter, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._meters)

    def of(self, who: Hashable, now_ms: int) -> Meter:
        """Return the meter of somebody, a new one where there is none."""
        known = self._meters.pop(who, None)
        if known is None:
            self._make_room(now_ms)
        meter = self._make() if known is None else known[0]
        self._meters[who] = meter, now_ms
        return meter

    def clear(self) -> None:
        """Forget all."""
        self._meters.clear()

    def _make_room(self, now_ms: int) -> None:
        while self._meters:
            _, used_ms = next(iter(self._meters.values()))
            if len(self._meters) < MOST_METERS and now_ms - used_ms < IDLE_MS:
                return
            self._meters.popitem(last=False)
