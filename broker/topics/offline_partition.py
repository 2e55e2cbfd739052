"""A partition whose data directory was offline at start: it has its place in the topic, but no log.

Clients get KAFKA_STORAGE_ERROR; Metadata shows the partition without a leader.
"""

from __future__ import annotations

from typing import NoReturn

from ...protocol.errors import ErrorCode, KafkaError
from .partition import Partition


class OfflinePartition(Partition):
    """A Partition that has failed before it could `lead` a log. Reading `log` raises KAFKA_STORAGE_ERROR."""

    @property
    def log(self) -> NoReturn:  # type: ignore[override]
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.failure))
