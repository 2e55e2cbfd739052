"""What follows a failed request for a partition: a pause and a look for its leader, or an error for the user."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...protocol.errors import KafkaError
from ..core.cluster import Cluster
from .positions import PartitionState
from .signals import Signals

_log = logging.getLogger(__name__)


class PartitionRetries:
    """Mutes partitions after failures, with growing pauses."""

    def __init__(self, cluster: Cluster, signals: Signals, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._signals = signals
        # Monotonic, in milliseconds.
        self._clock = clock

    def failed(self, state: PartitionState, error: KafkaError) -> None:
        """Mute the partition and look for its leader; keep the error for the user if it is not retriable."""
        if not error.retriable:
            self.keep_error(state, error)
            return
        state.failures += 1
        _log.debug("%s: attempt %d failed: %s", state, state.failures, error)
        self._cluster.retries.failed(state, error)
        state.muted_until_ms = self._clock() + self._cluster.backoff.pause_ms(state.failures)
        self._cluster.refresh_leader(state.partition)

    def succeeded(self, state: PartitionState) -> None:
        """Begin with the shortest pause again."""
        state.failures = 0
        self._cluster.retries.done(state)

    def mute(self, state: PartitionState) -> None:
        """Leave the partition alone for the shortest pause."""
        state.muted_until_ms = self._clock() + self._cluster.options.retry_backoff_ms

    def keep_error(self, state: PartitionState, error: KafkaError) -> None:
        """Have the next poll raise `error`."""
        state.error = error
        self._cluster.retries.done(state)
        self._signals.wake_poll()
