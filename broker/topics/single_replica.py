"""Elections and reassignments of a broker that is alone: each partition has one replica, which leads it.

What there is nothing to do for is said as by Kafka's controller with one broker: ELECTION_NOT_NEEDED,
NO_REASSIGNMENT_IN_PROGRESS. `ClusterAdmin` has the same three methods for a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Never

from ...protocol.errors import ErrorCode, KafkaError
from ..turns import keeper
from .topics import Topics

TopicIndex = tuple[str, int]


class SingleReplica:
    """The replicas of all topics, which are on the broker `node_id`."""

    def __init__(self, topics: Topics, node_id: int) -> None:
        self._topics = topics
        self._node_id = node_id

    async def elect(
        self, places: Iterable[TopicIndex] | None, *, unclean: bool, timeout_ms: int
    ) -> dict[TopicIndex, ErrorCode]:
        """Return why no leader is elected for the partitions; of all, no partition needs one."""
        failed = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if unclean else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        errors: dict[TopicIndex, ErrorCode] = {}
        for place in places or ():
            await keeper().pause()
            partition = self._topics.partition(*place)
            if partition is None:
                errors[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                errors[place] = ErrorCode.ELECTION_NOT_NEEDED if partition.is_online else failed
        return errors

    async def reassign(
        self, wanted: Mapping[TopicIndex, tuple[int, ...] | None], *, may_change_factor: bool
    ) -> dict[TopicIndex, KafkaError]:
        """Return the errors of reassignments to anything but this broker, and of those that are to be cancelled."""
        errors: dict[TopicIndex, KafkaError] = {}
        for place, target in wanted.items():
            if self._topics.partition(*place) is None:
                errors[place] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
            elif target is None:
                errors[place] = KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            elif target != (self._node_id,):
                why = f"the replicas cannot be {list(target)}: the only broker is {self._node_id}"
                errors[place] = KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
        return errors

    def reassignments(self) -> dict[TopicIndex, Never]:
        """Return the partitions that are moving: none."""
        return {}
