"""Access control lists: DescribeAcls (key 29), CreateAcls (30), DeleteAcls (31).

A broker without an authorizer rejects them with SECURITY_DISABLED.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ...protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from ...protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ..core.cluster import Cluster
from ..core.options import check_choice
from ..errors import KafkaError, raise_error
from .items import for_items, item_result

# Kafka's numbers of its words; "any" and "match" are for filters.
_RESOURCES = {"any": 1, "topic": 2, "group": 3, "cluster": 4, "transactional_id": 5, "delegation_token": 6, "user": 7}
_PATTERNS = {"any": 1, "match": 2, "literal": 3, "prefixed": 4}
_OPERATIONS = {
    name: number
    for number, name in enumerate(
        (
            *("any", "all", "read", "write", "create", "delete", "alter", "describe", "cluster_action"),
            *("describe_configs", "alter_configs", "idempotent_write", "create_tokens", "describe_tokens"),
            "two_phase_commit",
        ),
        1,
    )
}
_PERMISSIONS = {"any": 1, "deny": 2, "allow": 3}


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


def _check(acl: Acl | AclFilter) -> None:
    """Raise InvalidOption for a word that Kafka does not have."""
    forbidden = ("any", "match") if isinstance(acl, Acl) else ()
    for name, words in (
        ("operation", _OPERATIONS),
        ("resource_type", _RESOURCES),
        ("permission", _PERMISSIONS),
        ("pattern_type", _PATTERNS),
    ):
        check_choice(name, getattr(acl, name), [word for word in words if word not in forbidden])


def _word(words: dict[str, int], number: int) -> str:
    return next((word for word, each in words.items() if each == number), f"unknown_{number}")


async def describe(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """Return the ACLs that a filter matches."""
    _check(wanted)
    request = DescribeAclsRequest(
        _RESOURCES[wanted.resource_type],
        wanted.resource_name,
        _PATTERNS[wanted.pattern_type],
        wanted.principal,
        wanted.host,
        _OPERATIONS[wanted.operation],
        _PERMISSIONS[wanted.permission],
    )

    async def attempt() -> list[Acl]:
        response = await cluster.request_any(request, DescribeAclsResponse)
        raise_error(response.error_code, response.error_message, "the ACLs cannot be described")
        return [
            _acl(each.principal, each.operation, resource.resource_type, resource.resource_name,
                 each.permission_type, each.host, resource.pattern_type)
            for resource in response.resources
            for each in resource.acls
        ]  # fmt: skip

    return await cluster.retry(attempt)


def _acl(principal: str, operation: int, kind: int, name: str, permission: int, host: str, pattern: int) -> Acl:
    return Acl(
        principal,
        _word(_OPERATIONS, operation),
        _word(_RESOURCES, kind),
        name,
        _word(_PERMISSIONS, permission),
        host,
        _word(_PATTERNS, pattern),
    )


async def create(cluster: Cluster, acls: Sequence[Acl]) -> None:
    """Create ACLs. Results come in the order of the request, and without names."""
    for acl in acls:
        _check(acl)

    async def attempt(wanted: list[Acl]) -> dict[Acl, KafkaError | None]:
        request = CreateAclsRequest([_creation(each) for each in wanted])
        response = await cluster.request_controller(request, CreateAclsResponse)
        return {
            acl: item_result(None, each.error_code, each.error_message, f"{acl} was not created")
            for acl, each in zip(wanted, response.results, strict=False)
        }

    await for_items(cluster, acls, attempt)


def _creation(acl: Acl) -> AclCreation:
    return AclCreation(
        _RESOURCES[acl.resource_type],
        acl.resource_name,
        _PATTERNS[acl.pattern_type],
        acl.principal,
        acl.host,
        _OPERATIONS[acl.operation],
        _PERMISSIONS[acl.permission],
    )


async def delete(cluster: Cluster, filters: Sequence[AclFilter]) -> dict[AclFilter, list[Acl]]:
    """Delete the ACLs that filters match. Return those of each filter."""
    for one in filters:
        _check(one)

    async def attempt(wanted: list[AclFilter]) -> dict[AclFilter, list[Acl] | KafkaError]:
        request = DeleteAclsRequest([_wire_filter(each) for each in wanted])
        response = await cluster.request_controller(request, DeleteAclsResponse)
        found: dict[AclFilter, list[Acl] | KafkaError] = {}
        for one, result in zip(wanted, response.filter_results, strict=False):
            what = f"the ACLs of {one} were not deleted"
            deleted = [
                _acl(each.principal, each.operation, each.resource_type, each.resource_name,
                     each.permission_type, each.host, each.pattern_type)
                for each in result.matching_acls
            ]  # fmt: skip
            found[one] = item_result(deleted, result.error_code, result.error_message, what)
            for each in result.matching_acls:
                if each.error_code:
                    found[one] = item_result(deleted, each.error_code, each.error_message, what)
        return found

    return await for_items(cluster, filters, attempt)


def _wire_filter(wanted: AclFilter) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        _RESOURCES[wanted.resource_type],
        wanted.resource_name,
        _PATTERNS[wanted.pattern_type],
        wanted.principal,
        wanted.host,
        _OPERATIONS[wanted.operation],
        _PERMISSIONS[wanted.permission],
    )
