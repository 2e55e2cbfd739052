"""LeaderAndIsr, API key 4: which partitions this broker leads and follows, as the controller says.

Only a broker in a cluster serves it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ..network.request import RequestContext

if TYPE_CHECKING:
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: LeaderAndIsrRequest
) -> asyncio.Future[LeaderAndIsrResponse]:
    """Carry the request out after those of the controller that came before it."""
    assert services.replicas is not None, "the route is served in a cluster only"
    return asyncio.ensure_future(services.replicas.leader_and_isr(request))
