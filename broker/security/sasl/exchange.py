"""An exchange: what a mechanism of SASL is to the broker.

An exchange is a generator, made with the client's first message. It yields the broker's messages and takes the
client's. Where it yields `Work`, it takes the result of that work, which is done in a thread. It returns who the client
is, or raises `Failed`. It knows no socket and no clock.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

# Names come from strangers: of a longer one the log shows the beginning.
_MAX_SHOWN = 100


class Identity(NamedTuple):
    """Who has logged in."""

    name: str
    # The last message of the mechanism.
    data: bytes = b""
    # When the credential ends, in ms of the wall clock; None: never.
    expires_ms: int | None = None


class Work(NamedTuple):
    """What takes too long for the event loop. `Failed` is the client's error; any other is a defect of the broker."""

    run: Callable[[], Any]


class Failed(Exception):
    """The client is not let in. `message` is what it is told; None: Kafka's text for wrong credentials.

    `why` is for the log. Neither has anything secret.
    """

    def __init__(self, why: str, message: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.message = message


Exchange = Generator[bytes | Work, Any, Identity]


def shown(name: str) -> str:
    """Return a name as the log shows it."""
    return repr(name if len(name) <= _MAX_SHOWN else name[:_MAX_SHOWN] + "...")


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
