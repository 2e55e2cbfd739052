"""Producers that have been silent for long are forgotten, also where nobody writes any more.

A partition forgets them when a segment is full and when it is opened; one that is no longer written to would keep them
for ever. So every `producer.id.expiration.check.interval.ms` each partition is asked to, one that has producers a turn
of the event loop: the largest number of them takes some milliseconds.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from ..topics.partition import Partition

if TYPE_CHECKING:
    from ..server import Broker


class ProducerExpiry:
    """The rounds of one broker. `start` once its topics are open; it ends with the broker's timers."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        # Partitions that this round has yet to look at. Invariant: while it is not empty a turn is scheduled.
        self._due: deque[Partition] = deque()

    @property
    def is_busy(self) -> bool:
        """Whether a round is on its way."""
        return bool(self._due)

    def start(self) -> None:
        """Arms the first round."""
        interval_ms = self._broker.config.producer_id_expiration_check_interval_ms
        self._broker.timers.after(interval_ms, self._check)

    def _check(self) -> None:
        self.start()
        if self._due:
            return  # the last round is not through: one is enough
        self._due.extend(each for each in self._broker.topics.partitions() if len(each.log.producers))
        if self._due:
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        # It may be deleted by now: then nobody asks what it knows.
        log = self._due.popleft().log
        log.producers.expire(self._broker.clock.now_ms(), log.config.producer_id_expiration_ms)
        if self._due:
            asyncio.get_running_loop().call_soon(self._turn)
