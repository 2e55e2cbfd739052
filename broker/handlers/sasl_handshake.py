"""SaslHandshake, API key 17, of a client that is let in already: it is rejected, and the connection stays open.

A client that has not logged in is answered by `network/login.py`.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ..network.request import RequestContext
from ..services import Services


def handle(services: Services, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Return ILLEGAL_SASL_STATE."""
    return SaslHandshakeResponse(int(ErrorCode.ILLEGAL_SASL_STATE))
