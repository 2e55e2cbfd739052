"""The requests about delegation tokens: all are refused, as by a Kafka without a key to sign tokens with.

Which of the two errors a client gets depends on who it is: only one that has proved its name may ask.
"""

from __future__ import annotations

from typing import Final

from ...protocol.errors import ErrorCode
from ...protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ...protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ...protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ...protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ..configs.endpoint import SecurityProtocol
from ..network.request import RequestContext
from ..security.principals import ANONYMOUS, USER_TYPE, Principal
from ..services import Services

FIRST_WITH_REQUESTER = 3
# The times in an answer that refuses the request itself, and in one that says that there are no tokens.
NOT_ALLOWED_MS: Final = -1
DISABLED_MS: Final = 0


def create_delegation_token(
    services: Services, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """CreateDelegationToken, API key 38. Kafka's order: may the client ask, and who may renew the token."""
    requester = owner = context.principal
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    code, times_ms = _rejection(context)
    is_disabled = code is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if is_disabled and any(each.principal_type != USER_TYPE for each in request.renewers):
        code, times_ms = ErrorCode.INVALID_PRINCIPAL_TYPE, NOT_ALLOWED_MS
    asked_by = requester if context.api_version >= FIRST_WITH_REQUESTER else ("", "")
    return CreateDelegationTokenResponse(int(code), *owner, *asked_by, times_ms, times_ms, times_ms)


def renew_delegation_token(
    services: Services, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """RenewDelegationToken, API key 39."""
    code, expiry_ms = _rejection(context)
    return RenewDelegationTokenResponse(int(code), expiry_ms)


def expire_delegation_token(
    services: Services, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """ExpireDelegationToken, API key 40."""
    code, expiry_ms = _rejection(context)
    return ExpireDelegationTokenResponse(int(code), expiry_ms)


def describe_delegation_token(
    services: Services, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """DescribeDelegationToken, API key 41."""
    return DescribeDelegationTokenResponse(int(_rejection(context)[0]))


def _rejection(context: RequestContext) -> tuple[ErrorCode, int]:
    """Return the error, and what stands for the times in its response."""
    protocol = context.connection.listener.protocol
    is_unknown = protocol is SecurityProtocol.SSL and context.principal == ANONYMOUS
    if is_unknown or protocol is SecurityProtocol.PLAINTEXT:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NOT_ALLOWED_MS
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, DISABLED_MS
