"""The options of encryption and authentication, which all clients share.

    Producer("broker:9093", security_protocol="SASL_SSL", ssl_cafile="ca.pem",
             sasl_mechanism="SCRAM-SHA-512", sasl_plain_username="alice", sasl_plain_password="...")

The names are those of aiokafka and kafka-python. An option that has no effect beside the others is an error, so that
nobody believes a connection to be safer than it is.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields
from typing import Protocol, TypedDict

from ..errors import InvalidOption
from .option_values import check_switches
from .other_names import instead_of
from .sasl import MECHANISMS

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class TokenProvider(Protocol):
    """Gives OAuth tokens. It may also have a method `extensions` that returns a dict of texts (KIP-342)."""

    def token(self) -> str | Awaitable[str]:
        """Return a token that is valid for some time. A function that waits runs in a thread."""
        ...


TokenSource = Callable[[], str | Awaitable[str]] | TokenProvider


class SecurityArguments(TypedDict, total=False):
    """The parameters that every client takes beside its own; `SecurityOptions` says what they mean."""

    security_protocol: str
    ssl_cafile: str | None
    ssl_cadata: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_password: str | None
    ssl_check_hostname: bool
    ssl_context: ssl.SSLContext | None
    sasl_mechanism: str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_oauth_token_provider: TokenSource | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityOptions:
    """What a client shows and asks for when it connects. Raises InvalidOption. Secrets are not in its text."""

    # PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
    security_protocol: str = "PLAINTEXT"
    # The certificates of the authorities to trust: a file or a text, in PEM. Without both, those of the system.
    ssl_cafile: str | None = None
    ssl_cadata: str | None = None
    # The client's own certificate, its key if that has a file of its own, and the password of the key.
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = field(default=None, repr=False)
    # Whether the broker's certificate must name the host that the client connects to.
    ssl_check_hostname: bool = True
    # Replaces all of the options above; its files are not read again.
    ssl_context: ssl.SSLContext | None = None
    # PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
    sasl_mechanism: str | None = None
    # For PLAIN and SCRAM.
    sasl_plain_username: str | None = None
    sasl_plain_password: str | None = field(default=None, repr=False)
    # For OAUTHBEARER: asked before each connection, and before the broker ends the session (KIP-368).
    sasl_oauth_token_provider: TokenSource | None = field(default=None, repr=False)

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether the client authenticates with SASL."""
        return self.security_protocol.startswith("SASL_")

    def __post_init__(self) -> None:
        if self.security_protocol not in PROTOCOLS:
            raise InvalidOption(
                f"security_protocol must be one of {', '.join(PROTOCOLS)}, not {self.security_protocol!r}"
            )
        check_switches(ssl_check_hostname=self.ssl_check_hostname)
        given = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
        self._check_effect(given)
        if self.uses_tls:
            self._check_tls(given)
        if self.uses_sasl:
            self._check_sasl(given)

    def _check_effect(self, given: list[str]) -> None:
        for prefix, used, needed in (("ssl_", self.uses_tls, "SSL or SASL_SSL"), ("sasl_", self.uses_sasl, "SASL_SSL")):
            unused = [name for name in given if name.startswith(prefix)]
            if unused and not used:
                raise InvalidOption(
                    f"{unused[0]} has no effect with security_protocol={self.security_protocol}: set it to {needed}"
                )

    def _check_tls(self, given: list[str]) -> None:
        beside = [name for name in given if name.startswith("ssl_") and name != "ssl_context"]
        if self.ssl_context is not None and beside:
            raise InvalidOption(f"{beside[0]} has no effect beside ssl_context: put it into the context")
        if self.ssl_certfile is None and (self.ssl_keyfile or self.ssl_password):
            raise InvalidOption("ssl_keyfile and ssl_password belong to a certificate: set ssl_certfile")

    def _check_sasl(self, given: list[str]) -> None:
        mechanism = self.sasl_mechanism
        if mechanism not in MECHANISMS:
            instead = f", not {mechanism!r}" if mechanism else f" for security_protocol={self.security_protocol}"
            raise InvalidOption(f"sasl_mechanism must be one of {', '.join(MECHANISMS)}{instead}")
        of_a_token, of_a_password = ("sasl_oauth_token_provider",), ("sasl_plain_username", "sasl_plain_password")
        needed, other = (of_a_token, of_a_password) if mechanism == "OAUTHBEARER" else (of_a_password, of_a_token)
        for name in needed:
            if getattr(self, name) is None:
                raise InvalidOption(f"sasl_mechanism={mechanism} needs {name}")
        for name in other:
            if name in given:
                raise InvalidOption(f"{name} has no effect with sasl_mechanism={mechanism}")


# What a client uses whose options say nothing.
PLAINTEXT = SecurityOptions()


def security_options(client: str, arguments: SecurityArguments) -> SecurityOptions:
    """Return the options from the rest of a client's arguments. Raises InvalidOption, and TypeError for other names."""
    unknown = arguments.keys() - SecurityArguments.__annotations__.keys()
    if unknown:
        name = min(unknown)
        raise TypeError(f"{client} has no option {name!r}{instead_of(name)}")
    return SecurityOptions(**arguments)
