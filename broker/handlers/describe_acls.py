"""DescribeAcls, API key 29: the ACLs that a filter means, resource by resource.

Without an authorizer it is rejected with SECURITY_DISABLED, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ..network.request import RequestContext
from ..security.acls import Acl, AclFilter, Operation
from ..services import Services
from ..turns import LargeResponse, fill
from .acl_requests import check_codes, matching, rejection

# Kafka's own words: without the full stop that CreateAcls and DeleteAcls have.
NO_AUTHORIZER = "No Authorizer is configured on the broker"


def handle(
    services: Services, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse | LargeResponse[DescribeAclsResponse]:
    """Return the ACLs. Raises CloseConnection for a filter with an UNKNOWN element."""
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    check_codes("DescribeAcls", wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission)
    if (error := rejection(services, context, Operation.DESCRIBE)) is not None:
        text = NO_AUTHORIZER if error.code is ErrorCode.SECURITY_DISABLED else error.message
        return DescribeAclsResponse(error_code=int(error.code), error_message=text)
    # A code that Kafka does not know finds nothing, and is no error here.
    response = DescribeAclsResponse()
    found = matching(services, wanted)
    return fill(response, _add(response, found), len(found))


def _add(response: DescribeAclsResponse, acls: list[Acl]) -> Iterator[int]:
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in acls:
        pattern = acl.resource_type, acl.resource_name, acl.pattern_type
        resource = resources.get(pattern)
        if resource is None:
            resource = resources[pattern] = DescribeAclsResource(*pattern)
            response.resources.append(resource)
        resource.acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission))
        yield 1
