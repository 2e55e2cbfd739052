"""AlterUserScramCredentials, API key 51: sets and deletes the SCRAM passwords of users.

Flexible from the first version on. A password is sent salted and hashed, never as it is.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, binary, int8, int16, int32, string


class AlterUserScramCredentialsRequest(Message, key=51, versions="0", flexible="0+"):
    deletions: list[ScramCredentialDeletion] = array("0+")
    upsertions: list[ScramCredentialUpsertion] = array("0+")


class ScramCredentialDeletion(Struct):
    name: str = string("0+")
    mechanism: int = int8("0+")


class ScramCredentialUpsertion(Struct):
    name: str = string("0+")
    mechanism: int = int8("0+")
    iterations: int = int32("0+")
    salt: bytes = binary("0+")
    salted_password: bytes = binary("0+")


class AlterUserScramCredentialsResponse(Message, request=AlterUserScramCredentialsRequest):
    throttle_time_ms: int = int32("0+")
    results: list[AlterUserScramCredentialsResult] = array("0+")


class AlterUserScramCredentialsResult(Struct):
    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
