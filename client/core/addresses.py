"""The addresses in `bootstrap_servers`.

Accepted are "host:port,host:port", or a list of "host:port". The default port is 9092. An IPv6 address with a port
needs brackets: "[::1]:9092".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from ..errors import InvalidOption

Address = tuple[str, int]

DEFAULT_PORT = 9092


def bootstrap_addresses(servers: str | Sequence[str]) -> list[Address]:
    """Return the addresses in the given order. Raises InvalidOption, which names the wrong entry."""
    if isinstance(servers, Mapping):
        raise InvalidOption("bootstrap_servers is HOST:PORT or a list of it, not a dict: options are given by name")
    given: object = servers
    if not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - what a caller may pass
        raise InvalidOption(f"bootstrap_servers is HOST:PORT or a list of it, not {given!r:.100}")
    entries = servers.split(",") if isinstance(servers, str) else list(servers)
    for entry in cast("Iterable[object]", entries):
        if not isinstance(entry, str):
            raise InvalidOption(f"bootstrap_servers takes each server as a text HOST:PORT, not as {entry!r:.100}")
    addresses = [_address(entry.strip()) for entry in entries if entry.strip()]
    if not addresses:
        raise InvalidOption(f"bootstrap_servers names no server: {servers!r}")
    return addresses


def broker_address(host: str, port: int | None) -> Address:
    """Return the address of one broker, which `host` holds whole, as "host:port", where there is no `port`.

    Raises InvalidOption.
    """
    if port is not None:
        return host, port
    addresses = bootstrap_addresses(host)
    if len(addresses) > 1:
        raise InvalidOption(f"{host!r} names {len(addresses)} servers; this client connects to one: HOST:PORT")
    return addresses[0]


def _address(entry: str) -> Address:
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        port = rest.removeprefix(":")
    elif entry.count(":") > 1 and "/" not in entry:
        host, port = entry, ""  # a bare IPv6 address
    else:
        host, _, port = entry.partition(":")
    if not port and host and "/" not in host:
        return _checked(host), DEFAULT_PORT
    if not host or "/" in entry or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InvalidOption(f"bootstrap_servers: {entry!r} is not HOST:PORT")
    return _checked(host), int(port)


def _checked(host: str) -> str:
    """Return a host name that can be looked up. Raises InvalidOption."""
    try:
        host.encode("idna")
    except UnicodeError:
        raise InvalidOption(f"bootstrap_servers: {host!r} is no host name") from None
    return host
