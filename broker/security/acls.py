"""ACLs: who may do what to which resource, with Kafka's numbers for each part.

A literal pattern covers the resource of that name, and `*` every resource of its type. A prefixed one covers each
resource whose name begins with it. Codes that Kafka does not know are UNKNOWN, as in its own clients.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from .principals import parse_principal

CLUSTER_NAME: Final = "kafka-cluster"
WILDCARD: Final = "*"
Code = TypeVar("Code", bound=IntEnum)


class ResourceType(IntEnum):
    """What an ACL protects."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an ACL names its resources. ANY and MATCH stand in filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What a client does to a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


# The operations that responses name as authorized ones, by resource type.
OPERATIONS: Final = {
    ResourceType.TOPIC: tuple(map(Operation, (3, 4, 5, 6, 7, 8, 10, 11))),
    ResourceType.GROUP: tuple(map(Operation, (3, 6, 8, 10, 11))),
    ResourceType.CLUSTER: tuple(map(Operation, (5, 7, 8, 9, 10, 11, 12))),
}


def operation_bits(operations: tuple[Operation, ...]) -> int:
    """Return operations as the bits of a response."""
    return sum(1 << each for each in operations)


# All of them: what everyone may do without an authorizer.
ALL_OPERATIONS: Final = {kind: operation_bits(operations) for kind, operations in OPERATIONS.items()}


class Acl(NamedTuple):
    """One access control entry, as the metadata journal keeps it."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        kind, pattern = ResourceType(self.resource_type).name, PatternType(self.pattern_type).name
        what = f"{Permission(self.permission).name} {Operation(self.operation).name}"
        return f"{what} on {kind}:{pattern}:{self.resource_name} to {self.principal} from {self.host}"


class AclFilter(NamedTuple):
    """Which ACLs a client means. None, and ANY of a code, is every one."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
        """Return whether an ACL is meant."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name in (None, acl.resource_name):
            return True
        return self.pattern_type == PatternType.MATCH and covers(acl, self.resource_name or "")


def covers(acl: Acl, name: str) -> bool:
    """Return whether the pattern of an ACL covers a resource of its type."""
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


def known(kind: type[Code], number: int) -> Code:
    """Return the code with this number, UNKNOWN where Kafka has none."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def mistake_in(acl: Acl) -> str:
    """Return why an ACL cannot be created, in Kafka's words; empty where it can be."""
    kind, pattern = known(ResourceType, acl.resource_type), known(PatternType, acl.pattern_type)
    operation, permission = known(Operation, acl.operation), known(Permission, acl.permission)
    if kind <= ResourceType.ANY:
        return f"Invalid resourceType {kind.name}"
    if pattern < PatternType.LITERAL:
        return f"Invalid patternType {pattern.name}"
    if operation <= Operation.ANY:
        return f"Invalid operation {operation.name}"
    if permission <= Permission.ANY:
        return f"Invalid permissionType {permission.name}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    if kind is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if parse_principal(acl.principal) is None:
        why = "no colon is present separating the principal type from the principal name"
        return f"Could not parse principal from `{acl.principal}` ({why})"
    return ""
