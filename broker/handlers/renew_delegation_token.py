"""RenewDelegationToken, API key 39: refused, because there are no tokens."""

from __future__ import annotations

from ...protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ..network.request import RequestContext
from ..services import Services
from .token_requests import rejection


def handle(
    services: Services, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Return why no token is renewed."""
    code, expiry_ms = rejection(context)
    return RenewDelegationTokenResponse(int(code), expiry_ms)
