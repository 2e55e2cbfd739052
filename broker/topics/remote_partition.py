"""A partition that other brokers of the cluster hold: it has its place in the topic, but no log here.

Clients get NOT_LEADER_OR_FOLLOWER; Metadata tells them who leads it.
"""

from __future__ import annotations

from typing import NoReturn

from ...protocol.errors import ErrorCode, KafkaError
from .offline_partition import OfflinePartition


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
