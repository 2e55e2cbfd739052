"""A broker with a SASL listener, and logins at it frame by frame."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from odradek.broker import BrokerConfig
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.tests.support.clients.raw import Raw

USER, PASSWORD = "alice", "secret"
PLAIN = b"\0alice\0secret"
_PLAIN_LINE = f'org.x.PlainLoginModule required user_{USER}="{PASSWORD}" user_bob="b";'
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def sasl_config(config: BrokerConfig, own: Mapping[str, Any] | None = None, **configs: Any) -> BrokerConfig:
    """A config with the listener AUTH besides the plain one. `own` are configs of AUTH, without the prefix."""
    listener_configs = {
        "plain.sasl.jaas.config": _PLAIN_LINE,
        "oauthbearer.sasl.jaas.config": "org.x.OAuthBearerLoginModule required;",
        **(own or {}),
    }
    return replace(
        config,
        listeners=("PLAINTEXT://127.0.0.1:0", "AUTH://127.0.0.1:0"),
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,AUTH:SASL_PLAINTEXT",
        listener_configs={
            f"listener.name.auth.{name}": value for name, value in listener_configs.items() if value is not None
        },
        **{"sasl_enabled_mechanisms": MECHANISMS, "connection_failed_authentication_delay_ms": 0, **configs},
    )


async def handshake(raw: Raw, mechanism: str, version: int = 1) -> Any:
    return await raw.ask(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism))


async def authenticate(raw: Raw, token: bytes, version: int = 2) -> Any:
    return await raw.ask(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(token))


async def log_in(raw: Raw, token: bytes = PLAIN, mechanism: str = "PLAIN") -> Any:
    assert (await handshake(raw, mechanism)).error_code == 0
    return await authenticate(raw, token)


async def set_password(raw: Raw, user: str = USER, password: str = PASSWORD, mechanism: int = 1) -> int:
    """Set a SCRAM password. Return the error code."""
    name = {1: "sha256", 2: "sha512"}[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), b"salt of 16 bytes", 4096)
    request = AlterUserScramCredentialsRequest(
        [], [ScramCredentialUpsertion(user, mechanism, 4096, b"salt of 16 bytes", salted)]
    )
    return (await raw.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)).results[0].error_code


def token(subject: str = USER, lives_s: float = 60, algorithm: str = "none", **claims: Any) -> str:
    """A token without a signature."""

    def part(fields: Mapping[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")

    now_s = int(time.time())
    return f"{part({'alg': algorithm})}.{part({'sub': subject, 'iat': now_s, 'exp': now_s + lives_s, **claims})}."


def bearer(token: str) -> bytes:
    """The first message of OAUTHBEARER."""
    return b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"
