"""CreateAcls, DescribeAcls and DeleteAcls: who may do what to which resources.

ACLs are on disk, or in ZooKeeper, when the response goes out, and count for the next request of every connection.
Without an authorizer the requests are rejected with SECURITY_DISABLED, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ...protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ...protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ..network.access.security import check_creation, check_filter
from ..network.request import RequestContext
from ..security.acls import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    known,
    mistake_in,
)
from ..security.hosts import mistake_in_host
from ..services import Services
from ..turns import LargeResponse, fill, keeper

# Kafka's bound of the ACLs that one request changes.
MAX_CHANGED = 10_000
# ACLs are in memory, and each start reads them. Kafka has no such bounds.
MAX_ACLS = 20_000
MAX_ACL_CHARS = 8 * 1024 * 1024
NO_AUTHORIZER = "No Authorizer is configured."
# Kafka's own words: without the full stop.
_NO_AUTHORIZER_TO_DESCRIBE = "No Authorizer is configured on the broker"
_TOO_MANY_CREATED = "Unable to perform excessively large batch operation."
_TOO_MANY_DELETED = f"Cannot remove more than {MAX_CHANGED} acls in a single delete operation."


async def create_acls(services: Services, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """CreateAcls, API key 30: create all that are valid, together. Raises CloseConnection for an UNKNOWN element.

    An ACL that is there already is created once more without a change.
    """
    for each in request.creations:
        check_creation(each)
        await keeper().pause()
    if services.authorizer is None:
        return _none_created(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    if len(request.creations) > MAX_CHANGED:
        return _none_created(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY_CREATED)
    acls: list[Acl] = []
    results: list[AclCreationResult] = []
    for acl in map(_created, request.creations):
        acls.append(acl)
        results.append(_result(services, acl))
        await keeper().pause()
    added = dict.fromkeys(acl for acl, result in zip(acls, results, strict=True) if not result.error_code)
    new = [acl for acl in added if acl not in services.security.acls]
    if why := _too_many(services, new):
        return _none_created(request, ErrorCode.POLICY_VIOLATION, why)
    errors = await services.security.change_acls(new)
    for number, acl in enumerate(acls):
        if (error := errors.get(acl)) is not None and not results[number].error_code:
            results[number] = AclCreationResult(int(error.code), error.message)
    return CreateAclsResponse(results=results)


def _none_created(request: CreateAclsRequest, code: ErrorCode, why: str) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(int(code), why)] * len(request.creations))


def _created(sent: AclCreation) -> Acl:
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
    why = mistake_in(acl) or mistake_in_host(acl.host)
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


def describe_acls(
    services: Services, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse | LargeResponse[DescribeAclsResponse]:
    """DescribeAcls, API key 29: the ACLs that a filter means, resource by resource.

    Raises CloseConnection for a filter with an UNKNOWN element.
    """
    wanted = _filter("DescribeAcls", request)
    if services.authorizer is None:
        code = int(ErrorCode.SECURITY_DISABLED)
        return DescribeAclsResponse(error_code=code, error_message=_NO_AUTHORIZER_TO_DESCRIBE)
    # A code that Kafka does not know finds nothing, and is no error here.
    response = DescribeAclsResponse()
    return fill(response, _add(response, _looks(services, wanted)), len(services.security.acls))


def _add(response: DescribeAclsResponse, looks: Iterator[Acl | None]) -> Iterator[None]:
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in looks:
        yield
        if acl is None:
            continue
        pattern = acl.resource_type, acl.resource_name, acl.pattern_type
        resource = resources.get(pattern)
        if resource is None:
            resource = resources[pattern] = DescribeAclsResource(*pattern)
            response.resources.append(resource)
        resource.acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission))


async def delete_acls(services: Services, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """DeleteAcls, API key 31: remove the ACLs that filters mean, together. Raises CloseConnection for an UNKNOWN
    element.

    An ACL that two filters mean stands in both results, as in Kafka.
    """
    filters: list[AclFilter] = []
    for each in request.filters:
        filters.append(_filter("DeleteAcls", each))
        await keeper().pause()
    if services.authorizer is None:
        return _none_deleted(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    if len(filters) > MAX_CHANGED:
        return _none_deleted(request, ErrorCode.INVALID_REQUEST, _TOO_MANY_DELETED)
    results: list[DeleteAclsFilterResult] = []
    # Each ACL that is removed, with its places in the results.
    removed: dict[Acl, list[DeleteAclsMatchingAcl]] = {}
    shown = 0
    for wanted in filters:
        await keeper().pause()
        if why := _mistake_in_filter(wanted):
            results.append(DeleteAclsFilterResult(int(ErrorCode.INVALID_REQUEST), why))
            continue
        found: list[Acl] = []
        await keeper().finish(_note(found, _looks(services, wanted)))
        shown += len(found)
        if shown > MAX_CHANGED:
            return _none_deleted(request, ErrorCode.INVALID_REQUEST, _TOO_MANY_DELETED)
        matching = [DeleteAclsMatchingAcl(0, None, *acl) for acl in found]
        results.append(DeleteAclsFilterResult(0, None, matching))
        for acl, match in zip(found, matching, strict=True):
            removed.setdefault(acl, []).append(match)
    for acl, error in (await services.security.change_acls((), removed)).items():
        for match in removed[acl]:
            match.error_code, match.error_message = int(error.code), error.message
    return DeleteAclsResponse(filter_results=results)


def _note(found: list[Acl], looks: Iterator[Acl | None]) -> Iterator[None]:
    for acl in looks:
        if acl is not None:
            found.append(acl)
        yield


def _none_deleted(request: DeleteAclsRequest, code: ErrorCode, why: str) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(int(code), why)] * len(request.filters))


def _filter(api: str, sent: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Return what a client's filter means. Raises CloseConnection for an UNKNOWN element."""
    check_filter(api, sent)
    return AclFilter(
        sent.resource_type_filter,
        sent.resource_name_filter,
        sent.pattern_type_filter,
        sent.principal_filter,
        sent.host_filter,
        sent.operation,
        sent.permission_type,
    )


def _looks(services: Services, wanted: AclFilter) -> Iterator[Acl | None]:
    """Yield the ACLs that a filter means, and None for each other one."""
    return (acl if wanted.matches(acl) else None for acl in list(services.security.acls))


def _mistake_in_filter(wanted: AclFilter) -> str:
    """Return why a filter cannot be used, in Kafka's words; empty where it can be."""
    if not (known(ResourceType, wanted.resource_type) and known(PatternType, wanted.pattern_type)):
        return "Unknown patternFilter."
    if not (known(Operation, wanted.operation) and known(Permission, wanted.permission)):
        return "Unknown entryFilter."
    return ""
