"""UpdateMetadata, API key 6: what the controller tells of brokers, topics and leaders.

Only a broker in a cluster serves it. A controller older than Kafka 2.8 names no topic ids (leader_and_isr.py).
"""

from __future__ import annotations

import asyncio

from ...protocol.errors import ErrorCode
from ...protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ..network.request import RequestContext
from ..services import Services

FIRST_WITH_IDS = 7


def handle(
    services: Services, context: RequestContext, request: UpdateMetadataRequest
) -> UpdateMetadataResponse | asyncio.Future[UpdateMetadataResponse]:
    """Carry the request out after those of the controller that came before it. UNSUPPORTED_VERSION without ids."""
    if context.api_version < FIRST_WITH_IDS:
        return UpdateMetadataResponse(int(ErrorCode.UNSUPPORTED_VERSION))
    assert services.replicas is not None, "the route is served in a cluster only"
    return asyncio.ensure_future(services.replicas.update_metadata(request))
