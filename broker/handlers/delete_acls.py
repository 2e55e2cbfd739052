"""DeleteAcls, API key 31: rejected with SECURITY_DISABLED, as in a Kafka without an authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from ..network.connection import CloseConnection
from ..network.request import RequestContext
from .create_acls import NO_AUTHORIZER
from .describe_acls import UNKNOWN

if TYPE_CHECKING:
    from ..services import Services


def handle(services: Services, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Return SECURITY_DISABLED for every filter. Raises CloseConnection for one with an UNKNOWN element."""
    for each in request.filters:
        if UNKNOWN in (each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type):
            raise CloseConnection(f"DeleteAcls with an UNKNOWN element: {each}")
    result = DeleteAclsFilterResult(int(ErrorCode.SECURITY_DISABLED), NO_AUTHORIZER)
    return DeleteAclsResponse(filter_results=[result] * len(request.filters))
