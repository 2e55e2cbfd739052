"""Leaders and replicas: ElectLeaders (key 43), AlterPartitionReassignments (45), ListPartitionReassignments (46).

A broker that is alone does not serve these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ...protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    TopicPartitions,
)
from ...protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ..core.cluster import Cluster
from ..core.descriptions import Reassignment
from ..errors import raise_error, results_of
from ..record import TopicPartition
from .items import for_items, item_result

_PREFERRED, _UNCLEAN = 0, 1


async def elect_leaders(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None, unclean: bool, timeout_ms: int
) -> list[TopicPartition]:
    """Elect leaders of partitions, or of all that need it. Return those that have a new one."""
    kind = _UNCLEAN if unclean else _PREFERRED

    async def attempt(wanted: list[TopicPartition] | None) -> dict[TopicPartition, bool | KafkaError]:
        topics: dict[str, TopicPartitions] = {}
        for each in wanted or ():
            topics.setdefault(each.topic, TopicPartitions(each.topic)).partitions.append(each.partition)
        request = ElectLeadersRequest(kind, None if wanted is None else list(topics.values()), timeout_ms)
        response = await cluster.request_controller(request, ElectLeadersResponse)
        raise_error(response.error_code, None, "no leader was elected")
        return {
            TopicPartition(topic.topic, each.partition_id): _elected(topic.topic, each)
            for topic in response.replica_election_results
            for each in topic.partition_result
        }

    if partitions is not None:
        found = await for_items(cluster, list(partitions), attempt)
    else:  # of all: the broker names those that it tried
        found = results_of(await cluster.retry(lambda: attempt(None)))
    return [partition for partition, elected in found.items() if elected]


def _elected(topic: str, result: PartitionResult) -> bool | KafkaError:
    if ErrorCode.of(result.error_code) is ErrorCode.ELECTION_NOT_NEEDED:
        return False
    what = f"no leader of {topic}-{result.partition_id} was elected"
    return item_result(True, result.error_code, result.error_message, what)


async def reassign(cluster: Cluster, replicas: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int) -> None:
    """Begin to give partitions other replicas; None cancels what is under way."""

    async def attempt(partitions: list[TopicPartition]) -> dict[TopicPartition, KafkaError | None]:
        topics: dict[str, ReassignableTopic] = {}
        for partition in partitions:
            brokers = replicas[partition]
            topic = topics.setdefault(partition.topic, ReassignableTopic(partition.topic))
            wanted = None if brokers is None else list(brokers)
            topic.partitions.append(ReassignablePartition(partition.partition, wanted))
        request = AlterPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=list(topics.values()))
        response = await cluster.request_controller(request, AlterPartitionReassignmentsResponse)
        raise_error(response.error_code, response.error_message, "no partition was reassigned")
        return {
            TopicPartition(topic.name, each.partition_index): item_result(
                None, each.error_code, each.error_message, f"{topic.name}-{each.partition_index} was not reassigned"
            )
            for topic in response.responses
            for each in topic.partitions
        }

    await for_items(cluster, replicas, attempt)


async def reassignments(cluster: Cluster, timeout_ms: int) -> dict[TopicPartition, Reassignment]:
    """Return the partitions that are moving."""
    request = ListPartitionReassignmentsRequest(timeout_ms)

    async def attempt() -> dict[TopicPartition, Reassignment]:
        response = await cluster.request_controller(request, ListPartitionReassignmentsResponse)
        raise_error(response.error_code, response.error_message, "the reassignments are unknown")
        return {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in response.topics
            for each in topic.partitions
        }

    return await cluster.retry(attempt)
