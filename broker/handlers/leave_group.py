"""LeaveGroup, API key 13: members go. Versions 0-5 (3 several at once, 5 a reason)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | asyncio.Future[LeaveGroupResponse]:
    """The group coordinator answers."""
    return services.groups.leave(context, request)
