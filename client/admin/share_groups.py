"""Where share groups begin: DescribeShareGroupOffsets (key 90), AlterShareGroupOffsets (91), Delete... (92).

A share group commits nothing. Its start offset in a partition is behind the records that are done with; those after it
may be acquired, waiting or done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...protocol.errors import KafkaError
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
from ...protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from ..core.arguments import check_list, check_mapping
from ..core.cluster import Cluster
from ..core.coordinator import Coordinator
from ..core.descriptions import ShareOffset
from ..record import TopicPartition, by_topic
from .items import for_items, item_result


async def list_share_group_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, ShareOffset]:
    """Return where a share group begins in each of its partitions, and how much it has left. Raises KafkaError."""
    coordinator = Coordinator(cluster, group_id)
    return await cluster.retry(lambda: _list_once(coordinator))


async def _list_once(coordinator: Coordinator) -> dict[TopicPartition, ShareOffset]:
    request = DescribeShareGroupOffsetsRequest(groups=[DescribeShareGroupOffsetsRequestGroup(coordinator.key, None)])
    response = await coordinator.request(request, DescribeShareGroupOffsetsResponse)
    (group,) = response.groups
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
    check_mapping("alter_share_group_offsets", offsets, "TopicPartition and offset")
    coordinator = Coordinator(cluster, group_id)

    async def attempt(some: list[TopicPartition]) -> dict[TopicPartition, KafkaError | None]:
        topics = [
            AlterShareGroupOffsetsRequestTopic(
                name,
                [AlterShareGroupOffsetsRequestPartition(each, offsets[TopicPartition(name, each)]) for each in numbers],
            )
            for name, numbers in by_topic(some).items()
        ]
        request = AlterShareGroupOffsetsRequest(group_id, topics)
        response = await coordinator.request(request, AlterShareGroupOffsetsResponse)
        coordinator.raise_error(response.error_code, "setting start offsets", response.error_message)
        what = f"the start offset of share group {group_id!r} was not set for"
        return {
            TopicPartition(topic.topic_name, each.partition_index): item_result(
                None, each.error_code, each.error_message, f"{what} {topic.topic_name}-{each.partition_index}"
            )
            for topic in response.responses
            for each in topic.partitions
        }

    await for_items(cluster, offsets, attempt)


async def delete_share_group_offsets(cluster: Cluster, group_id: str, topics: Collection[str]) -> None:
    """Have a share group without members forget these topics. Raises KafkaError, NON_EMPTY_GROUP if it has members."""
    check_list("delete_share_group_offsets", topics)
    coordinator = Coordinator(cluster, group_id)

    async def attempt(some: list[str]) -> dict[str, KafkaError | None]:
        request = DeleteShareGroupOffsetsRequest(group_id, [DeleteShareGroupOffsetsRequestTopic(each) for each in some])
        response = await coordinator.request(request, DeleteShareGroupOffsetsResponse)
        coordinator.raise_error(response.error_code, "the deletion of start offsets", response.error_message)
        what = f"the start offsets of share group {group_id!r} were not deleted for"
        return {
            each.topic_name: item_result(None, each.error_code, each.error_message, f"{what} {each.topic_name}")
            for each in response.responses
        }

    await for_items(cluster, list(topics), attempt)
