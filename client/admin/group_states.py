"""What a group is, and where a share group begins.

A description comes from DescribeGroups (key 15), ConsumerGroupDescribe (69) or ShareGroupDescribe (77). Only the
answers say what a group is. To DescribeGroups a group of a newer kind does not exist, and is called Dead.

A share group commits nothing. Its start offset in a partition is behind the records that are done with; those after it
may be acquired, waiting or done: DescribeShareGroupOffsets (90), AlterShareGroupOffsets (91), Delete... (92).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...protocol.errors import DecodeError, ErrorCode, KafkaError
from ...protocol.messages import consumer_group_describe as newer
from ...protocol.messages import consumer_protocol as wire
from ...protocol.messages import share_group_describe as share
from ...protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ...protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from ...protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ...protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from ...protocol.messages.odradek_describe_broker import OdradekDescribeBrokerRequest, OdradekDescribeBrokerResponse
from ..core.cluster import Cluster
from ..core.coordinator import Coordinator
from ..core.descriptions import ConfigResource, GroupDescription, GroupMember, ShareOffset, ShareQueue
from ..core.leaders import errors_in, for_items
from ..core.metadata import Node
from ..core.options import by_partition, items_of
from ..errors import UnsupportedVersion, error_of, only, raise_error
from ..record import TopicPartition, by_topic
from .configs import describe_configs

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
    newer_kinds = (
        ("consumer", newer.ConsumerGroupDescribeRequest([coordinator.key]), newer.ConsumerGroupDescribeResponse),
        ("share", share.ShareGroupDescribeRequest([coordinator.key]), share.ShareGroupDescribeResponse),
    )
    for each in newer_kinds:
        try:
            return await _describe_newer_group(coordinator, *each)
        except KafkaError as error:
            if error.code not in _OTHER_KIND:
                raise
    if classic is None:
        assert missing is not None
        raise missing
    return classic


async def is_newer(coordinator: Coordinator) -> bool:
    """Return whether there is a group of a newer kind. Raises KafkaError where there is no group."""
    return (await describe_group(coordinator)).type != "classic"


# -- Classic groups


async def _describe_classic_group(coordinator: Coordinator) -> GroupDescription:
    response = await coordinator.request(DescribeGroupsRequest(groups=[coordinator.key]), DescribeGroupsResponse)
    group = only(response.groups, coordinator.key)
    coordinator.raise_error(group.error_code, "the description")
    return _classic_group(group, coordinator.node)


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


async def _describe_newer_group(
    coordinator: Coordinator,
    kind: str,
    request: newer.ConsumerGroupDescribeRequest | share.ShareGroupDescribeRequest,
    response: type[newer.ConsumerGroupDescribeResponse] | type[share.ShareGroupDescribeResponse],
) -> GroupDescription:
    (group,) = (await coordinator.request(request, response)).groups
    coordinator.raise_error(group.error_code, "the description", group.error_message)
    members = tuple(map(_newer_member, group.members))
    epochs = group.group_epoch, group.assignment_epoch
    return GroupDescription(
        group.group_id, group.group_state, kind, group.assignor_name, members, coordinator.node, kind, *epochs
    )


def _newer_member(member: newer.Member | share.Member) -> GroupMember:
    # A member of a share group waits for nobody: it has its target at once.
    instance_id, target, pattern, protocol = None, member.assignment, None, "share"
    if isinstance(member, newer.Member):
        instance_id, target = member.instance_id, member.target_assignment
        pattern, protocol = member.subscribed_topic_regex or None, _MEMBER_PROTOCOLS.get(member.member_type, "")
    return GroupMember(
        member.member_id,
        instance_id,
        member.client_id,
        member.client_host,
        tuple(member.subscribed_topic_names),
        _partitions(member.assignment.topic_partitions),
        member.member_epoch,
        _partitions(target.topic_partitions),
        pattern,
        protocol,
    )


def _partitions(topics: Iterable[newer.TopicPartitions | share.TopicPartitions]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.topic_name, number) for topic in topics for number in topic.partitions)


# -- Where a share group begins


async def list_share_group_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, ShareOffset]:
    """Return where a share group begins in each of its partitions, and how much it has left. Raises KafkaError."""
    coordinator = Coordinator(cluster, group_id)
    return await cluster.retry(lambda: _list_once(coordinator))


async def _list_once(coordinator: Coordinator) -> dict[TopicPartition, ShareOffset]:
    request = DescribeShareGroupOffsetsRequest(groups=[DescribeShareGroupOffsetsRequestGroup(coordinator.key, None)])
    response = await coordinator.request(request, DescribeShareGroupOffsetsResponse)
    group = only(response.groups, coordinator.key)
    coordinator.raise_error(group.error_code, "reading the start offsets", group.error_message)
    found: dict[TopicPartition, ShareOffset] = {}
    for topic in group.topics:
        for each in topic.partitions:
            coordinator.raise_error(each.error_code, "reading the start offsets", each.error_message)
            offset = ShareOffset(each.start_offset, each.leader_epoch, None if each.lag < 0 else each.lag)
            if each.start_offset >= 0:
                found[TopicPartition(topic.topic_name, each.partition_index)] = offset
    return found


async def alter_share_group_offsets(cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Have a share group without members begin elsewhere; it is created if it does not exist.

    Raises KafkaError, NON_EMPTY_GROUP if it has members; ItemsFailed if some of several offsets are not taken.
    """
    offsets = by_partition("alter_share_group_offsets", offsets, "offset")
    coordinator = Coordinator(cluster, group_id)

    async def attempt(some: list[TopicPartition]) -> dict[TopicPartition, KafkaError | None]:
        rows = [(each.topic, AlterShareGroupOffsetsRequestPartition(each.partition, offsets[each])) for each in some]
        topics = [AlterShareGroupOffsetsRequestTopic(*each) for each in by_topic(rows).items()]
        request = AlterShareGroupOffsetsRequest(group_id, topics)
        response = await coordinator.request(request, AlterShareGroupOffsetsResponse)
        coordinator.raise_error(response.error_code, "setting start offsets", response.error_message)
        return errors_in(response, lambda each: f"the start offset of share group {group_id!r} was not set for {each}")

    await for_items(cluster, offsets, attempt)


