"""DeleteAcls, API key 31: removes the ACLs that filters mean.

They are gone from the disk, or from ZooKeeper, when the response goes out. An ACL that two filters mean stands in both
results, as in Kafka. Without an authorizer the request is rejected with SECURITY_DISABLED.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ..network.request import RequestContext
from ..security.acls import Acl, AclFilter, Operation
from ..services import Services
from .acl_requests import MAX_CHANGED, check_codes, matching, mistake_in_filter, rejection

_TOO_MANY = f"Cannot remove more than {MAX_CHANGED} acls in a single delete operation."
# ACLs that the filters of a turn look at: less than a microsecond each.
_LOOKS_PER_TURN = 20_000


def handle(
    services: Services, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse | asyncio.Future[DeleteAclsResponse]:
    """Remove the ACLs, together. Raises CloseConnection for a filter with an UNKNOWN element."""
    for each in request.filters:
        check_codes(
            "DeleteAcls", each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type
        )
    if (error := rejection(services, context, Operation.ALTER)) is not None:
        return _all(request, error.code, error.message)
    if len(request.filters) > MAX_CHANGED:
        return _all(request, ErrorCode.INVALID_REQUEST, _TOO_MANY)
    return asyncio.ensure_future(_delete(services, request))


def _all(request: DeleteAclsRequest, code: ErrorCode, why: str) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(int(code), why)] * len(request.filters))


async def _delete(services: Services, request: DeleteAclsRequest) -> DeleteAclsResponse:
    results: list[DeleteAclsFilterResult] = []
    removed: dict[Acl, None] = {}
    filters_per_turn = max(1, _LOOKS_PER_TURN // (1 + len(services.security.acls)))
    shown = 0
    for at, sent in enumerate(request.filters):
        if at and at % filters_per_turn == 0:
            await asyncio.sleep(0)
        wanted = _filter(sent)
        if why := mistake_in_filter(wanted):
            results.append(DeleteAclsFilterResult(int(ErrorCode.INVALID_REQUEST), why))
            continue
        found = matching(services, wanted)
        removed.update(dict.fromkeys(found))
        shown += len(found)
        if shown > MAX_CHANGED:
            return _all(request, ErrorCode.INVALID_REQUEST, _TOO_MANY)
        results.append(DeleteAclsFilterResult(0, None, [_match(acl) for acl in found]))
    if errors := await services.security.change_acls((), removed):
        _note_errors(results, errors)
    return DeleteAclsResponse(filter_results=results)


def _filter(sent: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        sent.resource_type_filter,
        sent.resource_name_filter,
        sent.pattern_type_filter,
        sent.principal_filter,
        sent.host_filter,
        sent.operation,
        sent.permission_type,
    )


def _note_errors(results: list[DeleteAclsFilterResult], errors: Mapping[Acl, KafkaError]) -> None:
    for result in results:
        for match in result.matching_acls:
            error = errors.get(_acl(match))
            if error is not None:
                match.error_code, match.error_message = int(error.code), error.message


def _acl(match: DeleteAclsMatchingAcl) -> Acl:
    return Acl(
        match.resource_type,
        match.resource_name,
        match.pattern_type,
        match.principal,
        match.host,
        match.operation,
        match.permission_type,
    )


def _match(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(0, None, *acl)
