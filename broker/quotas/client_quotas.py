"""Client quotas: what clients use of this broker, and how long one waits that has used more than its quota.

Each broker counts for itself. A key that nobody has a quota for is not counted. The answers are waiting times in
milliseconds, 0 within the quota: the response goes out at once, and the connection waits afterwards.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, Generic, TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ..clock import Clock
from ..configs.server_table import QuotaTable
from .bounds import Bound, Bounds
from .entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
)
from .rates import Rate, TokenBucket

# Of each key. Some 600 bytes each, with eleven samples 1.5 KB.
MAX_METERS: Final = 10_000
# As in Kafka.
IDLE_MS: Final = 3_600_000

_NS_PER_PERCENT = 1e7

Meter = TypeVar("Meter")


class Meters(Generic[Meter]):
    """The meters of one key by who shares them, a bounded number.

    Client ids are invented by clients. A meter that nobody has used for an hour is forgotten, and past MAX_METERS the
    one that was used longest ago: a client that invents an id for each request gets no more memory of the broker.
    """

    def __init__(self, make: Callable[[], Meter]) -> None:
        self._make = make
        # By the hash of who it is, because a client id may have 32 KiB; with the time of the last use. What was used
        # last stands last.
        self._meters: OrderedDict[int, tuple[Meter, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._meters)

    def of(self, who: Hashable, now_ms: int) -> Meter:
        """Return the meter of somebody, a new one where there is none."""
        key = hash(who)
        known = self._meters.pop(key, None)
        if known is None:
            self._make_room(now_ms)
        meter = self._make() if known is None else known[0]
        self._meters[key] = meter, now_ms
        return meter

    def clear(self) -> None:
        """Forget all."""
        self._meters.clear()

    def _make_room(self, now_ms: int) -> None:
        while self._meters:
            _, used_ms = next(iter(self._meters.values()))
            if len(self._meters) < MAX_METERS and now_ms - used_ms < IDLE_MS:
                return
            self._meters.popitem(last=False)


# All quotas of one entity after a change; none: it has none any more.
Change = tuple[Entity, Mapping[str, float]]


class ClientQuotas:
    """The quotas of one broker, and what counts against them."""

    def __init__(self, quotas: Mapping[Entity, Mapping[str, float]], config: QuotaTable, clock: Clock) -> None:
        self._clock = clock
        self._bounds = Bounds(quotas)
        samples, self._sample_ms = config.quota_window_num, config.quota_window_size_seconds * 1000
        mutation_samples, mutation_ms = config.controller_quota_window_num, config.controller_quota_window_size_seconds
        self._burst_s = (samples - 1) * config.quota_window_size_seconds
        self._rates = {
            key: Meters(lambda: Rate(samples, self._sample_ms))
            for key in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONNECTION_CREATION_RATE)
        }
        self._buckets = Meters(lambda: TokenBucket(mutation_samples, mutation_ms * 1000))
        # Whether a quota concerns what is fetched: asked for each Fetch.
        self.limits_fetches = self._limits_fetches()
        # Called after each change.
        self.when_changed: Callable[[], None] = lambda: None

    def __contains__(self, key: str) -> bool:
        """Return whether anybody has such a quota."""
        return key in self._bounds

    def change(self, changes: Iterable[Change]) -> None:
        """Put other quotas in use. What was counted before counts still."""
        for entity, values in changes:
            self._bounds.put(entity, values)
        self.limits_fetches = self._limits_fetches()
        for key, meters in self._rates.items():
            if key not in self._bounds:
                meters.clear()
        if CONTROLLER_MUTATION_RATE not in self._bounds:
            self._buckets.clear()
        self.when_changed()

    def _limits_fetches(self) -> bool:
        return CONSUMER_BYTE_RATE in self._bounds or REQUEST_PERCENTAGE in self._bounds

    # -- What clients use

    def produced(self, user: str, client_id: str, size: int) -> int:
        """Count the bytes of a Produce request; return how long the client waits."""
        return self._used(PRODUCER_BYTE_RATE, user, client_id, size)

    def worked(self, user: str, client_id: str, time_ns: int) -> int:
        """Count the time of a request; return how long the client waits, at most one sample."""
        return min(self._used(REQUEST_PERCENTAGE, user, client_id, time_ns / _NS_PER_PERCENT), self._sample_ms)

    def fetches(self, user: str, client_id: str, size: int) -> int:
        """Return how long a client waits before it gets so many bytes. Where it gets them now they are counted."""
        waits_ms = self._used(CONSUMER_BYTE_RATE, user, client_id, size)
        overdue_ms = min(self._used(REQUEST_PERCENTAGE, user, client_id, 0), self._sample_ms)
        if waits_ms or overdue_ms:
            self._used(CONSUMER_BYTE_RATE, user, client_id, -size)
        return max(waits_ms, overdue_ms)

    def delivered(self, user: str, client_id: str, size: int) -> int:
        """Count bytes that a client gets in any case; return how long it waits after them."""
        return self._used(CONSUMER_BYTE_RATE, user, client_id, size)

    def most_fetched_bytes(self, user: str, client_id: str, most: int) -> int:
        """Return how many bytes a response may have, so that a client within its quota can get it."""
        bound = self._bounds.of_client(CONSUMER_BYTE_RATE, user, client_id)
        return most if bound is None else max(int(min(most, bound.value * self._burst_s)), 0)

    def mutations(self, user: str, client_id: str, is_strict: bool) -> Mutations:
        """Return what counts the partitions that one request creates and deletes."""
        bound = self._bounds.of_client(CONTROLLER_MUTATION_RATE, user, client_id)
        if bound is None:
            return Mutations(None, 0, is_strict, self._clock)
        return Mutations(self._buckets.of(bound.sharers, self._now_ms()), bound.value, is_strict, self._clock)

    def connected(self, host: str) -> int:
        """Count a connection from an address, unless it is one too many: return how long that is held, then closed."""
        bound = self._bounds.of_host(CONNECTION_CREATION_RATE, host)
        if bound is None:
            return 0
        waits_ms = self._record(CONNECTION_CREATION_RATE, Bound(bound, (host, None)), 1)
        if waits_ms:
            self._record(CONNECTION_CREATION_RATE, Bound(bound, (host, None)), -1)
        return min(waits_ms, self._sample_ms)

    def _used(self, key: str, user: str, client_id: str, value: float) -> int:
        bound = self._bounds.of_client(key, user, client_id)
        return 0 if bound is None else self._record(key, bound, value)

    def _record(self, key: str, bound: Bound, value: float) -> int:
        now_ms = self._now_ms()
        rate = self._rates[key].of(bound.sharers, now_ms)
        rate.record(value, now_ms)
        return rate.excess_ms(bound.value, now_ms)

    def _now_ms(self) -> int:
        return self._clock.monotonic_ms()


class Mutations:
    """The partitions that one request creates and deletes.

    A client that knows the error gets it for what is too much, and nothing is done; another one's is done, and it waits
    afterwards.
    """

    def __init__(self, bucket: TokenBucket | None, bound: float, is_strict: bool, clock: Clock) -> None:
        """`bucket` None: there is no quota."""
        self._bucket = bucket
        self._bound = bound
        self._is_strict = is_strict
        self._clock = clock
        self._waits_until_ms: int | None = None

    def take(self, partitions: int) -> None:
        """Count partitions. Raises THROTTLING_QUOTA_EXCEEDED where the client has too few left and knows this error."""
        if self._bucket is None:
            return
        now_ms = self._clock.monotonic_ms()
        if not self._is_strict:
            self._bucket.take(partitions, self._bound, now_ms)
        excess_ms = self._bucket.excess_ms(self._bound, now_ms)
        if excess_ms:
            self._waits_until_ms = now_ms + excess_ms
        if not self._is_strict:
            return
        if excess_ms:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        self._bucket.take(partitions, self._bound, now_ms)

    @property
    def throttle_ms(self) -> int:
        """How long the client waits after its response."""
        if self._waits_until_ms is None:
            return 0
        return max(self._waits_until_ms - self._clock.monotonic_ms(), 0)
