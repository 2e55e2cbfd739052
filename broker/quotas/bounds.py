"""Bounds: which quota applies to a client, in Kafka's order of eight, and with whom the client shares it.

The first one that exists for that key applies:

    the user with this client id, with any client id, the user
    any user with this client id, with any client id, any user
    this client id, any client id

Where the quota names a client id, each pair of a user and a client id has its own; where it names only a user, all
client ids of that user share it; where it names only a client id, all users of that id do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from .entities import DEFAULT, Entity, host_of

Name = TypeVar("Name")
# Who shares a quota: a user and a client id, or one of them.
Sharers = tuple[str | None, str | None]


class Bound(NamedTuple):
    """The quota that applies to a client."""

    value: float
    sharers: Sharers


class Bounds:
    """All quotas, found by key and client."""

    def __init__(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        # By key, then by the user and the client id that a quota names. A key without a quota is absent.
        self._by_key: dict[str, dict[Sharers, float]] = {}
        self._by_key_and_host: dict[str, dict[str, float]] = {}
        for entity, values in quotas.items():
            self.put(entity, values)

    def __contains__(self, key: str) -> bool:
        """Return whether anybody has such a quota."""
        return key in self._by_key or key in self._by_key_and_host

    def put(self, entity: Entity, values: Mapping[str, float]) -> None:
        """Give an entity these quotas and no others."""
        if entity.ip is not None:
            # Only addresses are accepted: what is none is the default.
            _replace(self._by_key_and_host, host_of(entity.ip) or DEFAULT, values)
        else:
            _replace(self._by_key, (entity.user, entity.client_id), values)

    def of_client(self, key: str, user: str, client_id: str) -> Bound | None:
        """Return the quota of a client; None: it has no limit."""
        quotas = self._by_key.get(key)
        if quotas is None:
            return None
        both, only_user, only_id = (user, client_id), (user, None), (None, client_id)
        for names, sharers in (
            (both, both),
            ((user, DEFAULT), both),
            (only_user, only_user),
            ((DEFAULT, client_id), both),
            ((DEFAULT, DEFAULT), both),
            ((DEFAULT, None), only_user),
            (only_id, only_id),
            ((None, DEFAULT), only_id),
        ):
            value = quotas.get(names)
            if value is not None:
                return Bound(value, sharers)
        return None

    def of_host(self, key: str, host: str) -> float | None:
        """Return the quota of an address; None: it has no limit."""
        quotas = self._by_key_and_host.get(key)
        if quotas is None:
            return None
        value = quotas.get(host)
        return quotas.get(DEFAULT) if value is None else value


def _replace(by_key: dict[str, dict[Name, float]], name: Name, values: Mapping[str, float]) -> None:
    for key in {*by_key, *values}:
        quotas = by_key.setdefault(key, {})
        if key in values:
            quotas[name] = values[key]
        else:
            quotas.pop(name, None)
        if not quotas:
            del by_key[key]
