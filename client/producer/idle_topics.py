"""The topics that a producer has stopped to write to: their metadata is asked for no longer, as in Kafka's producer.

A topic is idle if nothing is queued for it, and it was deleted, or was not used for 5 minutes (metadata.max.idle.ms).
The next record for it looks it up again. Only a record, or a call that names the topic, has a broker create it: a
producer that has nothing to write makes no deleted topic again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..core.cluster import Cluster
from .accumulator import RecordAccumulator

# Kafka's default of metadata.max.idle.ms.
MAX_IDLE_MS = 300_000


class IdleTopics:
    """Tells a cluster which of its watched topics are idle."""

    def __init__(self, cluster: Cluster, accumulator: RecordAccumulator, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        # Monotonic, in milliseconds.
        self._clock = clock
        # When each watched topic was last used, as far as is known: looked up, or written to.
        self._used_ms: dict[str, float] = {}
        cluster.unused = self._unused

    def _unused(self, watched: Collection[str]) -> Collection[str]:
        now_ms = self._clock()
        used_ms = {topic: self._used_ms.get(topic, now_ms) for topic in watched}
        busy: set[str] = set()
        for (topic, _), queue in self._accumulator.queues.items():
            if topic in used_ms:
                used_ms[topic] = max(used_ms[topic], queue.used_ms)
                if queue.in_flight or queue.has_unsent:
                    busy.add(topic)
        gone = self._cluster.view.errors
        idle = {
            topic
            for topic, at_ms in used_ms.items()
            if topic not in busy and (topic in gone or now_ms - at_ms >= MAX_IDLE_MS)
        }
        self._used_ms = {topic: at_ms for topic, at_ms in used_ms.items() if topic not in idle}
        return idle
