"""ElectLeaders, API key 43: preferred leaders, or any living replica where the whole ISR is dead (KIP-183, KIP-460).

Only the controller of a cluster does it. A broker that is alone leads all of its partitions: nothing is to be elected.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ..network.request import RequestContext
from ..services import Services

PREFERRED, UNCLEAN = 0, 1
FIRST_WITH_TYPES = 1


def handle(
    services: Services, context: RequestContext, request: ElectLeadersRequest
) -> asyncio.Future[ElectLeadersResponse]:
    """Elect leaders of the partitions that are named, or of all. Of all, those that need no election are left out."""
    return asyncio.ensure_future(_elect(services, request, context.api_version))


async def _elect(services: Services, request: ElectLeadersRequest, version: int) -> ElectLeadersResponse:
    places = request.topic_partitions
    named = None if places is None else [(topic.topic, index) for topic in places for index in topic.partitions]
    kind = request.election_type if version >= FIRST_WITH_TYPES else PREFERRED
    try:
        if kind not in (PREFERRED, UNCLEAN):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        errors = await services.replica_admin.elect(named, unclean=kind == UNCLEAN, timeout_ms=request.timeout_ms)
    except KafkaError as error:
        if version >= FIRST_WITH_TYPES:
            return ElectLeadersResponse(error_code=int(error.code))
        errors = dict.fromkeys(named or [], error.code)
    topics: dict[str, list[PartitionResult]] = defaultdict(list)
    for (topic, index), code in errors.items():
        topics[topic].append(PartitionResult(index, int(code), code.text if code else None))
    return ElectLeadersResponse(
        replica_election_results=[ReplicaElectionResult(topic, results) for topic, results in topics.items()]
    )
