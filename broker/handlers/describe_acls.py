"""DescribeAcls, API key 29: rejected with SECURITY_DISABLED, as in a Kafka without an authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ..network.connection import CloseConnection
from ..network.request import RequestContext

if TYPE_CHECKING:
    from ..services import Services

# The number that clients send for an element that they cannot name. Kafka does not read such a request.
UNKNOWN = 0
# Kafka's own words: without the full stop that CreateAcls and DeleteAcls have.
NO_AUTHORIZER = "No Authorizer is configured on the broker"


def handle(services: Services, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Return SECURITY_DISABLED for every filter. Raises CloseConnection for one with an UNKNOWN element."""
    if UNKNOWN in (
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    ):
        raise CloseConnection(f"DescribeAcls with an UNKNOWN element: {request}")
    return DescribeAclsResponse(error_code=int(ErrorCode.SECURITY_DISABLED), error_message=NO_AUTHORIZER)
