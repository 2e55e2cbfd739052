"""OAUTHBEARER (RFC 7628): a token that somebody else has issued. A validator says what is right.

A token that is refused is answered with a status. The client ends the exchange with one byte, and only then gets the
error code, as in Kafka.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import string
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

from .exchange import Exchange, Failed, Identity, Work, shown

# Both have a bound: the event loop stands still while a message is read, and it may come from anybody.
_NAME = r"(?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D){1,1000}"
_PAIRS = r"(?:(?!auth=)[A-Za-z]+=[^\x01]+\x01){0,100}"
_MESSAGE = re.compile(
    rf"[nN],(?:[aA]=({_NAME}))?,\x01[aA][uU][tT][hH]=[bB][eE][aA][rR][eE][rR] ([^\x01=][^\x01]*)\x01{_PAIRS}\x01"
)
# What a token has before the signs = at its end. A regular expression would take ten times as long for a long one.
_OF_TOKENS = (string.ascii_letters + string.digits + "-._~+/").encode()
_STATUS = "invalid_token"


class BadToken(Exception):
    """A token is not accepted. The text is for the log, and has nothing of the token."""


class Claims(NamedTuple):
    """What the broker needs of a token."""

    subject: str
    expires_ms: int


Validate = Callable[[str], Claims]


def oauthbearer(first: bytes, validate: Validate) -> Exchange:
    """Have a token checked, in a thread."""
    asked, token = _parts(first)
    work = Work(partial(validate, token))
    # A client may take its time before it sends its last byte: nothing that holds the token is kept until then.
    del first, token
    try:
        claims: Claims = yield work
    except BadToken as error:
        why = str(error)
    else:
        if asked not in (None, claims.subject):
            why = f"the client asks to be {shown(asked)}, and the token is of {shown(claims.subject)}"
            raise Failed(why, "the client asks to be another one than its token says")
        return Identity(claims.subject, b"", claims.expires_ms)
    del work
    status = json.dumps({"status": _STATUS}, separators=(",", ":"))
    yield status.encode()
    raise Failed(why, status)


def _parts(first: bytes) -> tuple[str | None, str]:
    """Return who the client asks to be, and its token. Raises Failed."""
    match = _MESSAGE.fullmatch(first.decode("utf-8", "replace"))
    if match is None or match[2].encode().rstrip(b"=").translate(None, _OF_TOKENS):
        raise Failed("the OAUTHBEARER message cannot be read")
    return match[1], match[2]


class UnsecuredTokens:
    """Accepts tokens without a signature (alg none): for development only, where the config asks for nothing else."""

    def __init__(self, options: Mapping[str, str], now_ms: Callable[[], int]) -> None:
        self._principal_claim = options.get("unsecuredValidatorPrincipalClaimName", "sub")
        self._scope_claim = options.get("unsecuredValidatorScopeClaimName", "scope")
        self._required_scopes = options.get("unsecuredValidatorRequiredScope", "").split()
        self._skew_ms = int(options.get("unsecuredValidatorAllowableClockSkewMs", "0"))
        self._now_ms = now_ms

    def __call__(self, token: str) -> Claims:
        """Return the claims of a token. Raises BadToken."""
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            raise BadToken("a token of another form, or with a signature, where unsecured ones are expected")
        if _json(parts[0]).get("alg") != "none":
            raise BadToken("an algorithm other than none")
        claims = _json(parts[1])
        subject, now_ms = claims.get(self._principal_claim), self._now_ms()
        expires, issued = seconds(claims, "exp"), seconds(claims, "iat")
        if not isinstance(subject, str) or not subject:
            raise BadToken(f"it has no {self._principal_claim}")
        if expires is None or now_ms - self._skew_ms >= expires * 1000:
            raise BadToken("it has expired, or does not say when it does")
        if issued is not None and issued * 1000 > now_ms + self._skew_ms:
            raise BadToken("it was issued in the future")
        if missing := set(self._required_scopes) - set(_scopes(claims.get(self._scope_claim))):
            raise BadToken(f"it lacks the scope {min(missing)}")
        return Claims(subject, int(expires * 1000))


def _json(part: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        raise BadToken("a part of it is no JSON") from None
    if not isinstance(found, dict):
        raise BadToken("a part of it is no JSON object")
    return cast("dict[str, Any]", found)


def seconds(claims: Mapping[str, Any], name: str) -> float | None:
    """Return the time of a claim, if the token has it. Raises BadToken."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise BadToken(f"its {name} is no time")
    return value


def _scopes(value: object) -> list[str]:
    if isinstance(value, str):
        return value.split()
    return [each for each in cast("list[object]", value) if isinstance(each, str)] if isinstance(value, list) else []
