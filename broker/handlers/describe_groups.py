"""DescribeGroups, API key 15: groups with their members. Versions 0-6 (3 authorized operations, 4 static members, 6
GROUP_ID_NOT_FOUND)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services


def handle(services: Services, context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """The group coordinator answers."""
    return services.groups.describe(context, request)
