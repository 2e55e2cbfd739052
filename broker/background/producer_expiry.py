"""Producer expiry: partitions forget producers that have been silent for producer.id.expiration.ms.

A partition also forgets them when it rolls a segment and when it is opened. A partition that nobody writes to does
neither, so a round looks at every partition each producer.id.expiration.check.interval.ms. It takes one partition a
turn of the event loop: the largest number of producers takes some milliseconds. Where there are too many producers
(topics/producer_limit.py), a round comes at once, and forgets those that were silent for 15 minutes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..configs.definition import LONG_MAX
from ..timers import Timers
from ..topics.partition import Partition
from ..topics.producer_limit import SILENT_MS
from ..topics.topics import Topics
from ..turns import keeper


class ProducerExpiry:
    """The rounds of one broker. `start` them once its topics are open; they end with the broker's timers."""

    def __init__(self, config: BrokerConfig, topics: Topics, timers: Timers, clock: Clock) -> None:
        self._config = config
        self._topics = topics
        self._timers = timers
        self._clock = clock
        # Partitions that this round has yet to look at. Invariant: while it is not empty a turn is scheduled.
        self._due: deque[Partition] = deque()
        # What this round forgets.
        self._silent_ms = LONG_MAX
        topics.producer_limit.on_reached = self.make_room

    @property
    def is_busy(self) -> bool:
        """Whether a round is under way."""
        return bool(self._due)

    def start(self) -> None:
        """Schedule the next round."""
        self._timers.after(self._config.producer_id_expiration_check_interval_ms, self._begin_round)

    def make_room(self) -> None:
        """Begin a round that forgets more than others do, unless one is under way."""
        self._look(SILENT_MS)

    def _begin_round(self) -> None:
        self.start()
        self._look(LONG_MAX)

    def _look(self, silent_ms: int) -> None:
        if self._due:
            return  # the last round is still under way
        self._silent_ms = silent_ms
        self._due.extend(each for each in self._topics.partitions() if len(each.log.producers))
        keeper().run(self._expire())

    def _expire(self) -> Iterator[None]:
        while self._due:
            # The partition may have been deleted since, which does no harm.
            log = self._due.popleft().log
            log.producers.expire(self._clock.now_ms(), min(log.config.producer_id_expiration_ms, self._silent_ms))
            yield
