"""The authorizer: may a principal on a host do this to that resource, and which rule says so?

It is pure. The order of the rules is Kafka's: super users may do everything; an ACL that denies wins over all that
allow; without an ACL of anybody for the resource `allow.everyone.if.no.acl.found` decides. Some operations imply
others, where they are allowed: who may read a topic may describe it.

ACLs are found by their resource, literal ones by name, prefixed ones by each length that a prefix has, and there by
their principal. Whether somebody may do something to any resource is found by the ACLs of a principal. Decisions are
kept until any ACL changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

from .acls import OPERATIONS, WILDCARD, Acl, Operation, PatternType, Permission, ResourceType, operation_bits
from .hosts import Range, address_of, range_of
from .principals import USER_TYPE, Principal

# Some 300 bytes each. A group's or a transactional id's name may have 32 KiB: decisions of longer names are not kept.
MAX_DECISIONS: Final = 50_000
MAX_KEPT_NAME_CHARS: Final = 256
# With the range of addresses where the host of an ACL is one.
_Acls = dict[Acl, Range | None]
_NO_ACLS: Final[_Acls] = {}
_EVERYONE: Final = f"{USER_TYPE}:{WILDCARD}"
_Key = TypeVar("_Key")
_PREFIXED: Final = int(PatternType.PREFIXED)

# What an ACL that allows the operation must name.
_IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL}),
}


class Decision(NamedTuple):
    """Whether an operation is allowed, and the rule that decides it."""

    is_allowed: bool
    rule: str


_SUPER_USER = Decision(True, "SuperUser")
_DEFAULT_ALLOW = Decision(True, "DefaultAllow")
_DEFAULT_DENY = Decision(False, "DefaultDeny")


class Authorizer:
    """The ACLs of one broker, and what follows from them."""

    def __init__(self, acls: Iterable[Acl] = (), super_users: Iterable[str] = (), allow_everyone: bool = False) -> None:
        """`allow_everyone` decides on resources without any ACL."""
        self._super_users = frozenset(super_users)
        self._default = _DEFAULT_ALLOW if allow_everyone else _DEFAULT_DENY
        # Counts the changes: what was decided before the last one may be different now.
        self.change_count = 0
        # By resource, then by principal.
        self._literal: dict[tuple[int, str], dict[str, _Acls]] = {}
        self._prefixed: dict[tuple[int, str], dict[str, _Acls]] = {}
        # By resource type: how many prefixes have each length.
        self._lengths: dict[int, Counter[int]] = {}
        # By resource type and principal.
        self._by_principal: dict[tuple[int, str], _Acls] = {}
        # Decisions since the last change. Callers that ask often read them without a call.
        self.decisions: dict[tuple[Principal, str, int, int, str], Decision] = {}
        self._by_type: dict[tuple[Principal, str, int, int], Decision] = {}
        for acl in acls:
            self._add(acl)

    # -- Decisions

    def decide(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        """Return whether a principal may do this to the resource, and why."""
        key = (principal, host, operation, resource_type, name)
        found = self.decisions.get(key)
        if found is None:
            found = self._decide(str(principal), host, operation, resource_type, name)
            if len(name) <= MAX_KEPT_NAME_CHARS:
                if len(self.decisions) >= MAX_DECISIONS:
                    self.decisions.clear()
                self.decisions[key] = found
        return found

    def _decide(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> Decision:
        if principal in self._super_users:
            return _SUPER_USER
        who = _named(principal)
        allowing = _IMPLIED_BY.get(operation, frozenset({operation, Operation.ALL}))
        has_acl, allowed = False, None
        for owners in self._covering(kind, name):
            has_acl = True
            for acl in _of_host((owners.get(each, _NO_ACLS) for each in who), host):
                if acl.permission == Permission.DENY and acl.operation in (operation, Operation.ALL):
                    return Decision(False, f"MatchingAcl(acl={acl})")
                if acl.permission == Permission.ALLOW and allowed is None and acl.operation in allowing:
                    allowed = acl
        if allowed is not None:
            return Decision(True, f"MatchingAcl(acl={allowed})")
        return _DEFAULT_DENY if has_acl else self._default

    def decide_by_type(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        """Return whether a principal may do this to any resource of the type."""
        key = (principal, host, operation, resource_type)
        found = self._by_type.get(key)
        if found is None:
            found = self._decide_by_type(str(principal), host, operation, resource_type)
            if len(self._by_type) >= MAX_DECISIONS:
                self._by_type.clear()
            self._by_type[key] = found
        return found

    def _decide_by_type(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> Decision:
        # Kafka's own name for no resource: only what holds for every resource allows it.
        found = self._decide(principal, host, operation, kind, "hardcode")
        if found.is_allowed:
            return found
        own = (self._by_principal.get((kind, each), _NO_ACLS) for each in _named(principal))
        acls = [acl for acl in _of_host(own, host) if acl.operation in (operation, Operation.ALL)]
        denied = {_pattern(acl) for acl in acls if acl.permission == Permission.DENY}
        if (PatternType.LITERAL, WILDCARD) in denied:
            return Decision(False, f"a DENY of every {kind.name}")
        lengths = {len(name) for pattern, name in denied if pattern == PatternType.PREFIXED}
        for acl in acls:
            if acl.permission == Permission.ALLOW and not _is_dominated(acl, denied, lengths):
                return Decision(True, f"MatchingAcl(acl={acl})")
        return _DEFAULT_DENY

    def operations(self, principal: Principal, host: str, resource_type: ResourceType, name: str) -> int:
        """Return the bits of what a principal may do to a resource."""
        return operation_bits(
            tuple(
                each
                for each in OPERATIONS[resource_type]
                if self.decide(principal, host, each, resource_type, name).is_allowed
            )
        )

    # -- ACLs

    def change(self, added: Iterable[Acl], removed: Iterable[Acl] = ()) -> None:
        """Take ACLs away, then add others. What was decided before is forgotten."""
        self.change_count += 1
        self.decisions.clear()
        self._by_type.clear()
        for acl in removed:
            self._remove(acl)
        for acl in added:
            self._add(acl)

    def _covering(self, kind: int, name: str) -> Iterator[dict[str, _Acls]]:
        """Yield the ACLs of every pattern that covers a resource."""
        patterns = [self._literal.get((kind, name))]
        if name != WILDCARD:
            patterns.append(self._literal.get((kind, WILDCARD)))
        lengths = self._lengths.get(kind, ())
        patterns += (self._prefixed.get((kind, name[:length])) for length in lengths if length <= len(name))
        return filter(None, patterns)

    def _add(self, acl: Acl) -> None:
        kind, name, pattern, principal, host, _, _ = acl
        hosts = range_of(host) if "/" in host else None
        index = self._prefixed if pattern == _PREFIXED else self._literal
        owners = index.get((kind, name))
        if owners is None:
            owners = index[kind, name] = {}
            if pattern == _PREFIXED:
                self._lengths.setdefault(kind, Counter())[len(name)] += 1
        owners.setdefault(principal, {})[acl] = hosts
        self._by_principal.setdefault((kind, principal), {})[acl] = hosts

    def _remove(self, acl: Acl) -> None:
        kind, name, pattern, principal, _, _, _ = acl
        _take(self._by_principal, (kind, principal), acl)
        index = self._prefixed if pattern == _PREFIXED else self._literal
        owners = index.get((kind, name))
        if owners is None:
            return
        _take(owners, principal, acl)
        if owners:
            return
        del index[kind, name]
        if pattern == _PREFIXED:
            lengths = self._lengths[kind]
            lengths[len(name)] -= 1
            if not lengths[len(name)]:
                del lengths[len(name)]


def _take(index: dict[_Key, _Acls], key: _Key, acl: Acl) -> None:
    """Take an ACL out of those under a key, and the key with the last one."""
    acls = index.get(key, {})
    acls.pop(acl, None)
    if not acls:
        index.pop(key, None)


def _named(principal: str) -> tuple[str, ...]:
    """Return the principals whose ACLs name this one."""
    return (principal, _EVERYONE) if principal.startswith(f"{USER_TYPE}:") else (principal,)


def _of_host(some: Iterable[_Acls], host: str) -> Iterator[Acl]:
    """Yield the ACLs that name a host."""
    address, allowed = address_of(host), (host, WILDCARD)
    for acls in some:
        for acl, hosts in acls.items():
            if acl.host in allowed if hosts is None else address >> hosts.free == hosts.prefix:
                yield acl


def _pattern(acl: Acl) -> tuple[int, str]:
    return acl.pattern_type, acl.resource_name


def _is_dominated(acl: Acl, denied: set[tuple[int, str]], lengths: set[int]) -> bool:
    """Return whether all that a pattern covers is denied by others, whose prefixes have these lengths."""
    if acl.pattern_type == PatternType.LITERAL:
        if acl.resource_name == WILDCARD:
            return False
        if _pattern(acl) in denied:
            return True
    return any((PatternType.PREFIXED, acl.resource_name[:each]) in denied for each in lengths)
