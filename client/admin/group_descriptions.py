"""Descriptions of groups of each kind: DescribeGroups (key 15), ConsumerGroupDescribe (69), ShareGroupDescribe (77).

Only the answers say what a group is. To DescribeGroups a group of a newer kind does not exist, and is called Dead.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.errors import DecodeError, ErrorCode, KafkaError
from ...protocol.messages import consumer_group_describe as newer
from ...protocol.messages import consumer_protocol as wire
from ...protocol.messages import share_group_describe as share
from ...protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ..core.coordinator import Coordinator
from ..core.descriptions import GroupDescription, GroupMember
from ..core.metadata import Node
from ..record import TopicPartition

# The group is of another kind, or the broker knows none of this kind.
_OTHER_KIND = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}
_DEAD = "Dead"
_MEMBER_PROTOCOLS = {0: "classic", 1: "consumer"}


async def describe_group(coordinator: Coordinator) -> GroupDescription:
    """Return a group of any kind. Raises KafkaError."""
    missing: KafkaError | None = None
    try:
        classic = await _describe_classic_group(coordinator)
        if classic.state != _DEAD:
            return classic
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        classic, missing = None, error
    for describe in (_describe_consumer_group, _describe_share_group):
        try:
            return await describe(coordinator)
        except KafkaError as error:
            if error.code not in _OTHER_KIND:
                raise
    if classic is None:
        assert missing is not None
        raise missing
    return classic


# -- Classic groups


async def _describe_classic_group(coordinator: Coordinator) -> GroupDescription:
    response = await coordinator.request(DescribeGroupsRequest(groups=[coordinator.key]), DescribeGroupsResponse)
    coordinator.raise_error(response.groups[0].error_code, "the description")
    return _classic_group(response.groups[0], coordinator.node)


def _classic_group(group: DescribedGroup, coordinator: Node | None) -> GroupDescription:
    members = tuple(_classic_member(member) for member in group.members)
    return GroupDescription(
        group.group_id, group.group_state, group.protocol_type, group.protocol_data, members, coordinator
    )


def _classic_member(member: DescribedGroupMember) -> GroupMember:
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    try:
        if member.member_metadata:
            topics = tuple(wire.decode_versioned(wire.ConsumerProtocolSubscription, member.member_metadata).topics)
        if member.member_assignment:
            assignment = wire.decode_versioned(wire.ConsumerProtocolAssignment, member.member_assignment)
            partitions = tuple(
                TopicPartition(each.topic, number)
                for each in assignment.assigned_partitions
                for number in each.partitions
            )
    except DecodeError:
        pass  # a group of another kind (of Connect workers, say), whose bytes have another format
    return GroupMember(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, topics, partitions
    )


# -- Consumer groups and share groups


async def _describe_consumer_group(coordinator: Coordinator) -> GroupDescription:
    request = newer.ConsumerGroupDescribeRequest(group_ids=[coordinator.key])
    response = await coordinator.request(request, newer.ConsumerGroupDescribeResponse)
    (group,) = response.groups
    coordinator.raise_error(group.error_code, "the description", group.error_message)
    return _newer_group("consumer", group, tuple(map(_consumer_member, group.members)), coordinator.node)


async def _describe_share_group(coordinator: Coordinator) -> GroupDescription:
    request = share.ShareGroupDescribeRequest(group_ids=[coordinator.key])
    response = await coordinator.request(request, share.ShareGroupDescribeResponse)
    (group,) = response.groups
    coordinator.raise_error(group.error_code, "the description", group.error_message)
    return _newer_group("share", group, tuple(map(_share_member, group.members)), coordinator.node)


def _newer_group(
    kind: str,
    group: newer.DescribedGroup | share.DescribedGroup,
    members: tuple[GroupMember, ...],
    coordinator: Node | None,
) -> GroupDescription:
    epochs = group.group_epoch, group.assignment_epoch
    return GroupDescription(
        group.group_id, group.group_state, kind, group.assignor_name, members, coordinator, kind, *epochs
    )


def _consumer_member(member: newer.Member) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        tuple(member.subscribed_topic_names),
        _partitions(member.assignment.topic_partitions),
        member.member_epoch,
        _partitions(member.target_assignment.topic_partitions),
        member.subscribed_topic_regex or None,
        _MEMBER_PROTOCOLS.get(member.member_type, ""),
    )


def _share_member(member: share.Member) -> GroupMember:
    partitions = _partitions(member.assignment.topic_partitions)
    return GroupMember(
        member.member_id,
        None,
        member.client_id,
        member.client_host,
        tuple(member.subscribed_topic_names),
        partitions,
        member.member_epoch,
        partitions,
        None,
        "share",
    )


def _partitions(topics: Iterable[newer.TopicPartitions | share.TopicPartitions]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.topic_name, number) for topic in topics for number in topic.partitions)
