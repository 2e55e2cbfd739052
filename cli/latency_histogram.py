"""A histogram of latencies in bounded memory: buckets that grow with the value, each 3 % wide at most."""

from __future__ import annotations

# Each power of two has so many buckets.
_PARTS = 32
_SHIFT = 5


class LatencyHistogram:
    """Counts values in nanoseconds. A percentile is the upper end of its bucket, so it is never too low."""

    def __init__(self) -> None:
        self.count = 0
        self.max_ns = 0
        # Invariant: at most some 2,000 keys, as a value has 64 bits.
        self._buckets: dict[int, int] = {}

    def add(self, value_ns: int, count: int = 1) -> None:
        """Count a value `count` times."""
        bucket = _bucket(value_ns)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self.count += count
        self.max_ns = max(self.max_ns, value_ns)

    def percentile_ms(self, percent: float) -> float | None:
        """Return the value in ms that `percent` of the values do not exceed, None if there are none."""
        if not self.count:
            return None
        wanted, seen = self.count * percent / 100, 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return min(_upper_ns(bucket), self.max_ns) / 1e6
        return self.max_ns / 1e6


def _bucket(value_ns: int) -> int:
    exponent = max(value_ns.bit_length() - _SHIFT - 1, 0)
    return exponent * _PARTS + (value_ns >> exponent)


def _upper_ns(bucket: int) -> int:
    # The first two powers share an exponent: values below 64 have a bucket each.
    exponent = max(bucket // _PARTS - 1, 0)
    return ((bucket - exponent * _PARTS + 1) << exponent) - 1
