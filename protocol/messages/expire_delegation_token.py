"""ExpireDelegationToken, API key 40: an earlier end of a token."""

from __future__ import annotations

from ..schema import Message, binary, int16, int32, int64


class ExpireDelegationTokenRequest(Message, key=40, versions="1-2", flexible="2+"):
    hmac: bytes = binary("0+")
    expiry_time_period_ms: int = int64("0+")


class ExpireDelegationTokenResponse(Message, request=ExpireDelegationTokenRequest):
    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")
