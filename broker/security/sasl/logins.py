"""What SASL is on one listener: its mechanisms, their users and validators, and how long a session lasts.

What cannot work is refused at the start: a mechanism without users, a line of JAAS that cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...clock import Clock
from ...configs.listener_config import ListenerConfig
from ..pem import StoreError
from .exchange import Exchange, plain
from .jaas import BadLine, Module, parse
from .oauthbearer import UnsecuredTokens, Validate, oauthbearer
from .scram import HASHES, Credential, Strangers, scram

# From a mechanism of SCRAM and a user's name to what is kept of the password.
FindCredential = Callable[[str, str], Credential | None]
Begin = Callable[[bytes], Exchange]

_PASSWORDS = "user_"


class Mechanism(NamedTuple):
    """One mechanism of a listener. `begin` makes the exchange of a client's first message."""

    begin: Begin
    max_session_ms: int


class Logins:
    """The mechanisms of one listener by name. Raises StoreError."""

    def __init__(self, config: ListenerConfig, find: FindCredential, strangers: Strangers, clock: Clock) -> None:
        self._find = find
        self._clock = clock
        self._strangers = strangers
        self.max_receive_bytes = config.sasl_server_max_receive_size
        if not config.sasl_enabled_mechanisms or "GSSAPI" in config.sasl_enabled_mechanisms:
            raise StoreError("sasl.enabled.mechanisms must name mechanisms other than GSSAPI, which is not supported")
        self.mechanisms: Mapping[str, Mechanism] = {
            name: Mechanism(self._begin(name, own), max(0, own.connections_max_reauth_ms))
            for name, own in ((name, config.of_mechanism(name)) for name in config.sasl_enabled_mechanisms)
        }

    def session_ms(self, mechanism: str, expires_ms: int | None) -> int:
        """Return how long a session that begins now may last; 0: without an end."""
        limits = [self.mechanisms[mechanism].max_session_ms] if self.mechanisms[mechanism].max_session_ms else []
        if expires_ms is not None:
            limits.append(max(1, expires_ms - self._clock.now_ms()))
        return min(limits, default=0)

    def _begin(self, name: str, config: ListenerConfig) -> Begin:
        if name in HASHES:
            return lambda first: scram(first, name, lambda user: self._find(name, user), self._strangers)
        try:
            module = parse(config.sasl_jaas_config) if config.sasl_jaas_config is not None else None
        except BadLine as error:
            raise StoreError(f"{_config_name(config, name)}: {error}") from None
        if name == "PLAIN":
            passwords = _passwords(config, module)
            return lambda first: plain(first, passwords)
        validate = self._validator(config, module)
        return lambda first: oauthbearer(first, validate)

    def _validator(self, config: ListenerConfig, module: Module | None) -> Validate:
        if config.sasl_server_callback_handler_class is not None:
            from .signed_tokens import SignedTokens

            return SignedTokens(config, self._clock.monotonic_ms)
        if module is None:
            raise StoreError(
                "OAUTHBEARER needs sasl.server.callback.handler.class, which checks signatures. For development "
                f"{_config_name(config, 'OAUTHBEARER')}=OAuthBearerLoginModule required; accepts tokens without one"
            )
        try:
            return UnsecuredTokens(module.options, self._clock.now_ms)
        except ValueError:
            raise StoreError("unsecuredValidatorAllowableClockSkewMs must be a number") from None


def _passwords(config: ListenerConfig, module: Module | None) -> dict[str, str]:
    options: Mapping[str, str] = module.options if module is not None else {}
    found = {each.removeprefix(_PASSWORDS): text for each, text in options.items() if each.startswith(_PASSWORDS)}
    if not found:
        line = 'PlainLoginModule required user_NAME="PASSWORD";'
        raise StoreError(f"PLAIN has no users: set {_config_name(config, 'PLAIN')} to {line}")
    return found


def _config_name(config: ListenerConfig, mechanism: str) -> str:
    return f"listener.name.{config.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
