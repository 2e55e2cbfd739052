"""JoinGroup, API key 11: takes part in a group's next generation. Versions 0-9 (1 rebalance timeout, 4 the member id
first, 5 static members, 8 a reason, 9 skip_assignment)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | asyncio.Future[JoinGroupResponse]:
    """The group coordinator answers."""
    return services.groups.join(context, request)
