"""SaslHandshake, API key 17: a client names the SASL mechanism that it will authenticate with.

Versions: 1 has the tokens of the mechanism sent in SaslAuthenticate; before, they were sent without a header.
"""

from __future__ import annotations

from ..schema import Message, array, int16, string


class SaslHandshakeRequest(Message, key=17, versions="0-1", flexible="none"):
    mechanism: str = string("0+")


class SaslHandshakeResponse(Message, request=SaslHandshakeRequest):
    error_code: int = int16("0+")
    mechanisms: list[str] = array("0+", of="string")
