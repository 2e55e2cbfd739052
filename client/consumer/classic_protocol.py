"""What members of a classic group tell each other through its coordinator, and how one leaves: LeaveGroup (key 13).

JoinGroup carries each member's subscription to the leader, and SyncGroup the leader's assignments back. The leader is
the member that assigns the partitions of all, and watches whether the topics get others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages import consumer_protocol as wire
from ...protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ...protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ...protocol.messages.sync_group import SyncGroupRequestAssignment
from ..assignors import Assignor, Member, Racks
from ..core.cluster import Cluster
from ..core.coordinator import Coordinator
from ..record import TopicPartition, by_topic

_FIRST_BATCH_LEAVE = 3  # LeaveGroup 3 takes several members
_SUBSCRIPTION_VERSION = 3
_ASSIGNMENT_VERSION = 0


async def leave_group(coordinator: Coordinator, member_id: str, reason: str) -> None:
    """Send LeaveGroup until it is answered, and ignore an error."""

    async def ask() -> None:
        connection = await coordinator.connection()
        request = LeaveGroupRequest(group_id=coordinator.key, member_id=member_id)
        if connection.version_for(LeaveGroupRequest) >= _FIRST_BATCH_LEAVE:
            identity = MemberIdentity(member_id=member_id, reason=reason)
            request = LeaveGroupRequest(group_id=coordinator.key, members=[identity])
        response = await coordinator.request_over(connection, request, LeaveGroupResponse)
        coordinator.raise_error(response.error_code, "leaving")

    await coordinator.leave(ask)


class GroupLeader:
    """Runs the assignor that the group has chosen."""

    def __init__(self, cluster: Cluster, group_id: str, assignors: Mapping[str, Assignor]) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._assignors = assignors
        # Topic -> its partition count at the last assignment; None while another member leads.
        self._assigned_counts: dict[str, int] | None = None

    def resign(self) -> None:
        """Another member may lead the next generation."""
        self._assigned_counts = None

    async def assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Return the assignment of each member. Raises KafkaError, DecodeError."""
        assignor = self._assignors.get(joined.protocol_name or "")
        if assignor is None:
            text = f"group {self._group_id!r} has chosen a strategy that was not offered: {joined.protocol_name!r}"
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
        members = [_member(each) for each in joined.members]
        topics = {topic for member in members for topic in member.topics}
        self._cluster.watch(topics)
        await self._cluster.refresh()
        self._assigned_counts = self._partition_counts(topics)
        partitions = {topic: count for topic, count in self._assigned_counts.items() if count}
        assignment = assignor.assign_with_racks(members, partitions, self._replica_racks(partitions))
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_encode_assignment(partitions))
            for member_id, partitions in assignment.items()
        ]

    def partitions_changed(self) -> bool:
        """Whether the topics have other partitions than were assigned, so that the group must rebalance."""
        assigned = self._assigned_counts
        return assigned is not None and self._partition_counts(assigned) != assigned

    def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        known = self._cluster.view.topics
        return {topic: len(known[topic].partitions) if topic in known else 0 for topic in topics}

    def _replica_racks(self, topics: Iterable[str]) -> Racks:
        """Return the racks of each partition's replicas, as far as brokers tell them (KIP-881)."""
        view = self._cluster.view
        racks = {node.node_id: node.rack for node in view.nodes.values() if node.rack}
        if not racks:
            return {}
        return {
            topic: [
                frozenset(racks[node] for node in info.replicas if node in racks)
                for info in view.topics[topic].partitions
            ]
            for topic in topics
        }


def encode_subscription(
    topics: Sequence[str],
    user_data: bytes | None,
    owned: Iterable[TopicPartition],
    generation_id: int,
    rack_id: str | None,
) -> bytes:
    """Return what the leader learns of a member: its topics and the partitions that it has kept."""
    subscription = wire.ConsumerProtocolSubscription(
        topics=list(topics),
        user_data=user_data,
        owned_partitions=_by_topic(sorted(owned)),
        generation_id=generation_id,
        rack_id=rack_id,
    )
    return wire.encode_versioned(subscription, _SUBSCRIPTION_VERSION)


def decode_assignment(assignment: bytes) -> list[TopicPartition]:
    """Return the partitions that the leader has assigned to this member. Raises DecodeError."""
    if not assignment:
        return []
    return _partitions(wire.decode_versioned(wire.ConsumerProtocolAssignment, assignment).assigned_partitions)


def _encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    assignment = wire.ConsumerProtocolAssignment(assigned_partitions=_by_topic(partitions))
    return wire.encode_versioned(assignment, _ASSIGNMENT_VERSION)


def _member(member: JoinGroupResponseMember) -> Member:
    subscription = wire.decode_versioned(wire.ConsumerProtocolSubscription, member.metadata)
    return Member(
        member.member_id,
        tuple(subscription.topics),
        member.group_instance_id,
        tuple(_partitions(subscription.owned_partitions)),
        subscription.user_data,
        subscription.generation_id,
        subscription.rack_id,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[wire.TopicPartition]:
    """Return partitions grouped by topic, as the consumer protocol has them."""
    return [wire.TopicPartition(*each) for each in by_topic(partitions).items()]


def _partitions(topics: Iterable[wire.TopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, number) for each in topics for number in each.partitions]
