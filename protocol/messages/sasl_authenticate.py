"""SaslAuthenticate, API key 36: one token of the SASL mechanism to the broker, and the broker's token back.

Versions: 1 says how long the session lives (KIP-368); 2 flexible.
"""

from __future__ import annotations

from ..schema import Message, binary, int16, int64, string


class SaslAuthenticateRequest(Message, key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = binary("0+")


class SaslAuthenticateResponse(Message, request=SaslAuthenticateRequest):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = binary("0+")
    session_lifetime_ms: int = int64("1+", ignorable=True)
