"""Access control lists: DescribeAcls (key 29), CreateAcls (30), DeleteAcls (31).

A broker without an authorizer rejects them with SECURITY_DISABLED.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ...protocol.messages.delete_acls import (
    DeleteAclsFilter,
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
from ..core.cluster import Cluster
from ..core.leaders import for_items, retried
from ..core.options import check_choice, items_of
from ..errors import KafkaError, error_of, raise_error

# The words of ACLs, in the order of Kafka's numbers.
RESOURCES = ("topic", "group", "cluster", "transactional_id", "delegation_token", "user")
PATTERNS = ("literal", "prefixed")
OPERATIONS = (
    *("all", "read", "write", "create", "delete", "alter", "describe", "cluster_action", "describe_configs"),
    *("alter_configs", "idempotent_write", "create_tokens", "describe_tokens", "two_phase_commit"),
)


def _numbered(*words: str) -> dict[str, int]:
    return {word: number for number, word in enumerate(words, 1)}


# "any" and "match" are for filters.
_RESOURCES, _OPERATIONS = _numbered("any", *RESOURCES), _numbered("any", *OPERATIONS)
_PATTERNS, _PERMISSIONS = _numbered("any", "match", *PATTERNS), _numbered("any", "deny", "allow")


@dataclass(frozen=True, slots=True)
class Acl:
    """Who may, or may not, do what with which resource. Kafka's words in lower case, with underscores."""

    principal: str
    operation: str
    resource_type: str
    resource_name: str
    permission: str = "allow"
    host: str = "*"
    # "literal", or "prefixed": every name that begins so.
    pattern_type: str = "literal"

    def __str__(self) -> str:
        place = f"{self.resource_type}:{self.resource_name}{'*' if self.pattern_type == 'prefixed' else ''}"
        return f"{self.permission} {self.principal} {self.operation} {place} from {self.host}"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which ACLs are meant; what is left out matches all. `pattern_type="match"` finds all that apply to a name."""

    principal: str | None = None
    operation: str = "any"
    resource_type: str = "any"
    resource_name: str | None = None
    permission: str = "any"
    host: str | None = None
    pattern_type: str = "any"


def _fields(acl: Acl | AclFilter) -> tuple[Any, ...]:
    """Return an ACL, or a filter, as the fields of Kafka's structs. Raises InvalidOption for an unknown word."""
    forbidden = ("any", "match") if isinstance(acl, Acl) else ()
    for name, words in (
        ("operation", _OPERATIONS),
        ("resource_type", _RESOURCES),
        ("permission", _PERMISSIONS),
        ("pattern_type", _PATTERNS),
    ):
        check_choice(name, getattr(acl, name), [word for word in words if word not in forbidden])
    return (
        _RESOURCES[acl.resource_type],
        acl.resource_name,
        _PATTERNS[acl.pattern_type],
        acl.principal,
        acl.host,
        _OPERATIONS[acl.operation],
        _PERMISSIONS[acl.permission],
    )


def _acl(resource: DescribeAclsResource | DeleteAclsMatchingAcl, each: AclDescription | DeleteAclsMatchingAcl) -> Acl:
    return Acl(
        each.principal,
        _word(_OPERATIONS, each.operation),
        _word(_RESOURCES, resource.resource_type),
        resource.resource_name,
        _word(_PERMISSIONS, each.permission_type),
        each.host,
        _word(_PATTERNS, resource.pattern_type),
    )


def _word(words: dict[str, int], number: int) -> str:
    return next((word for word, each in words.items() if each == number), f"unknown_{number}")


@retried
async def describe_acls(cluster: Cluster, wanted: AclFilter | None = None) -> list[Acl]:
    """Return all ACLs, or those that a filter matches. Raises SECURITY_DISABLED without an authorizer."""
    response = await cluster.request_any(DescribeAclsRequest(*_fields(wanted or AclFilter())), DescribeAclsResponse)
    raise_error(response.error_code, response.error_message, "the ACLs cannot be described")
    return [_acl(resource, each) for resource in response.resources for each in resource.acls]


async def create_acls(cluster: Cluster, *wanted: Acl | Iterable[Acl]) -> None:
    """Create ACLs; one that is there already is no error. Raises KafkaError, SECURITY_DISABLED."""
    creations = {acl: AclCreation(*_fields(acl)) for acl in items_of("create_acls", Acl, wanted)}

    async def attempt(acls: list[Acl]) -> dict[Acl, KafkaError | None]:
        request = CreateAclsRequest([creations[each] for each in acls])
        response = await cluster.request_controller(request, CreateAclsResponse)
        # Results come in the order of the request, and without names.
        return {
            acl: error_of(each.error_code, each.error_message, f"the ACL ({acl}) was not created")
            for acl, each in zip(acls, response.results, strict=False)
        }

    await for_items(cluster, creations, attempt)


async def delete_acls(cluster: Cluster, *filters: AclFilter | Iterable[AclFilter]) -> dict[AclFilter, list[Acl]]:
    """Delete the ACLs that filters match. Return those of each filter. Raises KafkaError, SECURITY_DISABLED."""
    wire_filters = {one: DeleteAclsFilter(*_fields(one)) for one in items_of("delete_acls", AclFilter, filters)}

    async def attempt(wanted: list[AclFilter]) -> dict[AclFilter, list[Acl] | KafkaError]:
        request = DeleteAclsRequest([wire_filters[each] for each in wanted])
        response = await cluster.request_controller(request, DeleteAclsResponse)
        found: dict[AclFilter, list[Acl] | KafkaError] = {}
        for one, result in zip(wanted, response.filter_results, strict=False):
            deleted = [_acl(each, each) for each in result.matching_acls]
            failed = next((each for each in reversed(result.matching_acls) if each.error_code), result)
            what = f"the ACLs of {one} were not deleted"
            found[one] = error_of(failed.error_code, failed.error_message, what) or deleted
        return found

    return await for_items(cluster, wire_filters, attempt)
