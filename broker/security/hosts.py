"""Hosts of ACLs: `*`, an IP address as the broker prints it, or a range of addresses in CIDR notation (10.0.0.0/8).

A range says how many bits of a client's address must be those of its own address: the rest do not count. A range of
IPv4 holds no IPv6 address, and the reverse. A host without a slash is compared letter by letter.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from .acls import WILDCARD

_IPV4 = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3})/(\d{1,2})", re.ASCII)
# The prefix may have a sign and zeros in front, as Java reads it.
_IPV6 = re.compile(r"([0-9a-fA-F:.]*:[0-9a-fA-F:.]*)(?:%[^/]*)?/(\+?\d{1,10})", re.ASCII)
_IPV4_BITS, _IPV6_BITS = 32, 128
# Set in the number of an IPv6 address, so that no range of a family has an address of the other.
_IS_IPV6 = 1 << _IPV6_BITS
_NO_ADDRESS = -1


class Range(NamedTuple):
    """Addresses that are the same above the lowest `free` bits."""

    prefix: int
    free: int


def address_of(host: str) -> int:
    """Return the address of a client as a number; one that is in no range for what is none."""
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return _NO_ADDRESS
    return int(found) if isinstance(found, IPv4Address) else _IS_IPV6 | int(found)


def range_of(host: str) -> Range | None:
    """Return the range that the host of an ACL means; None where it is no range, or none that there can be."""
    if "/" not in host:
        return None
    return _ipv4(host) or _ipv6(host)


def _ipv4(host: str) -> Range | None:
    found = _IPV4.fullmatch(host)
    if found is None:
        return None
    octets, free = [int(each) for each in found[1].split(".")], _IPV4_BITS - int(found[2])
    is_range = max(octets) < 256 and free >= 0
    return Range(int.from_bytes(bytes(octets), "big") >> free, free) if is_range else None


def _ipv6(host: str) -> Range | None:
    found = _IPV6.fullmatch(host)
    if found is None:
        return None
    try:
        address = IPv6Address(found[1])
    except ValueError:
        return None
    free = _IPV6_BITS - int(found[2])
    # Java reads a mapped address as one of IPv4.
    is_range = address.ipv4_mapped is None and free >= 0
    return Range((_IS_IPV6 | int(address)) >> free, free) if is_range else None


def mistake_in_host(host: str) -> str:
    """Return why an ACL cannot have this host, in Kafka's words; empty where it can."""
    if not host:
        return "Host pattern cannot be null or empty"
    if host == WILDCARD or "/" not in host or range_of(host) is not None:
        return ""
    return f"Invalid CIDR notation '{host}': it is no address of IPv4 or IPv6 with a length from 0 to 32 or 128"
