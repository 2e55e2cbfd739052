"""ACLs that can match nobody: what is wrong with them, and the form that would match.

Kafka keeps every ACL whose codes are valid, and compares texts letter by letter. So an ACL that denies may protect
nothing, and nobody is told. The broker keeps them, too; the tools refuse to add them.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from ...protocol.errors import KafkaError
from ..security.acls import OPERATIONS, WILDCARD, Acl, Operation, PatternType, ResourceType
from ..security.hosts import range_of
from ..security.principals import USER_TYPE, address_text, parse_principal
from .topic_names import check_name

_OTHER_OPERATIONS: Final = {
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}


_FORM: Final = "give an IP address or a range as 10.0.0.0/8, because names are not looked up, or * for all"


def why_unmatchable(acl: Acl) -> str:
    """Return why an ACL can match nobody; empty where it can match somebody."""
    return _of_principal(acl.principal) or _of_host(acl.host) or _of_name(acl) or _of_operation(acl)


def host_as_seen(host: str) -> str:
    """Return an address as the broker sees a client at it; `*` as it is. Raises ValueError for what is no address."""
    return host if host == WILDCARD else address_text(str(ip_address(host)))


def _of_principal(text: str) -> str:
    found = parse_principal(text)
    kind, name = ("", text) if found is None else found
    bare = name.strip()
    if kind == USER_TYPE and bare == name and bare:
        return ""
    form = f"{USER_TYPE}:{bare or 'NAME'}"
    return f"no client has the principal {text!r}: all have the type {USER_TYPE}, and a name as it is: {form}"


def _of_host(host: str) -> str:
    if "/" in host and range_of(host) is not None:
        return ""
    try:
        seen = host_as_seen(host.strip())
    except ValueError:
        return f"no client has the address {host!r}: {_FORM}"
    return "" if seen == host else f"no client has the address {host!r}: the broker sees it as {seen}"


def _of_name(acl: Acl) -> str:
    name = acl.resource_name
    if acl.resource_type != ResourceType.TOPIC or name == WILDCARD:
        return ""
    is_prefix = acl.pattern_type == PatternType.PREFIXED
    try:
        check_name(f"{name}a" if is_prefix and name in (".", "..") else name)
    except KafkaError as error:
        before, star, _ = name.partition(WILDCARD)
        hint = f": a * stands at the end alone, as in topic:{before}*" if star else ""
        return f"no topic has such a name ({error.message}){hint}"
    return ""


def _of_operation(acl: Acl) -> str:
    kind = ResourceType(acl.resource_type)
    may_be = OPERATIONS.get(kind) or _OTHER_OPERATIONS[kind]
    if acl.operation == Operation.ALL or acl.operation in may_be:
        return ""
    names = ", ".join(each.name.lower() for each in (Operation.ALL, *may_be))
    return f"nobody does {Operation(acl.operation).name.lower()} to a {kind.name.lower()}: it takes {names}"
