"""LeaderAndIsr, API key 4: which partitions this broker leads and follows, as the controller says.

Only a broker in a cluster serves it. A controller older than Kafka 2.8 names no topic ids, without which nobody could
tell a topic from a deleted one of its name.
"""

from __future__ import annotations

import asyncio

from ...protocol.errors import ErrorCode
from ...protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ..network.request import RequestContext
from ..services import Services

FIRST_WITH_IDS = 5


def handle(
    services: Services, context: RequestContext, request: LeaderAndIsrRequest
) -> LeaderAndIsrResponse | asyncio.Future[LeaderAndIsrResponse]:
    """Carry the request out after those of the controller that came before it. UNSUPPORTED_VERSION without ids."""
    if context.api_version < FIRST_WITH_IDS:
        return LeaderAndIsrResponse(int(ErrorCode.UNSUPPORTED_VERSION))
    assert services.replicas is not None, "the route is served in a cluster only"
    return asyncio.ensure_future(services.replicas.leader_and_isr(request))
