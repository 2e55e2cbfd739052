"""Principals: who sends a request, as ACLs and quotas name it.

A principal is a type and a name. The only type is `User`, as in Kafka. A client that did not authenticate is
`User:ANONYMOUS`. Two principals are equal if type and name are, letter by letter.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

USER_TYPE = "User"


class Principal(NamedTuple):
    """Who sends a request."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER_TYPE, "ANONYMOUS")


def user(name: str) -> Principal:
    """Return the principal of a user."""
    return Principal(USER_TYPE, name)


def parse_principal(text: str) -> Principal | None:
    """Return the principal of a text TYPE:NAME, or None where the text has no type."""
    kind, colon, name = text.partition(":")
    return Principal(kind, name) if colon and kind else None


def address_text(address: str) -> str:
    """Return an IP address as Java prints it, which is how ACLs name a host.

    An IPv4 address that was mapped to IPv6 is printed as IPv4, and any other IPv6 address in full: `0:0:0:0:0:0:0:1`.
    """
    if ":" not in address:
        return address
    bare, percent, scope = address.partition("%")
    found = ip_address(bare)
    if not isinstance(found, IPv6Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    words = (f"{word:x}" for word in (int(found) >> shift & 0xFFFF for shift in range(112, -16, -16)))
    return ":".join(words) + percent + scope
