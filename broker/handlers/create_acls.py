"""CreateAcls, API key 30: who may do what to which resources.

The ACLs are on disk, or in ZooKeeper, when the response goes out, and count for the next request of every connection.
Without an authorizer they are rejected with SECURITY_DISABLED, as in Kafka. An ACL that is there already is created
once more without a change.
"""

from __future__ import annotations

import asyncio

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ..network.request import RequestContext
from ..security.acls import Acl, Operation, mistake_in
from ..services import Services
from ..turns import VALUES_PER_TURN
from .acl_requests import MAX_ACL_CHARS, MAX_ACLS, MAX_CHANGED, check_codes, rejection

_TOO_MANY = "Unable to perform excessively large batch operation."


def handle(
    services: Services, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse | asyncio.Future[CreateAclsResponse]:
    """Create all that are valid, together. Raises CloseConnection for one with an UNKNOWN element."""
    for each in request.creations:
        check_codes("CreateAcls", each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
    if (error := rejection(services, context, Operation.ALTER)) is not None:
        return _all(request, error.code, error.message)
    if len(request.creations) > MAX_CHANGED:
        return _all(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY)
    return asyncio.ensure_future(_create(services, request))


async def _create(services: Services, request: CreateAclsRequest) -> CreateAclsResponse:
    acls: list[Acl] = []
    results: list[AclCreationResult] = []
    for first in range(0, len(request.creations), VALUES_PER_TURN):
        if first:
            await asyncio.sleep(0)
        some = list(map(_acl, request.creations[first : first + VALUES_PER_TURN]))
        acls += some
        results += (_result(services, acl) for acl in some)
    added = dict.fromkeys(acl for acl, result in zip(acls, results, strict=True) if not result.error_code)
    new = [acl for acl in added if acl not in services.security.acls]
    if why := _too_many(services, new):
        return _all(request, ErrorCode.POLICY_VIOLATION, why)
    errors = await services.security.change_acls(new)
    for number, acl in enumerate(acls):
        if (error := errors.get(acl)) is not None and not results[number].error_code:
            results[number] = AclCreationResult(int(error.code), error.message)
    return CreateAclsResponse(results=results)


def _all(request: CreateAclsRequest, code: ErrorCode, why: str) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(int(code), why)] * len(request.creations))


def _acl(sent: AclCreation) -> Acl:
    return Acl(
        sent.resource_type,
        sent.resource_name,
        sent.resource_pattern_type,
        sent.principal,
        sent.host,
        sent.operation,
        sent.permission_type,
    )


def _result(services: Services, acl: Acl) -> AclCreationResult:
    why = mistake_in(acl)
    if not why:
        try:
            services.security.check_name(acl.resource_name)
        except KafkaError as error:
            why = error.message
    return AclCreationResult(int(ErrorCode.INVALID_REQUEST), why) if why else AclCreationResult(0, "")


def _too_many(services: Services, new: list[Acl]) -> str:
    """Return why the whole request is too much; empty where it is not."""
    acls = services.security.acls
    if len(acls) + len(new) > MAX_ACLS:
        return f"There are {len(acls)} ACLs, and at most {MAX_ACLS} can be. A prefixed ACL may stand for many."
    chars = sum(len(acl.resource_name) + len(acl.principal) + len(acl.host) for each in (acls, new) for acl in each)
    return f"The ACLs would have more than {MAX_ACL_CHARS} characters together." if chars > MAX_ACL_CHARS else ""
