"""What an administrator does to a group through its coordinator: DeleteGroups (key 42), OffsetDelete (key 47), offsets
set from outside, and the question why it rebalanced.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...protocol.codec import decode_versioned
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ...protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ...protocol.messages.group_history import GroupHistory
from ...protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ..descriptions import GroupRebalance, group_rebalance
from ..errors import CommitFailed
from ..network.coordinator import Coordinator, Generation
from ..record import OffsetAndMetadata, TopicPartition


async def delete_group(coordinator: Coordinator) -> None:
    """Once, without a second try. Raises KafkaError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""
    answer = await coordinator.ask(DeleteGroupsRequest(groups_names=[coordinator.group_id]), DeleteGroupsResponse)
    for result in answer.results:
        coordinator.refuse(result.error_code, "the deletion")


async def delete_offsets(coordinator: Coordinator, partitions: Collection[TopicPartition]) -> None:
    """Once. Raises KafkaError for the first partition that is refused; the others' offsets are gone."""
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for name, number in partitions:
        topic = topics.setdefault(name, OffsetDeleteRequestTopic(name))
        topic.partitions.append(OffsetDeleteRequestPartition(number))
    question = OffsetDeleteRequest(coordinator.group_id, list(topics.values()))
    answer = await coordinator.ask(question, OffsetDeleteResponse)
    coordinator.refuse(answer.error_code, "the deletion of offsets")
    for topic in answer.topics:
        for each in topic.partitions:
            coordinator.refuse(each.error_code, f"the deletion of the offset of {topic.name}-{each.partition_index}")


async def set_offsets(coordinator: Coordinator, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """Commits from outside of the group, trying again while that may help. NON_EMPTY_GROUP where it has members."""
    try:
        await coordinator.commit(offsets, Generation())
    except CommitFailed as error:
        if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
            raise
        raise KafkaError(
            ErrorCode.NON_EMPTY_GROUP,
            f"the offsets of group {coordinator.group_id!r} are its members' to commit: stop its consumers first",
        ) from error


async def explain_group(coordinator: Coordinator) -> list[GroupRebalance]:
    """Once. UNSUPPORTED_VERSION where the broker keeps no history of its groups, as Kafka's do not."""
    question = DescribeGroupsRequest(groups=[coordinator.group_id], include_history=True)
    answer = await coordinator.ask(question, DescribeGroupsResponse)
    (group,) = answer.groups
    coordinator.refuse(group.error_code, "the history")
    if group.history is None:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "this broker keeps no history of its groups: only Odradek's brokers do"
        )
    return [group_rebalance(each) for each in decode_versioned(GroupHistory, group.history).rebalances]
