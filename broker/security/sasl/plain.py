"""PLAIN (RFC 4616): a user's name and password as they are. The error texts are Kafka's."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from .exchange import Exchange, Failed, Identity, shown

_TEXT = "Authentication failed: "


def plain(first: bytes, passwords: Mapping[str, str]) -> Exchange:
    """Check a name and a password. An unknown name and a wrong password look the same."""
    try:
        tokens = first.decode().split("\0", 3)
    except UnicodeDecodeError:
        raise Failed("the PLAIN message is no UTF-8") from None
    if len(tokens) != 3:
        why = f"Invalid SASL/PLAIN response: expected 3 tokens, got {first.count(0) + 1}"
        raise Failed(why, why)
    asked, name, password = tokens
    for value, what in ((name, "username"), (password, "password")):
        if not value:
            raise Failed(f"{what} not specified", f"{_TEXT}{what} not specified")
    known = hmac.compare_digest(passwords.get(name, "").encode(), password.encode())
    if not known or name not in passwords:
        raise Failed(f"user {shown(name)}: wrong name or password", _TEXT + "Invalid username or password")
    if asked and asked != name:
        why = "Client requested an authorization id that is different from username"
        raise Failed(why, _TEXT + why)
    return Identity(name)
    yield b""  # a generator, though PLAIN has one message
