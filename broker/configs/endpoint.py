"""Listeners in the form NAME://HOST:PORT, and the checks of `listeners` and `advertised.listeners`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from ipaddress import ip_address
from typing import NamedTuple

from .definition import ConfigError

_ENDPOINT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)://(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:/\[\]]*)):(?P<port>\d{1,5})"
)
# Hosts that mean every interface.
ANY_HOST = ("", "0.0.0.0", "::")
# Where http.listener listens if it names no host: only programs of this machine reach it.
LOOPBACK = "127.0.0.1"

_ADDRESS_LIMITS = "must be ADDRESS:NUMBER, separated by commas, with IP addresses and numbers of 0 or more"


class SecurityProtocol(StrEnum):
    """What a listener speaks: with or without TLS, with or without SASL."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Endpoint(NamedTuple):
    """A listener: its name, its host (empty: every interface) and its port (0: a free one)."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """HOST:PORT, with brackets around an IPv6 host."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """Return the endpoint of a text NAME://HOST:PORT, with an IPv6 host in brackets. ConfigError for any other text."""
    match = _ENDPOINT.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ConfigError("listeners", text, "must be NAME://HOST:PORT with a port from 0 to 65535")
    host = match["v6"] or match["host"] or ""
    try:
        host.encode("idna")
    except UnicodeError:
        raise ConfigError("listeners", text, "no host can have this name: its parts have 1 to 63 letters") from None
    return Endpoint(match["name"].upper(), host, int(match["port"]))


def check_endpoints(texts: tuple[str, ...]) -> str | None:
    """Return why a list of endpoints cannot be used, or None."""
    try:
        names = [parse_endpoint(text).name for text in texts]
    except ConfigError as error:
        return error.reason
    return None if len(set(names)) == len(names) else "each listener needs a name of its own"


def parse_http_listener(text: str) -> tuple[str, int]:
    """Return host and port of `http.listener`. ConfigError for a text that is neither HOST:PORT nor a port."""
    endpoint = parse_endpoint(f"HTTP://{text if ':' in text else f'{LOOPBACK}:{text}'}")
    return endpoint.host, endpoint.port


def check_http_listener(text: str) -> str | None:
    """Return why an `http.listener` cannot be used, or None."""
    try:
        parse_http_listener(text or "0")
    except ConfigError:
        return "must be HOST:PORT or a port, with a port from 0 to 65535"
    return None


def check_address_limits(text: str) -> str | None:
    """Return why a max.connections.per.ip.overrides cannot be used, or None."""
    try:
        parse_address_limits(text)
    except (ValueError, ConfigError):
        return _ADDRESS_LIMITS
    return None


def parse_address_limits(text: str) -> dict[str, int]:
    """Return the limits of a max.connections.per.ip.overrides by address. Raises ConfigError or ValueError."""
    limits: dict[str, int] = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        address, _, number = map(str.strip, pair.rpartition(":"))
        if not (number.isascii() and number.isdigit()):
            raise ConfigError("max.connections.per.ip.overrides", text, _ADDRESS_LIMITS)
        limits[str(ip_address(address.strip("[]")))] = int(number)
    return limits


def check_protocol_map(text: str) -> str | None:
    """Return why a listener.security.protocol.map cannot be used, or None."""
    pairs = [pair.split(":") for pair in text.split(",")] if text else []
    if not all(len(pair) == 2 and all(pair) for pair in pairs):
        return "must be NAME:PROTOCOL, separated by commas"
    unknown = [protocol for _, protocol in pairs if protocol.strip().upper() not in SecurityProtocol.__members__]
    return f"{unknown[0]} is not one of {', '.join(SecurityProtocol)}" if unknown else None


def protocols_of(protocol_map: str) -> dict[str, SecurityProtocol]:
    """Return the security protocol of each listener name in a listener.security.protocol.map."""
    pairs = (pair.split(":") for pair in protocol_map.split(",") if pair)
    return {name.strip().upper(): SecurityProtocol(protocol.strip().upper()) for name, protocol in pairs}


def check_protocols(listeners: tuple[str, ...], opened: Sequence[Endpoint], protocol_map: str) -> None:
    """Raise ConfigError unless there is a listener to open, and each has a protocol."""
    protocols, given = protocols_of(protocol_map), ",".join(listeners)
    if not opened:
        raise ConfigError("listeners", given, "must have one that is not a controller's")
    for endpoint in opened:
        if endpoint.name not in protocols:
            reason = f"listener {endpoint.name} is missing in listener.security.protocol.map"
            raise ConfigError("listeners", given, reason)


def check_advertised(advertised: Iterable[Endpoint], listeners: tuple[str, ...]) -> None:
    """Raise ConfigError where an advertised listener is not one of `listeners`, or clients cannot connect to it."""
    names = {parse_endpoint(text).name for text in listeners}
    for endpoint in advertised:
        if endpoint.name not in names:
            reason = f"{endpoint.name} is not one of the listeners {', '.join(sorted(names))}"
        elif endpoint.host in ANY_HOST or endpoint.port == 0:
            reason = "must have a host and a port that clients can connect to"
        else:
            continue
        raise ConfigError("advertised.listeners", f"{endpoint.name}://{endpoint.address}", reason)
