"""ListGroups, API key 16: the groups of this coordinator. Versions 0-5 (4 states, 5 types)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services


def handle(services: Services, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """The group coordinator answers."""
    return services.groups.list(context, request)
