"""DescribeDelegationToken, API key 41: refused, because there are no tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ..network.request import RequestContext
from .token_requests import rejection

if TYPE_CHECKING:
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Return why no token is described."""
    return DescribeDelegationTokenResponse(int(rejection(context)[0]))
