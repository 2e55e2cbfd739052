"""SASL requests of a client that is let in already: they are rejected, and the connection stays open.

A client that has not logged in is answered by `network/login.py`.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ..network.request import RequestContext
from ..services import Services


def sasl_handshake(services: Services, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """SaslHandshake, API key 17: ILLEGAL_SASL_STATE."""
    return SaslHandshakeResponse(int(ErrorCode.ILLEGAL_SASL_STATE))


def sasl_authenticate(
    services: Services, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """SaslAuthenticate, API key 36: ILLEGAL_SASL_STATE."""
    why = "SaslAuthenticate request received after successful authentication"
    return SaslAuthenticateResponse(int(ErrorCode.ILLEGAL_SASL_STATE), why)
