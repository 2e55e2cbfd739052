"""Tokens that are signed by their issuer, checked with its keys (JWKS) from a file or a URL. Needs PyJWT.

The keys are read in a thread when a token needs them, and again after `sasl.oauthbearer.jwks.endpoint.refresh.ms`, or
for a key id that is not among them, at most once in `MIN_REFRESH_MS`: a token of any shape must not make the broker ask
the issuer for each login.
"""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import unquote, urlparse

from ...configs.listener_config import ListenerConfig
from ..pem import StoreError
from .oauthbearer import BadToken, Claims

if TYPE_CHECKING:
    import jwt

MIN_REFRESH_MS = 10_000
MAX_KEYS_BYTES = 1 << 20
_FETCH_TIMEOUT_S = 10
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


class SignedTokens:
    """The validator of one listener. Raises StoreError where the config or the installation lacks something."""

    def __init__(self, config: ListenerConfig, monotonic_ms: Callable[[], int]) -> None:
        try:
            import jwt
            import jwt.algorithms
        except ImportError:
            raise StoreError("OAUTHBEARER with signatures needs PyJWT: pip install 'odradek[oauth]'") from None
        if not jwt.algorithms.has_crypto:
            raise StoreError("OAUTHBEARER with signatures needs cryptography: pip install 'odradek[oauth]'")
        if config.sasl_oauthbearer_jwks_endpoint_url is None:
            raise StoreError("sasl.oauthbearer.jwks.endpoint.url must be set: it has the keys of the tokens' issuer")
        self._jwt = jwt
        self._url = config.sasl_oauthbearer_jwks_endpoint_url
        if urlparse(self._url).scheme not in ("http", "https", "file"):
            raise StoreError("sasl.oauthbearer.jwks.endpoint.url must be an http, https or file URL")
        self._config = config
        self._monotonic_ms = monotonic_ms
        # Threads of several logins share the keys; one at a time reads them.
        self._lock = threading.Lock()
        self._keys: dict[str | None, Any] = {}
        self._read_ms: int | None = None

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
                issuer=config.sasl_oauthbearer_expected_issuer,
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
        return Claims(subject, int(claims["exp"]) * 1000)

    def _key(self, key_id: str | None) -> jwt.PyJWK:
        with self._lock:
            age_ms = None if self._read_ms is None else self._monotonic_ms() - self._read_ms
            is_old = age_ms is None or age_ms >= self._config.sasl_oauthbearer_jwks_endpoint_refresh_ms
            if is_old or (key_id not in self._keys and age_ms is not None and age_ms >= MIN_REFRESH_MS):
                self._read_ms = self._monotonic_ms()
                self._read()
            found = self._keys.get(key_id)
        if found is None:
            raise BadToken("its issuer has no key of that id")
        return found

    def _read(self) -> None:
        """Read the keys; after an error those of before are used."""
        try:
            keys = self._jwt.PyJWKSet.from_json(_fetch(self._url)).keys
        except (OSError, URLError, ValueError, self._jwt.PyJWTError) as error:
            if not self._keys:
                raise BadToken(f"the keys of its issuer cannot be read: {type(error).__name__}: {error}") from None
            return
        self._keys = {each.key_id: each for each in keys if each.public_key_use in (None, "sig")}


def _fetch(url: str) -> str:
    parts = urlparse(url)
    if parts.scheme == "file":
        with open(unquote(parts.path), "rb") as file:
            data = file.read(MAX_KEYS_BYTES + 1)
    else:
        with urllib.request.urlopen(url, timeout=_FETCH_TIMEOUT_S) as response:
            data = response.read(MAX_KEYS_BYTES + 1)
    if len(data) > MAX_KEYS_BYTES:
        raise BadToken(f"the keys of its issuer are more than {MAX_KEYS_BYTES} bytes")
    return data.decode()
