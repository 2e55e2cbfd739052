"""CreateDelegationToken, API key 38: refused, because the broker has no key to sign tokens with."""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ..network.request import RequestContext
from ..security.acls import Operation, ResourceType
from ..security.principals import USER_TYPE, Principal
from ..services import Services
from .token_requests import NOT_ALLOWED_MS, rejection

FIRST_WITH_REQUESTER = 3


def handle(
    services: Services, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Return why there is no token. Kafka's order: may the client ask, own it, and who may renew it."""
    requester = owner = context.principal
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    code, times_ms = rejection(context)
    if code is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED:
        if owner != requester and not context.may(Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
            code, times_ms = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, NOT_ALLOWED_MS
        elif any(each.principal_type != USER_TYPE for each in request.renewers):
            code, times_ms = ErrorCode.INVALID_PRINCIPAL_TYPE, NOT_ALLOWED_MS
    asked_by = requester if context.api_version >= FIRST_WITH_REQUESTER else ("", "")
    return CreateDelegationTokenResponse(int(code), *owner, *asked_by, times_ms, times_ms, times_ms)
