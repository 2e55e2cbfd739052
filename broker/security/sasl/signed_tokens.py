"""Tokens that are signed by their issuer, checked with its keys (JWKS) from a file or a URL. Needs PyJWT.

The keys are read when a token needs them, and again after `sasl.oauthbearer.jwks.endpoint.refresh.ms`, or for a key id
that is not among them, at most once in `MIN_REFRESH_MS`: a token of any shape must not make the broker ask the issuer
for each login. A thread of its own reads them, for which logins wait `MAX_WAIT_MS` from its begin: an issuer that
hangs keeps nobody out whose key is known, and does not use up the threads that check tokens.
"""

from __future__ import annotations

import logging
import threading
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from .... import how_to_install
from ...configs.listener_config import ListenerConfig
from ..pem import StoreError
from .oauthbearer import BadToken, Claims, seconds

if TYPE_CHECKING:
    import jwt

MIN_REFRESH_MS = 10_000
MAX_WAIT_MS = 1_000
MAX_KEYS_BYTES = 1 << 20
_FETCH_TIMEOUT_S = 10
_CHUNK_BYTES = 1 << 16
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]

_log = logging.getLogger(__name__)


class SignedTokens:
    """The validator of one listener. Raises StoreError where the config or the installation lacks something."""

    def __init__(self, config: ListenerConfig, monotonic_ms: Callable[[], int]) -> None:
        try:
            import jwt
            import jwt.algorithms
        except ImportError:
            raise StoreError(f"OAUTHBEARER with signatures needs PyJWT: {how_to_install('oauth')}") from None
        if not jwt.algorithms.has_crypto:
            raise StoreError(f"OAUTHBEARER with signatures needs cryptography: {how_to_install('oauth')}")
        if config.sasl_oauthbearer_jwks_endpoint_url is None:
            raise StoreError("sasl.oauthbearer.jwks.endpoint.url must be set: it has the keys of the tokens' issuer")
        self._jwt = jwt
        self._url = config.sasl_oauthbearer_jwks_endpoint_url
        if urlparse(self._url).scheme not in ("http", "https", "file"):
            raise StoreError("sasl.oauthbearer.jwks.endpoint.url must be an http, https or file URL")
        checks = {
            "audience": (config.sasl_oauthbearer_expected_audience, config.sasl_oauthbearer_allow_unverified_audience),
            "issuer": (config.sasl_oauthbearer_expected_issuer, config.sasl_oauthbearer_allow_unverified_issuer),
        }
        for claim, (expected, is_allowed) in checks.items():
            if not expected and not is_allowed:
                what = f"a token of any {claim} would be accepted: set sasl.oauthbearer.expected.{claim}"
                raise StoreError(f"{what}, or sasl.oauthbearer.allow.unverified.{claim} to true")
            if not expected:
                _log.warning("tokens of any %s are accepted (sasl.oauthbearer.allow.unverified.%s)", claim, claim)
        self._config = config
        self._monotonic_ms = monotonic_ms
        # Threads of several logins share all of these. The lock is never held while something waits.
        self._lock = threading.Lock()
        self._keys: dict[str | None, Any] = {}
        self._error = ""
        self._began_ms: int | None = None
        # Set when no thread reads the keys.
        self._is_read = threading.Event()
        self._is_read.set()

    def __call__(self, token: str) -> Claims:
        """Return the claims of a token. Raises BadToken. Runs in a thread."""
        jwt, config = self._jwt, self._config
        try:
            header = jwt.get_unverified_header(token)
            key = self._key(header.get("kid"))
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=[each for each in _ALGORITHMS if key.algorithm_name in (None, each)],
                audience=list(config.sasl_oauthbearer_expected_audience) or None,
                issuer=config.sasl_oauthbearer_expected_issuer or None,
                leeway=config.sasl_oauthbearer_clock_skew_seconds,
                options={
                    "require": ["exp", "iat"],
                    "verify_aud": bool(config.sasl_oauthbearer_expected_audience),
                    "verify_sub": False,
                },
            )
        except jwt.PyJWTError as error:
            raise BadToken(f"{type(error).__name__}") from None
        subject = claims.get(config.sasl_oauthbearer_sub_claim_name)
        if not isinstance(subject, str) or not subject.strip():
            raise BadToken(f"it has no {config.sasl_oauthbearer_sub_claim_name}")
        scope = claims.get(config.sasl_oauthbearer_scope_claim_name)
        if scope is not None and not isinstance(scope, str | list):
            raise BadToken(f"its {config.sasl_oauthbearer_scope_claim_name} is no text and no list")
        return Claims(subject, int((seconds(claims, "exp") or 0) * 1000))

    def _key(self, key_id: str | None) -> jwt.PyJWK:
        with self._lock:
            began_ms = self._refresh(key_id in self._keys)
        left_ms = began_ms + MAX_WAIT_MS - self._monotonic_ms()
        if left_ms > 0:
            self._is_read.wait(left_ms / 1000)
        found = self._keys.get(key_id)
        if found is None:
            is_hanging = not self._is_read.is_set()
            raise BadToken(
                "its issuer takes long to tell its keys" if is_hanging else self._error or "its issuer has no such key"
            )
        return found

    def _refresh(self, is_known: bool) -> int:
        """Begin to read the keys, where that is due; return when this last began."""
        now_ms = self._monotonic_ms()
        age_ms = None if self._began_ms is None else now_ms - self._began_ms
        is_old = age_ms is None or age_ms >= self._config.sasl_oauthbearer_jwks_endpoint_refresh_ms
        is_due = is_old or (not is_known and age_ms is not None and age_ms >= MIN_REFRESH_MS)
        if is_due and self._is_read.is_set():
            self._began_ms = now_ms
            self._is_read.clear()
            threading.Thread(target=self._read, name="odradek-issuer-keys", daemon=True).start()
        assert self._began_ms is not None
        return self._began_ms

    def _read(self) -> None:
        """Read the keys; after an error those of before are used."""
        try:
            keys = self._jwt.PyJWKSet.from_json(_fetch(self._url)).keys
            self._keys = {each.key_id: each for each in keys if each.public_key_use in (None, "sig")}
            self._error = ""
        except Exception as error:  # noqa: BLE001 - an issuer may send anything, and logins are told what was wrong
            self._error = f"the keys of its issuer cannot be read: {type(error).__name__}: {error}"
        finally:
            self._is_read.set()


def _fetch(url: str) -> str:
    parts = urlparse(url)
    if parts.scheme == "file":
        with open(unquote(parts.path), "rb") as file:
            data = file.read(MAX_KEYS_BYTES + 1)
    else:
        with urllib.request.urlopen(url, timeout=_FETCH_TIMEOUT_S) as response:
            data = _body(response)
    if len(data) > MAX_KEYS_BYTES:
        raise BadToken(f"they are more than {MAX_KEYS_BYTES} bytes")
    return data.decode()


def _body(response: HTTPResponse) -> bytes:
    """Return a body that comes in time: each read has a time-out, and a server may send a byte at a time."""
    data, ends_s = bytearray(), time.monotonic() + _FETCH_TIMEOUT_S
    while chunk := response.read1(_CHUNK_BYTES):
        data += chunk
        if len(data) > MAX_KEYS_BYTES:
            break
        if time.monotonic() > ends_s:
            raise TimeoutError(f"they did not come within {_FETCH_TIMEOUT_S} s")
    return bytes(data)
