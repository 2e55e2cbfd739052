"""Entities: who a quota is for, and which quotas it may have.

An entity is a user, a client id, both together, or an address. The default of a type, which stands for every name
without a quota of its own, has the empty name: no real user, client id or address has it.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ..security.principals import address_text

DEFAULT: Final = ""
USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
# What Kafka takes for a rounding error of a whole number.
_EPSILON = 1e-6
# More than any address has, with its scope. A client may send megabytes.
_MAX_ADDRESS_CHARS = 100


class Entity(NamedTuple):
    """Who a quota is for: the names by type. None: the type is not part of it."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def names(self) -> dict[str, str]:
        """The names by Kafka's word for the type, in Kafka's order."""
        parts = ((CLIENT_ID, self.client_id), (USER, self.user), (IP, self.ip))
        return {kind: name for kind, name in parts if name is not None}

    def __str__(self) -> str:
        shown = (f"{kind}={name or 'null'}" for kind, name in self.names.items())
        return f"ClientQuotaEntity(entries={{{', '.join(shown)}}})"


def entity_of(names: Mapping[str, str | None]) -> Entity:
    """Return the entity of names by type, where null is the default. Raises InvalidQuota."""
    if not names:
        raise InvalidQuota("Invalid empty client quota entity")
    for kind, name in names.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidQuota(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidQuota(f"Empty {kind} not supported")
    known = {kind: DEFAULT if name is None else name for kind, name in names.items()}
    entity = Entity(known.get(USER), known.get(CLIENT_ID), known.get(IP))
    if entity.ip is not None and len(names) > 1:
        raise InvalidQuota("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    if entity.ip and host_of(entity.ip) is None:
        raise InvalidQuota(f"{entity.ip} is not a valid IP or resolvable host.")
    return entity


def host_of(ip: str) -> str | None:
    """Return an address as connections have it; None for a text that is none. Names of hosts are not looked up."""
    if len(ip) > _MAX_ADDRESS_CHARS:
        return None
    try:
        if ":" in ip:
            return address_text(ip)
        return socket.inet_ntoa(socket.inet_aton(ip))
    except (OSError, ValueError):
        return None


def check_quota(entity: Entity, key: str, value: float) -> None:
    """Raise InvalidQuota for a key that the entity cannot have, or a value that the key cannot have."""
    check = (_OF_ADDRESSES if entity.ip is not None else _OF_CLIENTS).get(key)
    if check is None:
        raise InvalidQuota(f"Invalid configuration key {key}")
    if not math.isfinite(value):
        raise InvalidQuota(f"Quota {key} must be a finite number")
    if value <= 0:
        raise InvalidQuota(f"Quota {key} must be greater than 0")
    check(key, value)


class InvalidQuota(Exception):
    """A change of a quota that is refused, with Kafka's words."""


def _any_number(key: str, value: float) -> None:
    """Accept a fraction."""


def _whole_number(bits: int, kind: str) -> Callable[[str, float], None]:
    most = float(2 ** (bits - 1) - 1)

    def check(key: str, value: float) -> None:
        if value > most:
            raise InvalidQuota(f"Proposed value for {key} is too large for {kind}.")
        if abs(math.floor(value) - value) > _EPSILON:
            raise InvalidQuota(f"{key} cannot be a fractional value.")

    return check


_long = _whole_number(64, "a LONG")
_OF_CLIENTS = {
    PRODUCER_BYTE_RATE: _long,
    CONSUMER_BYTE_RATE: _long,
    REQUEST_PERCENTAGE: _any_number,
    CONTROLLER_MUTATION_RATE: _any_number,
}
_OF_ADDRESSES = {CONNECTION_CREATION_RATE: _whole_number(32, "an INT")}

# Every key, and those whose values are whole numbers.
QUOTAS: Final = frozenset(_OF_CLIENTS) | frozenset(_OF_ADDRESSES)
WHOLE_NUMBERS: Final = QUOTAS - {REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE}
