"""Partitions without a log: they have their place in the topic.

Where the data directory was offline at start, clients get KAFKA_STORAGE_ERROR, and Metadata shows no leader. Where
other brokers of the cluster hold the partition, clients get NOT_LEADER_OR_FOLLOWER, and Metadata tells them who leads.
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


class RemotePartition(OfflinePartition):
    """A Partition without a log. Reading `log` raises NOT_LEADER_OR_FOLLOWER."""

    @property
    def is_online(self) -> bool:
        return False

    def check_online(self) -> None:
        self.check_leading()

    def check_epoch(self, current_leader_epoch: int) -> None:
        self.check_leading()

    @property
    def log(self) -> NoReturn:  # type: ignore[override]
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic}-{self.index} is held by other brokers")
