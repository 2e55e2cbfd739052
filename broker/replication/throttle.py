"""Throttled replication: how many bytes a second go to followers that have to catch up (KIP-73), as in Kafka.

The topic configs leader.replication.throttled.replicas and follower.replication.throttled.replicas list the replicas,
and the broker configs leader.replication.throttled.rate and follower.replication.throttled.rate bound their bytes on
each side. Bytes of every listed replica count. Only a replica that is not in sync waits, so that no producer does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..clock import Clock
from ..configs.cluster_table import NO_LIMIT
from ..configs.topic_config import EVERY_REPLICA


class Rate:
    """Bytes a second over the last samples, as Kafka's SimpleRate. Times are in milliseconds of any clock."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self._sample_ms = sample_ms
        self._window_ms = samples * sample_ms
        # When each sample began, and its bytes; the oldest first.
        self._samples: deque[tuple[int, int]] = deque(maxlen=samples)

    def record(self, size: int, now_ms: int) -> None:
        """Count bytes."""
        self._forget(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= self._sample_ms:
            self._samples.append((now_ms, size))
        else:
            began_ms, counted = self._samples[-1]
            self._samples[-1] = began_ms, counted + size

    def per_second(self, now_ms: int) -> float:
        """Return the rate. The first sample counts as whole, so that a short burst is not taken for a high rate."""
        self._forget(now_ms)
        if not self._samples:
            return 0.0
        passed_ms = max(now_ms - self._samples[0][0], self._sample_ms)
        return sum(size for _, size in self._samples) * 1000 / passed_ms

    def _forget(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] >= self._window_ms:
            self._samples.popleft()


class Throttle:
    """One side of a broker: what it sends to followers, or what it fetches from leaders."""

    def __init__(
        self,
        rate: Rate,
        clock: Clock,
        limit: Callable[[], int],
        replicas_of: Callable[[str], tuple[str, ...]],
        broker_id: int,
    ) -> None:
        """`limit` returns the bytes a second that are allowed now, `replicas_of` the listed replicas of a topic."""
        self._rate = rate
        self._clock = clock
        self._limit = limit
        self._replicas_of = replicas_of
        self._broker_id = broker_id

    def note(self, topic: str, partition: int, size: int) -> None:
        """Count bytes of a partition, if its replica here is listed."""
        if self._is_listed(topic, partition):
            self._rate.record(size, self._clock.monotonic_ms())

    def holds_back(self, topic: str, partition: int) -> bool:
        """Return whether a partition must wait if its follower is not in sync."""
        if not self._is_listed(topic, partition):
            return False
        return self._rate.per_second(self._clock.monotonic_ms()) > self._limit()

    def _is_listed(self, topic: str, partition: int) -> bool:
        if self._limit() == NO_LIMIT:
            return False
        listed = self._replicas_of(topic)
        return f"{partition}:{self._broker_id}" in listed or EVERY_REPLICA in listed
