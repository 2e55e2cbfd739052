"""AlterPartitionReassignments, API key 45: give partitions other replicas, or cancel that (KIP-455).

Only the controller of a cluster does it. A broker that is alone does not serve it: there is no other broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ..network.request import RequestContext

if TYPE_CHECKING:
    from ..cluster.member import Member
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> asyncio.Future[AlterPartitionReassignmentsResponse]:
    """Begin or cancel reassignments; the response does not wait for their end. Each partition has its own error."""
    assert services.cluster is not None, "the route is served in a cluster only"
    return asyncio.ensure_future(_reassign(services.cluster, request))


async def _reassign(member: Member, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    wanted = {
        (topic.name, each.partition_index): None if each.replicas is None else tuple(each.replicas)
        for topic in request.topics
        for each in topic.partitions
    }
    try:
        errors = await member.admin.reassign(wanted, may_change_factor=request.allow_replication_factor_change)
    except KafkaError as error:
        return AlterPartitionReassignmentsResponse(error_code=int(error.code), error_message=error.message)
    return AlterPartitionReassignmentsResponse(
        error_message=None,
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(
                topic.name, [_result(topic.name, each.partition_index, errors) for each in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def _result(topic: str, index: int, errors: Mapping[Any, KafkaError]) -> ReassignablePartitionResponse:
    error = errors.get((topic, index))
    if error is None:
        return ReassignablePartitionResponse(index, int(ErrorCode.NONE), None)
    return ReassignablePartitionResponse(index, int(error.code), error.message or error.code.text)
