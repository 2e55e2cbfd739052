"""The options of encryption and authentication, which all clients share.

    Producer("broker:9093", security_protocol="SASL_SSL", ssl_cafile="ca.pem",
             sasl_mechanism="SCRAM-SHA-512", sasl_plain_username="alice", sasl_plain_password="...")

The names are those of aiokafka and kafka-python. An option that has no effect beside the others is an error, so that
nobody believes a connection to be safer than it is.

-X, profiles, Spark's options and files of Java's clients give them by dotted names: `security_arguments` reads Java's
names, librdkafka's, and those of the Python options with dots. Java's key stores cannot be read here: a store has to be
in PEM, as Java also allows.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, TypedDict, cast
from urllib.parse import unquote, urlparse

from ..errors import InvalidOption
from .option_table import CONFIGS, MECHANISMS, OPTIONS, OTHER_NAMES
from .option_values import SWITCH, check_value


class TokenProvider(Protocol):
    """Gives OAuth tokens. It may also have a method `extensions` that returns a dict of texts (KIP-342)."""

    def token(self) -> str | Awaitable[str]:
        """Return a token that is valid for some time. A function that waits runs in a thread."""
        ...


TokenSource = Callable[[], str | Awaitable[str]] | TokenProvider


class SecurityArguments(TypedDict, total=False):
    """The parameters that every client takes beside its own; the table says what they mean."""

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
    """What a client shows and asks for when it connects; the table says what each means. Raises InvalidOption.

    Secrets are not in its text.
    """

    security_protocol: str = "PLAINTEXT"
    ssl_cafile: str | None = None
    ssl_cadata: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = field(default=None, repr=False)
    ssl_check_hostname: bool = True
    ssl_context: ssl.SSLContext | None = None
    sasl_mechanism: str | None = None
    sasl_plain_username: str | None = None
    sasl_plain_password: str | None = field(default=None, repr=False)
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
        for name in ("security_protocol", "ssl_check_hostname"):
            check_value(name, getattr(self, name), OPTIONS[name].values)
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


# The config that names a file with a token: no other one sets the provider.
TOKEN_FILE = "sasl.oauthbearer.token.endpoint.url"
# The configs whose text is the value of an option.
_AS_THEY_ARE = {
    name: row.name
    for name, row in (CONFIGS | OTHER_NAMES).items()
    if row.name in SecurityArguments.__annotations__
    and row.name not in ("ssl_check_hostname", "ssl_context", "sasl_oauth_token_provider")
}
_MODULES = ("PlainLoginModule", "ScramLoginModule", "OAuthBearerLoginModule")
_JAAS = re.compile(r"\s*(?:[\w$]+\.)*([\w$]+)\s+required\b(.*);\s*", re.DOTALL)
_JAAS_OPTION = re.compile(r"\s*(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s\"]+))")
_ESCAPED = re.compile(r"\\(.)")


def security_arguments(configs: Mapping[str, str]) -> SecurityArguments:
    """Return the options of a client for those of `configs` that concern security; others are left out.

    Raises InvalidOption, which names the config.
    """
    found: dict[str, Any] = {}
    for name, text in configs.items():
        if name in _AS_THEY_ARE:
            given = {_AS_THEY_ARE[name]: text}
        elif name in _READ:
            given = _READ[name](name, text)
        else:
            continue
        for option, value in given.items():
            if option in found and found[option] != value:
                raise InvalidOption(f"{name}: {option} is given twice, with different values")
            found[option] = value
    return cast("SecurityArguments", found)


def _check_store(name: str, text: str) -> dict[str, Any]:
    if text.upper() != "PEM":
        raise InvalidOption(f"{name}={text}: only PEM can be read. keytool and openssl pkcs12 turn a store into PEM")
    return {}


def _identification(name: str, text: str) -> dict[str, Any]:
    if text.lower() not in ("https", "", "none"):
        raise InvalidOption(f"{name} must be https, or empty for no check of the host name, not {text!r}")
    return {"ssl_check_hostname": text.lower() == "https"}


def _check_hostname(name: str, text: str) -> dict[str, Any]:
    checks = SWITCH.read(text)
    if checks is None:
        raise InvalidOption(f"{name} must be true or false, not {text!r}")
    return {"ssl_check_hostname": checks}


def _jaas(name: str, text: str) -> dict[str, Any]:
    """Return the user and password of a login module's line."""
    match = _JAAS.fullmatch(text)
    if match is None or match[1] not in _MODULES:
        raise InvalidOption(f'{name} must be one of {", ".join(_MODULES)}, as in: {_MODULES[0]} required username="u";')
    options = {each[1]: _value(each) for each in _JAAS_OPTION.finditer(match[2])}
    if rest := _JAAS_OPTION.sub("", match[2]).strip():
        raise InvalidOption(f"{name}: what begins with {rest[:10]!r} cannot be read")
    if match[1] == "OAuthBearerLoginModule":
        if options:
            raise InvalidOption(f"{name}: {min(options)} is for Java. Set sasl.oauthbearer.token.endpoint.url=file:...")
        return {}
    if set(options) != {"username", "password"}:
        raise InvalidOption(f"{name}: {match[1]} needs username and password, and nothing else")
    return {"sasl_plain_username": options["username"], "sasl_plain_password": options["password"]}


def _value(match: re.Match[str]) -> str:
    return match[3] if match[2] is None else _ESCAPED.sub(r"\1", match[2])


def _token_file(name: str, text: str) -> dict[str, Any]:
    url = urlparse(text)
    if url.scheme != "file":
        raise InvalidOption(f"{name}: only a file: can be read. In Python, sasl_oauth_token_provider asks a service")
    return {"sasl_oauth_token_provider": TokenFile(Path(unquote(url.path)))}


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file with an OAuth token, which is read for each connection."""

    path: Path

    def token(self) -> str:
        """Return the file's text."""
        return self.path.read_text().strip()


_READ: Mapping[str, Callable[[str, str], dict[str, Any]]] = {
    "ssl.truststore.type": _check_store,
    "ssl.keystore.type": _check_store,
    "ssl.endpoint.identification.algorithm": _identification,
    "ssl.check.hostname": _check_hostname,
    "sasl.jaas.config": _jaas,
    TOKEN_FILE: _token_file,
}

SECURITY_CONFIGS = frozenset(_AS_THEY_ARE) | frozenset(_READ)
