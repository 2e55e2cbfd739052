"""Counts of requests by API: plain integers that the dispatcher writes and a scrape reads.

A request costs two additions here. The first request of each API is timed, and one in `TIMED_ONE_IN` behind it, because
two looks at the clock cost two percent of a one-record Produce; shares and averages of so many requests are those of
all. The time of a request goes from its frame to its encoded response, and includes its wait (for data, for followers,
for members).
"""

from __future__ import annotations

from time import perf_counter_ns

from ...protocol.apis import AnyKey
from ...protocol.errors import ErrorCode

# A power of two: the dispatcher tests the low bits of the count. One in eight cost a percent of a one-record Produce.
TIMED_ONE_IN = 32
# The shortest bucket ends at 2**16 ns, 66 microseconds; each next one is twice as long, and the last has no end.
FIRST_BUCKET_BITS = 16
BUCKETS = 21


def api_name(key: AnyKey) -> str:
    """Return Kafka's name of an API, such as OffsetCommit."""
    return key.name.title().replace("_", "")


class RequestCounts:
    """The requests of one API since the start of the broker."""

    __slots__ = ("buckets", "errors", "name", "requests", "timed_ns")

    def __init__(self, key: AnyKey) -> None:
        self.name = api_name(key)
        self.requests = 0
        # The requests, and batches of a Produce, that were rejected. Bounded by the table of errors.
        self.errors: dict[ErrorCode, int] = {}
        # Of the timed requests: how many took so long, and the sum.
        self.buckets = [0] * BUCKETS
        self.timed_ns = 0

    def reject(self, code: ErrorCode) -> None:
        """Count a request that failed."""
        self.errors[code] = self.errors.get(code, 0) + 1

    def observe_since(self, began_ns: int, _: object = None) -> None:
        """Note the time of a request that is done now and began at `began_ns` (perf_counter_ns)."""
        took_ns = perf_counter_ns() - began_ns
        self.timed_ns += took_ns
        self.buckets[min(max(took_ns.bit_length() - FIRST_BUCKET_BITS, 0), BUCKETS - 1)] += 1

    @staticmethod
    def bounds_s() -> list[float]:
        """Return where the buckets end, in seconds, but for the last, which has no end."""
        return [(1 << FIRST_BUCKET_BITS + number) / 1e9 for number in range(BUCKETS - 1)]


class ApiCounts(dict[int, RequestCounts]):
    """The counts of each API that was asked, by its key. Bounded by the table of routes."""

    def of(self, key: AnyKey) -> RequestCounts:
        """Return the counts of an API."""
        return self.setdefault(int(key), RequestCounts(key))
