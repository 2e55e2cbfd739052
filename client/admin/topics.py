"""What an administrator does to topics that exist: CreatePartitions (key 37), DeleteRecords (key 21)."""

from __future__ import annotations

from collections.abc import Mapping

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ...protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ..errors import UnknownTopic, refuse
from ..network.cluster import Cluster
from ..network.log_offsets import by_leader, know_leaders
from ..record import TopicPartition


async def create_partitions(cluster: Cluster, totals: Mapping[str, int], validate_only: bool, limit_ms: int) -> None:
    """Raises KafkaError for the first topic that is refused; the others have got theirs."""
    topics = [CreatePartitionsTopic(name, count, None) for name, count in totals.items()]
    question = CreatePartitionsRequest(topics, limit_ms, validate_only)

    async def ask() -> None:
        answer = await cluster.ask(await cluster.controller(), question, CreatePartitionsResponse)
        for topic in answer.results:
            if ErrorCode.of(topic.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic(f"topic {topic.name!r} does not exist")
            refuse(topic.error_code, topic.error_message, f"topic {topic.name!r} was given no partitions")

    await cluster.until_done(ask)


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], limit_ms: int
) -> dict[TopicPartition, int]:
    """Where each partition begins now. Leaders are asked, again where they have moved."""
    starts: dict[TopicPartition, int] = {}

    async def ask_for_the_rest() -> None:
        rest = {partition: offset for partition, offset in before.items() if partition not in starts}
        await know_leaders(cluster, rest)
        for leader, partitions in by_leader(cluster, rest).items():
            answer = await cluster.ask(leader, _question(partitions, limit_ms), DeleteRecordsResponse)
            for topic in answer.topics:
                for each in topic.partitions:
                    refuse(each.error_code, None, f"no records of {topic.name}-{each.partition_index} were deleted")
                    starts[TopicPartition(topic.name, each.partition_index)] = each.low_watermark
        missing = [partition for partition in before if partition not in starts]
        if missing:
            cluster.refresh_soon()
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"nobody deletes records of {missing[0]} now")

    await cluster.until_done(ask_for_the_rest)
    return starts


def _question(before: Mapping[TopicPartition, int], limit_ms: int) -> DeleteRecordsRequest:
    topics: dict[str, DeleteRecordsTopic] = {}
    for (name, number), offset in before.items():
        topic = topics.setdefault(name, DeleteRecordsTopic(name))
        topic.partitions.append(DeleteRecordsPartition(number, offset))
    return DeleteRecordsRequest(list(topics.values()), limit_ms)
