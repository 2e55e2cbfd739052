"""The limit of producer ids: max.producer.ids, over all partitions.

A partition remembers each producer id that wrote to it, for producer.id.expiration.ms. A client may invent ids, so the
broker bounds their number. A batch of an id that is new to its partition then gets THROTTLING_QUOTA_EXCEEDED, which
Java's producer sends again until its delivery time-out. Producers that are known write on. Meanwhile the broker forgets
producers that were silent for `SILENT_MS`: a client that sends a batch again does so within minutes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from ...protocol.errors import ErrorCode, KafkaError
from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from .partition import Partition

# At the limit, a producer that was silent for so long makes room. Java's delivery.timeout.ms is two minutes, and a
# transaction lasts 15 minutes at most (transaction.max.timeout.ms).
SILENT_MS = 15 * 60_000
# At the limit, the producers of all partitions are counted again no more often than this.
RECOUNT_MS = 1_000
# And the log says so no more often than this.
REPORT_MS = 60_000

_log = logging.getLogger(__name__)


class ProducerLimit:
    """How many producer ids the partitions remember. `on_reached` is called where that is too many."""

    def __init__(self, config: BrokerConfig, clock: Clock, partitions: Callable[[], Iterable[Partition]]) -> None:
        self.on_reached: Callable[[], None] = lambda: None
        self._config = config
        self._clock = clock
        self._partitions = partitions
        # Never less than there are, and exact after a count: ids that are forgotten are noticed then.
        self._known = 0
        self._counted_ms: int | None = None
        self._reported_ms: int | None = None

    def add(self) -> None:
        """Count a producer id that is new to a partition. Raises THROTTLING_QUOTA_EXCEEDED."""
        limit = self._config.max_producer_ids
        if self._counted_ms is None or (self._known >= limit and self._is_past(self._counted_ms, RECOUNT_MS)):
            self._known = sum(len(each.log.producers) for each in self._partitions())
            self._counted_ms = self._clock.monotonic_ms()
        if self._known >= limit:
            self._report(limit)
            self.on_reached()
            why = f"all partitions remember {limit} producer ids (max.producer.ids): a new one waits for room"
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, why)
        self._known += 1

    def _report(self, limit: int) -> None:
        if self._reported_ms is None or self._is_past(self._reported_ms, REPORT_MS):
            self._reported_ms = self._clock.monotonic_ms()
            text = "the partitions remember %d producer ids (max.producer.ids): batches of new ones are rejected"
            _log.warning(text, limit)

    def _is_past(self, since_ms: int, time_ms: int) -> bool:
        return self._clock.monotonic_ms() - since_ms >= time_ms
