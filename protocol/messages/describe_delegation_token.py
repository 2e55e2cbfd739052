"""DescribeDelegationToken, API key 41: the tokens of owners. Version 3 says who asked for a token."""

from __future__ import annotations

from ..schema import Message, Struct, array, binary, int16, int32, int64, string


class DescribeDelegationTokenRequest(Message, key=41, versions="1-3", flexible="2+"):
    owners: list[DescribeDelegationTokenOwner] | None = array("0+", nullable="0+")


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = string("0+")
    principal_name: str = string("0+")


class DescribeDelegationTokenResponse(Message, request=DescribeDelegationTokenRequest):
    error_code: int = int16("0+")
    tokens: list[DescribedDelegationToken] = array("0+")
    throttle_time_ms: int = int32("0+")


class DescribedDelegationToken(Struct):
    principal_type: str = string("0+")
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64("0+")
    expiry_timestamp: int = int64("0+")
    max_timestamp: int = int64("0+")
    token_id: str = string("0+")
    hmac: bytes = binary("0+")
    renewers: list[DescribedDelegationTokenRenewer] = array("0+")


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = string("0+")
    principal_name: str = string("0+")
