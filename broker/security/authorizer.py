"""The authorizer: may a principal on a host do this to that resource, and which rule says so?

It is pure. The order of the rules is Kafka's: super users may do everything; an ACL that denies wins over all that
allow; without an ACL of anybody for the resource `allow.everyone.if.no.acl.found` decides. Some operations imply
others, where they are allowed: who may read a topic may describe it.

ACLs are found by their resource: literal ones by name, prefixed ones by each length that a prefix has. Decisions are
kept until any ACL changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from .acls import OPERATIONS, WILDCARD, Acl, Operation, PatternType, Permission, ResourceType, operation_bits
from .principals import USER_TYPE, Principal

# Some 300 bytes each. A group's or a transactional id's name may have 32 KiB: decisions of longer names are not kept.
MAX_DECISIONS: Final = 50_000
MAX_KEPT_NAME_CHARS: Final = 256
_EVERYONE: Final = f"{USER_TYPE}:{WILDCARD}"

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
        self.changes = 0
        self._literal: dict[tuple[int, str], dict[Acl, None]] = {}
        self._prefixed: dict[tuple[int, str], dict[Acl, None]] = {}
        # By resource type: how many prefixes have each length.
        self._lengths: dict[int, Counter[int]] = {}
        # Decisions since the last change. Callers that ask often read them without a call.
        self.decisions: dict[tuple[Principal, str, int, int, str], Decision] = {}
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
        allowing = _IMPLIED_BY.get(operation, frozenset({operation, Operation.ALL}))
        has_acl, allowed = False, None
        for acl in self._covering(kind, name):
            has_acl = True
            if not _is_of(acl, principal, host):
                continue
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
        # Kafka's own name for no resource: only what holds for every resource allows it.
        found = self._decide(str(principal), host, operation, resource_type, "hardcode")
        if found.is_allowed:
            return found
        acls = [
            acl
            for acl in self.of_type(resource_type)
            if _is_of(acl, str(principal), host) and acl.operation in (operation, Operation.ALL)
        ]
        denied = {_pattern(acl) for acl in acls if acl.permission == Permission.DENY}
        if (PatternType.LITERAL, WILDCARD) in denied:
            return Decision(False, f"a DENY of every {resource_type.name}")
        for acl in acls:
            if acl.permission == Permission.ALLOW and not _is_dominated(acl, denied):
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
        self.changes += 1
        self.decisions.clear()
        for acl in removed:
            self._remove(acl)
        for acl in added:
            self._add(acl)

    def of_type(self, resource_type: int) -> Iterator[Acl]:
        """Yield the ACLs of a resource type."""
        for index in (self._literal, self._prefixed):
            for (kind, _), acls in index.items():
                if kind == resource_type:
                    yield from acls

    def _covering(self, kind: int, name: str) -> Iterator[Acl]:
        """Yield every ACL whose pattern covers a resource."""
        yield from self._literal.get((kind, name), ())
        if name != WILDCARD:
            yield from self._literal.get((kind, WILDCARD), ())
        for length in self._lengths.get(kind, ()):
            if length <= len(name):
                yield from self._prefixed.get((kind, name[:length]), ())

    def _index(self, acl: Acl) -> dict[tuple[int, str], dict[Acl, None]]:
        return self._prefixed if acl.pattern_type == PatternType.PREFIXED else self._literal

    def _add(self, acl: Acl) -> None:
        resource = acl.resource_type, acl.resource_name
        index = self._index(acl)
        if index is self._prefixed and resource not in index:
            self._lengths.setdefault(acl.resource_type, Counter())[len(acl.resource_name)] += 1
        index.setdefault(resource, {})[acl] = None

    def _remove(self, acl: Acl) -> None:
        resource = acl.resource_type, acl.resource_name
        index = self._index(acl)
        acls = index.get(resource, {})
        acls.pop(acl, None)
        if acls or resource not in index:
            return
        del index[resource]
        if index is self._prefixed:
            lengths, length = self._lengths[acl.resource_type], len(acl.resource_name)
            lengths[length] -= 1
            if not lengths[length]:
                del lengths[length]


def _is_of(acl: Acl, principal: str, host: str) -> bool:
    """Return whether an ACL names a principal and its host."""
    is_named = acl.principal == principal or (acl.principal == _EVERYONE and principal.startswith(f"{USER_TYPE}:"))
    return is_named and acl.host in (host, WILDCARD)


def _pattern(acl: Acl) -> tuple[int, str]:
    return acl.pattern_type, acl.resource_name


def _is_dominated(acl: Acl, denied: set[tuple[int, str]]) -> bool:
    """Return whether all that a pattern covers is denied by others."""
    if acl.pattern_type == PatternType.LITERAL:
        if acl.resource_name == WILDCARD:
            return False
        if _pattern(acl) in denied:
            return True
    return any(pattern == PatternType.PREFIXED and acl.resource_name.startswith(name) for pattern, name in denied)
