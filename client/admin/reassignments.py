"""Leaders and replicas: ElectLeaders (key 43), AlterPartitionReassignments (45), ListPartitionReassignments (46).

A broker that is alone does not serve these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ...protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ...protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ..descriptions import Reassignment
from ..errors import raise_error
from ..network.cluster import Cluster
from ..record import TopicPartition

_PREFERRED, _UNCLEAN = 0, 1


async def elect_leaders(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None, unclean: bool, timeout_ms: int
) -> list[TopicPartition]:
    """Elect leaders of partitions, or of all that need it. Return those that have a new one."""
    topics: dict[str, TopicPartitions] = {}
    for each in partitions or ():
        topics.setdefault(each.topic, TopicPartitions(each.topic)).partitions.append(each.partition)
    named = None if partitions is None else list(topics.values())
    request = ElectLeadersRequest(_UNCLEAN if unclean else _PREFERRED, named, timeout_ms)

    async def attempt() -> list[TopicPartition]:
        response = await cluster.request_controller(request, ElectLeadersResponse)
        raise_error(response.error_code, None, "no leader was elected")
        elected: list[TopicPartition] = []
        for topic in response.replica_election_results:
            for each in topic.partition_result:
                if ErrorCode.of(each.error_code) == ErrorCode.ELECTION_NOT_NEEDED:
                    continue
                what = f"no leader of {topic.topic}-{each.partition_id} was elected"
                raise_error(each.error_code, each.error_message, what)
                elected.append(TopicPartition(topic.topic, each.partition_id))
        return elected

    return await cluster.retry(attempt)


async def reassign(cluster: Cluster, replicas: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int) -> None:
    """Begin to give partitions other replicas; None cancels what is under way. Raises the error of the first."""
    topics: dict[str, ReassignableTopic] = {}
    for partition, brokers in replicas.items():
        topic = topics.setdefault(partition.topic, ReassignableTopic(partition.topic))
        wanted = None if brokers is None else list(brokers)
        topic.partitions.append(ReassignablePartition(partition.partition, wanted))
    request = AlterPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=list(topics.values()))

    async def attempt() -> None:
        response = await cluster.request_controller(request, AlterPartitionReassignmentsResponse)
        raise_error(response.error_code, response.error_message, "no partition was reassigned")
        for topic in response.responses:
            for each in topic.partitions:
                what = f"{topic.name}-{each.partition_index} was not reassigned"
                raise_error(each.error_code, each.error_message, what)

    await cluster.retry(attempt)


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
