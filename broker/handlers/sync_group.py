"""SyncGroup, API key 14: hands out the leader's assignment. Versions 0-5 (3 static members, 5 protocol type and name
are checked)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | asyncio.Future[SyncGroupResponse]:
    """The group coordinator answers."""
    return services.groups.sync(context, request)