async def delete_share_group_offsets(
    cluster: Cluster, group_id: str, topics: str | Iterable[str] = (), *more: str
) -> None:
    """Have a share group without members forget these topics. Raises KafkaError, NON_EMPTY_GROUP if it has members."""
    wanted = items_of("delete_share_group_offsets", str, (topics, *more))
    coordinator = Coordinator(cluster, group_id)

    async def attempt(some: list[str]) -> dict[str, KafkaError | None]:
        request = DeleteShareGroupOffsetsRequest(group_id, [DeleteShareGroupOffsetsRequestTopic(each) for each in some])
        response = await coordinator.request(request, DeleteShareGroupOffsetsResponse)
        coordinator.raise_error(response.error_code, "the deletion of start offsets", response.error_message)
        what = f"the start offsets of share group {group_id!r} were not deleted for"
        return {
            each.topic_name: error_of(each.error_code, each.error_message, f"{what} {each.topic_name}")
            for each in response.responses
        }

    await for_items(cluster, wanted, attempt)


# -- The picture of a work queue: what waits is the group's lag, which its coordinator tells. What is held and what is
# dead the leaders of the partitions know: brokers of Odradek tell it (OdradekDescribeBroker, 30013).

_DEAD_LETTERS = "errors.deadletterqueue.topic.name"


async def describe_share_queue(cluster: Cluster, group_id: str) -> ShareQueue:
    """Return what of a share group's records waits, is held and is dead. Raises KafkaError."""
    lags = [each.lag for each in (await list_share_group_offsets(cluster, group_id)).values()]
    group = ConfigResource.group(group_id)
    configs = (await describe_configs(cluster, [group]))[group]
    topic = (configs[_DEAD_LETTERS].value or "") if _DEAD_LETTERS in configs else ""
    lag = sum(each for each in lags if each is not None) if None not in lags else None
    try:
        held, archiving, rejected, too_often, lost = await _of_brokers(cluster, group_id)
    except UnsupportedVersion:
        return ShareQueue(topic, lag)
    waiting = None if lag is None else max(lag - held - archiving, 0)
    return ShareQueue(topic, waiting, held, archiving, rejected, too_often, lost)


async def _of_brokers(cluster: Cluster, group_id: str) -> tuple[int, ...]:
    """Return the sums of what the brokers tell. Raises UnsupportedVersion where one is not of Odradek."""
    sums = [0] * 5
    await cluster.refresh()
    for node_id in sorted(cluster.view.nodes):
        connection = await cluster.connection(node_id)
        if connection.version_for(OdradekDescribeBrokerRequest) < 1:
            raise UnsupportedVersion("OdradekDescribeBroker", range(1, 2), (0, 0))
        request = OdradekDescribeBrokerRequest(group_id)
        response = await connection.request(request, OdradekDescribeBrokerResponse)
        raise_error(response.error_code, response.error_message, f"{connection.address} does not describe itself")
        told = response.held, response.archiving, response.rejected, response.delivered_too_often, response.lost
        sums = [total + each for total, each in zip(sums, told, strict=True)]
    return tuple(sums)
