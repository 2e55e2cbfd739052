"""RenewDelegationToken, API key 39: a later end of a token."""

from __future__ import annotations

from ..schema import Message, binary, int16, int32, int64


class RenewDelegationTokenRequest(Message, key=39, versions="1-2", flexible="2+"):
    hmac: bytes = binary("0+")
    renew_period_ms: int = int64("0+")


class RenewDelegationTokenResponse(Message, request=RenewDelegationTokenRequest):
    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")
