"""ExpireDelegationToken, API key 40: refused, because there are no tokens."""

from __future__ import annotations

from ...protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ..network.request import RequestContext
from ..services import Services
from .token_requests import rejection


def handle(
    services: Services, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Return why no token is ended."""
    code, expiry_ms = rejection(context)
    return ExpireDelegationTokenResponse(int(code), expiry_ms)
