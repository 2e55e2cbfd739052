"""SaslAuthenticate, API key 36, of a client that is let in already: it is rejected, and the connection stays open.

A client that has not logged in is answered by `network/login.py`.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ..network.request import RequestContext
from ..services import Services


def handle(services: Services, context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Return ILLEGAL_SASL_STATE."""
    why = "SaslAuthenticate request received after successful authentication"
    return SaslAuthenticateResponse(int(ErrorCode.ILLEGAL_SASL_STATE), why)
