"""DeleteGroups, API key 42: empty groups go, with their offsets. Versions 0-2 (2 flexible)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | asyncio.Future[DeleteGroupsResponse]:
    """The group coordinator answers."""
    return services.groups.delete(context, request)
