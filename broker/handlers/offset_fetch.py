"""OffsetFetch, API key 9: returns how far groups have come.

The group coordinator answers. Version 0 in a cluster reads offsets in ZooKeeper, apart from those of the coordinator.
"""

from __future__ import annotations

import asyncio

from ...protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ..network.request import RequestContext
from ..services import Services
from ..turns import LargeResponse


def handle(
    services: Services, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | LargeResponse[OffsetFetchResponse] | asyncio.Future[OffsetFetchResponse]:
    """Let the group coordinator answer, or for version 0 ZooKeeper."""
    if context.api_version == 0 and services.cluster is not None:
        return asyncio.ensure_future(services.cluster.old_offsets.fetch(request))
    return services.groups.fetch_offsets(context, request)
