"""ListPartitionReassignments, API key 46: the partitions that are moving to other replicas (KIP-455).

Only the controller of a cluster knows them. Of a broker that is alone none is moving.
"""

from __future__ import annotations

from ...protocol.errors import KafkaError
from ...protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ..network.request import RequestContext
from ..services import Services


def handle(
    services: Services, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the reassignments of the partitions that are named, or all. NOT_CONTROLLER."""
    try:
        moving = services.replica_admin.reassignments()
    except KafkaError as error:
        return ListPartitionReassignmentsResponse(error_code=int(error.code), error_message=error.message)
    if request.topics is not None:
        named = {(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
        moving = {place: each for place, each in moving.items() if place in named}
    topics: dict[str, OngoingTopicReassignment] = {}
    for (topic, index), each in moving.items():
        found = topics.setdefault(topic, OngoingTopicReassignment(topic))
        found.partitions.append(
            OngoingPartitionReassignment(index, list(each.replicas), list(each.adding), list(each.removing))
        )
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values()))
