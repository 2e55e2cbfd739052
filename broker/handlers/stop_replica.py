"""StopReplica, API key 5: partitions that this broker holds or follows no longer.

Only a broker in a cluster serves it.
"""

from __future__ import annotations

import asyncio

from ...protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ..network.request import RequestContext
from ..services import Services


def handle(
    services: Services, context: RequestContext, request: StopReplicaRequest
) -> asyncio.Future[StopReplicaResponse]:
    """Carry the request out after those of the controller that came before it."""
    assert services.replicas is not None, "the route is served in a cluster only"
    return asyncio.ensure_future(services.replicas.stop_replica(request))
