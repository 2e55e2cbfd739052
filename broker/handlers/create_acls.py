"""CreateAcls, API key 30: rejected with SECURITY_DISABLED, as in a Kafka without an authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ..network.connection import CloseConnection
from ..network.request import RequestContext
from .describe_acls import UNKNOWN

if TYPE_CHECKING:
    from ..services import Services

NO_AUTHORIZER = "No Authorizer is configured."


def handle(services: Services, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Return SECURITY_DISABLED for every ACL. Raises CloseConnection for one with an UNKNOWN element."""
    for acl in request.creations:
        if UNKNOWN in (acl.resource_type, acl.resource_pattern_type, acl.operation, acl.permission_type):
            raise CloseConnection(f"CreateAcls with an UNKNOWN element: {acl}")
    result = AclCreationResult(int(ErrorCode.SECURITY_DISABLED), NO_AUTHORIZER)
    return CreateAclsResponse(results=[result] * len(request.creations))
