"""Heartbeat, API key 12: a member lives. Versions 0-4 (3 static members)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse | asyncio.Future[HeartbeatResponse]:
    """The group coordinator answers."""
    return services.groups.heartbeat(context, request)
