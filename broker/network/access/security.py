"""Access to ACLs, passwords and delegation tokens."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ....protocol.errors import ErrorCode
from ...security.acls import Operation, ResourceType
from ...security.principals import Principal
from ..connection import CloseConnection
from .access import Access, Result, amended, as_access, by_item, list_of, refuse
from .caller import Caller, Proceed

_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_NO_TIME_MS = -1


def check_creation(creation: Any) -> None:
    """Raise CloseConnection for an ACL with the code that clients send for what they cannot name, as Kafka does."""
    codes = creation.resource_type, creation.resource_pattern_type, creation.operation, creation.permission_type
    if 0 in codes:
        raise CloseConnection("CreateAcls with an UNKNOWN element")


def check_filter(api: str, wanted: Any) -> None:
    """Raise CloseConnection for a filter with such a code."""
    if 0 in (wanted.resource_type_filter, wanted.pattern_type_filter, wanted.operation, wanted.permission_type):
        raise CloseConnection(f"{api} with an UNKNOWN element")


def _change_acls(check_item: Callable[[Any], None]) -> Access:
    """Return the access of an API that changes ACLs. What nobody can read closes the connection before."""

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        if caller.may_cluster(Operation.ALTER):
            return proceed(request)
        items, reject = list_of(caller)

        def deny(item: Any) -> Any:
            check_item(item)
            return reject(item, int(_DENIED), _why(caller, Operation.ALTER))

        return by_item(caller, request, items, deny, proceed)

    return Access("ALTER on the cluster", check, (_DENIED,))


create_acls = _change_acls(check_creation)
delete_acls = _change_acls(partial(check_filter, "DeleteAcls"))


@as_access("DESCRIBE on the cluster", denials=(_DENIED,))
def describe_acls(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to DescribeAcls."""
    check_filter("DescribeAcls", request)
    if caller.may_cluster(Operation.DESCRIBE):
        return proceed(request)
    return refuse(caller, request, _DENIED, _why(caller, Operation.DESCRIBE))


def _why(caller: Caller, operation: Operation) -> str:
    return f"Request {caller.connection.name} needs {operation.name} permission."


@as_access("DESCRIBE on the cluster", denials=(_DENIED,))
def describe_credentials(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to DescribeUserScramCredentials. A denial has a result for each user, without the name, as in Kafka."""
    if caller.may_cluster(Operation.DESCRIBE):
        return proceed(request)
    return amended(refuse(caller, request, _DENIED), _hide_names)


def _hide_names(response: Any) -> None:
    for result in response.results:
        result.user = ""


@as_access(
    "CREATE_TOKENS on the USER that is to own it, if another",
    denials=(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,),
)
def create_token(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to CreateDelegationToken. Who may ask for no token at all is told that first, by the handler."""
    owner = Principal(request.owner_principal_type or "", request.owner_principal_name or "")

    def amend(response: Any) -> None:
        if response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED:
            return
        if not caller.may(Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
            response.error_code = int(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
            response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = _NO_TIME_MS

    response = proceed(request)
    return amended(response, amend) if owner.name and owner != caller.principal else response
