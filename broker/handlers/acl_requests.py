"""What the requests that create, describe and delete ACLs share: their texts, their bounds, and who may send them."""

from __future__ import annotations

from ...protocol.errors import ErrorCode, KafkaError
from ..network.connection import CloseConnection
from ..network.request import RequestContext
from ..security.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    known,
)
from ..services import Services

# Kafka's bound of the ACLs that one request changes.
MAX_CHANGED = 10_000
# ACLs are in memory, and each start reads them. Kafka has no such bounds.
MAX_ACLS = 20_000
MAX_ACL_CHARS = 8 * 1024 * 1024
NO_AUTHORIZER = "No Authorizer is configured."


def check_codes(api: str, resource_type: int, pattern_type: int, operation: int, permission: int) -> None:
    """Raise CloseConnection for the code that clients send for what they cannot name. Kafka does not read it either."""
    if 0 in (resource_type, pattern_type, operation, permission):
        raise CloseConnection(f"{api} with an UNKNOWN element")


def rejection(services: Services, context: RequestContext, operation: Operation) -> KafkaError | None:
    """Return why nothing of a request is done, if so: no right on the cluster, or no authorizer."""
    if not context.may(operation, ResourceType.CLUSTER, CLUSTER_NAME):
        why = f"Request {context.connection.name} needs {operation.name} permission."
        return KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, why)
    if services.authorizer is None:
        return KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return None


def matching(services: Services, wanted: AclFilter) -> list[Acl]:
    """Return the ACLs that a filter means."""
    return [acl for acl in services.security.acls if wanted.matches(acl)]


def mistake_in_filter(wanted: AclFilter) -> str:
    """Return why a filter cannot be used, in Kafka's words; empty where it can be."""
    if not (known(ResourceType, wanted.resource_type) and known(PatternType, wanted.pattern_type)):
        return "Unknown patternFilter."
    if not (known(Operation, wanted.operation) and known(Permission, wanted.permission)):
        return "Unknown entryFilter."
    return ""
