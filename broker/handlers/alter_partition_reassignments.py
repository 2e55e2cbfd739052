"""AlterPartitionReassignments, API key 45: give partitions other replicas, or cancel that (KIP-455).

Only the controller of a cluster does it. A broker that is alone rejects every replica elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ..network.request import RequestContext
from ..services import Services


def handle(
    services: Services, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> asyncio.Future[AlterPartitionReassignmentsResponse]:
    """Begin or cancel reassignments; the response does not wait for their end. Each partition has its own error."""
    return asyncio.ensure_future(_reassign(services, request))


async def _reassign(
    services: Services, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    wanted = {
        (topic.name, each.partition_index): None if each.replicas is None else tuple(each.replicas)
        for topic in request.topics
        for each in topic.partitions
    }
    may_change_factor = request.allow_replication_factor_change
    try:
        errors = await services.replica_admin.reassign(wanted, may_change_factor=may_change_factor)
    except KafkaError as error:
        return AlterPartitionReassignmentsResponse(error_code=int(error.code), error_message=error.message)
    return AlterPartitionReassignmentsResponse(
        error_message=None,
        allow_replication_factor_change=may_change_factor,
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
