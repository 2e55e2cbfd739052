"""OffsetFetch, API key 9: how far a group has come. Versions 0-10 (2 all topics, 5 leader epochs, 7 require_stable, 8
several groups, 10 topic ids)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services


def handle(services: Services, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """The group coordinator answers."""
    return services.groups.fetch_offsets(context, request)
