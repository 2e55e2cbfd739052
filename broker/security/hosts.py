"""Hosts of ACLs: `*`, an IP address as the broker prints it, or a range of addresses in CIDR notation (10.0.0.0/8).

A range says how many bits of a client's address must be those of its own address: the rest do not count. A range of
IPv4 holds no IPv6 address, and the reverse. A host without a slash is compared letter by letter.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from .acls import WILDCARD

_IPV4 = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3})/(\d{1,2})", re.ASCII)
# The prefix may have a sign and zeros in front, as Java reads it.
_IPV6 = re.compile(r"([0-9a-fA-F:.]*:[0-9a-fA-F:.]*)(?:%[^/]*)?/(\+?\d{1,10})", re.ASCII)
_IPV4_BITS, _IPV6_BITS = 32, 128


class Address(NamedTuple):
    """An IP address as a number, and how many bits its family has."""

    bits: int
    number: int


class Range(NamedTuple):
    """Addresses of one family that are the same above the lowest `free` bits."""

    bits: int
    prefix: int
    free: int

    def has(self, address: Address | None) -> bool:
        """Return whether an address is one of the range."""
        return address is not None and address.bits == self.bits and address.number >> self.free == self.prefix


def address_of(host: str) -> Address | None:
    """Return the address of a client; None for what is none."""
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return Address(found.max_prefixlen, int(found))


def range_of(host: str) -> Range | None:
    """Return the range that the host of an ACL means; None where it is no range, or none that there can be."""
    if "/" not in host:
        return None
    address, free = _ipv4(host) or _ipv6(host) or (None, -1)
    if address is None or not 0 <= free <= address.bits:
        return None
    return Range(address.bits, address.number >> free, free)


def _ipv4(host: str) -> tuple[Address, int] | None:
    found = _IPV4.fullmatch(host)
    if found is None:
        return None
    octets = [int(each) for each in found[1].split(".")]
    free = _IPV4_BITS - int(found[2])
    return (Address(_IPV4_BITS, int.from_bytes(bytes(octets), "big")), free) if max(octets) < 256 else None


def _ipv6(host: str) -> tuple[Address, int] | None:
    found = _IPV6.fullmatch(host)
    if found is None:
        return None
    try:
        address = IPv6Address(found[1])
    except ValueError:
        return None
    # Java reads a mapped address as one of IPv4.
    is_mapped = address.ipv4_mapped is not None
    return None if is_mapped else (Address(_IPV6_BITS, int(address)), _IPV6_BITS - int(found[2]))


def mistake_in_host(host: str) -> str:
    """Return why an ACL cannot have this host, in Kafka's words; empty where it can."""
    if not host:
        return "Host pattern cannot be null or empty"
    if host == WILDCARD or "/" not in host or range_of(host) is not None:
        return ""
    return f"Invalid CIDR notation '{host}': it is no address of IPv4 or IPv6 with a length from 0 to 32 or 128"
