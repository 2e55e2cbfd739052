"""What keeps web pages of others from a service in reach of a browser: the host of a request, and the page it is from.

A page can reach a service by a name of its own that leads there (DNS rebinding), and then read all answers. So a
request must name a host that is known. An address is none that anybody could lead elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address

from .exchange import Request


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a host."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def host_of(authority: str) -> str:
    """Return the host of HOST:PORT in lower case, without the brackets of an IPv6 address."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    return authority.partition(":")[0].lower()


def names_known_host(request: Request, allowed: Collection[str]) -> bool:
    """Tell whether a request names this machine, an address, or an allowed host."""
    host = host_of(request.headers.get("host", ""))
    return host == "localhost" or host in allowed or _address(host) is not None


def is_from_elsewhere(request: Request) -> bool:
    """Tell whether a page of another origin sends a request, as browsers say. Other clients say nothing."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site != "same-origin"
    origin = request.headers.get("origin")
    return origin is not None and origin.partition("://")[2] != request.headers.get("host")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None
