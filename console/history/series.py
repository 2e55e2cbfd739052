"""Series of numbers over the last hour: one ring of times, and a ring of values for each name."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping

SAMPLES = 360
# 3 KiB each.
MAX_SERIES = 4_000
# What a series is named by: what it counts, and of what, such as ("lag", "group").
Name = tuple[str, str]


class Series:
    """Samples of many numbers, taken at the same times. The oldest sample goes when there are `SAMPLES`.

    Invariant: each ring is as long as `times_ms`; NaN stands where a name had no number.
    """

    def __init__(self) -> None:
        self.times_ms: array[float] = array("d")
        self._values: dict[Name, array[float]] = {}
        # Names that were left out because there are too many.
        self.left_out = 0

    def add(self, now_ms: float, values: Mapping[Name, float]) -> None:
        """Add a sample. Series without a number for an hour are forgotten."""
        count = len(self.times_ms)
        new = [name for name in values if name not in self._values]
        free = MAX_SERIES - len(self._values)
        self.left_out = max(len(new) - free, 0)
        for name in new[:free]:
            self._values[name] = array("d", [math.nan] * count)
        for name, ring in self._values.items():
            ring.append(values.get(name, math.nan))
        self.times_ms.append(now_ms)
        if len(self.times_ms) > SAMPLES:
            del self.times_ms[0]
            for ring in self._values.values():
                del ring[0]
        gone = [name for name in self._values if name not in values and all(map(math.isnan, self._values[name]))]
        for name in gone:
            del self._values[name]

    def values(self, name: Name) -> list[float | None]:
        """Return the numbers of a series, None where it has none."""
        ring = self._values.get(name)
        if ring is None:
            return [None] * len(self.times_ms)
        return [None if math.isnan(each) else each for each in ring]

    def last(self, name: Name) -> float | None:
        """Return the newest number of a series, None without one."""
        ring = self._values.get(name)
        return None if not ring or math.isnan(ring[-1]) else ring[-1]

    def as_value(self) -> dict[str, object]:
        """Return everything as plain values, for a file."""
        return {
            "times_ms": self.times_ms.tobytes(),
            "series": [[*name, ring.tobytes()] for name, ring in self._values.items()],
        }

    @classmethod
    def of_value(cls, times: bytes, series: Iterable[tuple[str, str, bytes]], since_ms: float) -> Series:
        """Return what `as_value` gave, without samples from before a time. Raises ValueError for what is none."""
        found = cls()
        found.times_ms = array("d", times)
        count = len(found.times_ms)
        keep = next((at for at, each in enumerate(found.times_ms) if each >= since_ms), count)
        keep = max(keep, count - SAMPLES)
        for kind, of, data in series:
            ring = array("d", data)
            if len(ring) == count and len(found._values) < MAX_SERIES:
                found._values[kind, of] = ring[keep:]
        found.times_ms = found.times_ms[keep:]
        return found
