"""Security by Kafka's dotted names, as -X, profiles, Spark's options and files of Java's clients give it.

    security_arguments({"security.protocol": "SASL_SSL", "ssl.truststore.location": "ca.pem",
                        "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": "...ScramLoginModule required ...;"})

Java's names, librdkafka's (`ssl.ca.location`, `sasl.username`), and those of the Python options with dots all work.
Java's key stores cannot be read here: a store has to be in PEM, as Java also allows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlparse

from ..errors import InvalidOption
from .security_options import SecurityArguments

# The configs whose text is the value of an option.
_AS_THEY_ARE = {
    "security.protocol": "security_protocol",
    "ssl.cafile": "ssl_cafile",
    "ssl.ca.location": "ssl_cafile",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.cadata": "ssl_cadata",
    "ssl.ca.pem": "ssl_cadata",
    "ssl.truststore.certificates": "ssl_cadata",
    "ssl.certfile": "ssl_certfile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.keyfile": "ssl_keyfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.password": "ssl_password",
    "ssl.key.password": "ssl_password",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.plain.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.plain.password": "sasl_plain_password",
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
    return {} if text.lower() == "https" else {"ssl_check_hostname": False}


def _check_hostname(name: str, text: str) -> dict[str, Any]:
    if text.lower() not in ("true", "false"):
        raise InvalidOption(f"{name} must be true or false, not {text!r}")
    return {} if text.lower() == "true" else {"ssl_check_hostname": False}


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


class TokenFile:
    """A file with an OAuth token, which is read for each connection."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenFile) and other._path == self._path

    def __hash__(self) -> int:
        return hash(self._path)

    def token(self) -> str:
        """Return the file's text."""
        return self._path.read_text().strip()


_READ: Mapping[str, Callable[[str, str], dict[str, Any]]] = {
    "ssl.truststore.type": _check_store,
    "ssl.keystore.type": _check_store,
    "ssl.endpoint.identification.algorithm": _identification,
    "ssl.check.hostname": _check_hostname,
    "sasl.jaas.config": _jaas,
    "sasl.oauthbearer.token.endpoint.url": _token_file,
}

SECURITY_CONFIGS = frozenset(_AS_THEY_ARE) | frozenset(_READ)
