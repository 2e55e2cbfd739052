"""DescribeDelegationToken, API key 41: refused, because there are no tokens."""

from __future__ import annotations

from ...protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ..network.request import RequestContext
from ..services import Services
from .token_requests import rejection


def handle(
    services: Services, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Return why no token is described."""
    return DescribeDelegationTokenResponse(int(rejection(context)[0]))
