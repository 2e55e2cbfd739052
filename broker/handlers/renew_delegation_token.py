"""RenewDelegationToken, API key 39: refused, because there are no tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ..network.request import RequestContext
from .token_requests import rejection

if TYPE_CHECKING:
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Return why no token is renewed."""
    code, expiry_ms = rejection(context)
    return RenewDelegationTokenResponse(int(code), expiry_ms)
