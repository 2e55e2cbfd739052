"""DescribeUserScramCredentials, API key 50: which SCRAM mechanisms users have a password for, and the iterations.

Flexible from the first version on.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int8, int16, int32, string


class DescribeUserScramCredentialsRequest(Message, key=50, versions="0", flexible="0+"):
    users: list[UserName] | None = array("0+", nullable="0+")


class UserName(Struct):
    name: str = string("0+")


class DescribeUserScramCredentialsResponse(Message, request=DescribeUserScramCredentialsRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array("0+")


class DescribeUserScramCredentialsResult(Struct):
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    credential_infos: list[CredentialInfo] = array("0+")


class CredentialInfo(Struct):
    mechanism: int = int8("0+")
    iterations: int = int32("0+")
