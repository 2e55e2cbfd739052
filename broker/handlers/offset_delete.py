"""OffsetDelete, API key 47: committed offsets of a group go, where nobody subscribes their topics. Version 0."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | asyncio.Future[OffsetDeleteResponse]:
    """The group coordinator answers."""
    return services.groups.delete_offsets(context, request)
