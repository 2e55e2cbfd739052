"""UpdateMetadata, API key 6: what the controller tells of brokers, topics and leaders.

Only a broker in a cluster serves it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ..network.request import RequestContext

if TYPE_CHECKING:
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: UpdateMetadataRequest
) -> asyncio.Future[UpdateMetadataResponse]:
    """Carry the request out after those of the controller that came before it."""
    assert services.replicas is not None, "the route is served in a cluster only"
    return asyncio.ensure_future(services.replicas.update_metadata(request))
