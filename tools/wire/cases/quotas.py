"""DescribeClientQuotas and AlterClientQuotas: every filter, what is refused, and in which words.

Entities get the prefix of the run, but for the defaults, whose quotas are taken away at the end.
"""

from __future__ import annotations

from typing import Any

from ..connection import Wire

EXACT, DEFAULT, ANY = 0, 1, 2
RATE, OTHER, PERCENT, MUTATIONS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    ("controller_mutation_rate"),
)
CONNECTIONS = "connection_creation_rate"
Pair = tuple[str, str | None]


def run(wire: Wire) -> None:
    user, client = ("user", f"{wire.prefix}-u"), ("client-id", f"{wire.prefix}-c")
    address = ("ip", "10.1.2.3")
    everyone, every_client = ("user", None), ("client-id", None)
    entities: list[list[Pair]] = [[user], [client], [user, client], [user, every_client], [everyone, client]]
    for entity in entities:
        _alter(wire, "set", [_entry(entity, [(RATE, 1e15)])])
    _alter(wire, "set address", [_entry([address], [(CONNECTIONS, 1000)])])
    _filters(wire, user, client, address)
    _refused_filters(wire, user, address)
    _refused(wire, user, client, address)
    _several(wire, user, client)
    for entity in entities:
        _alter(wire, "remove", [_entry(entity, [(each, None) for each in (RATE, OTHER, PERCENT, MUTATIONS)])])
    _alter(wire, "remove address", [_entry([address], [(CONNECTIONS, None)])])
    _describe(wire, "nothing left", [(*user, EXACT)])


def _filters(wire: Wire, user: Pair, client: Pair, address: Pair) -> None:
    for strict in (False, True):
        says = "strict" if strict else "not strict"
        _describe(wire, f"user, {says}", [(*user, EXACT)], strict)
        _describe(wire, f"client id, {says}", [(*client, EXACT)], strict)
        _describe(wire, f"user and client id, {says}", [(*user, EXACT), (*client, EXACT)], strict)
        _describe(wire, f"user and default client, {says}", [(*user, EXACT), ("client-id", None, DEFAULT)], strict)
        _describe(wire, f"user and any client, {says}", [(*user, EXACT), ("client-id", None, ANY)], strict)
        _describe(wire, f"any user, this client, {says}", [("user", None, ANY), (*client, EXACT)], strict)
        _describe(wire, f"default user, {says}", [("user", None, DEFAULT)], strict)
        _describe(wire, f"address, {says}", [(*address, EXACT)], strict)
        _describe(wire, f"any address, {says}", [("ip", None, ANY)], strict)
        _describe(wire, f"default address, {says}", [("ip", None, DEFAULT)], strict)
    _describe(wire, "no components, strict", [], True)


def _refused_filters(wire: Wire, user: Pair, address: Pair) -> None:
    for case, components in (
        ("a type twice", [(*user, EXACT), ("user", None, ANY)]),
        ("unknown type", [("group", "g", EXACT)]),
        ("empty type", [("", "g", EXACT)]),
        ("exact without a name", [("user", None, EXACT)]),
        ("exact with an empty name", [("user", "", EXACT)]),
        ("default with a name", [("user", "u", DEFAULT)]),
        ("any with a name", [("user", "u", ANY)]),
        ("unknown match", [("user", "u", 3)]),
        ("negative match", [("user", "u", -1)]),
        ("address and user", [(*address, EXACT), (*user, EXACT)]),
        ("address and client", [("client-id", None, ANY), ("ip", None, ANY)]),
        ("no address", [("ip", "not an address", EXACT)]),
        ("unknown type twice", [("group", "g", EXACT), ("group", "g", EXACT)]),
    ):
        _describe(wire, case, components)
    for version in (0, 1):
        wire.ask("oldest and newest", "DescribeClientQuotas", version, _filter([(*user, EXACT)], False))


def _refused(wire: Wire, user: Pair, client: Pair, address: Pair) -> None:
    entities: list[tuple[str, list[Pair]]] = [
        ("no entity", []),
        ("unknown type", [("group", "g")]),
        ("empty type", [("", "g")]),
        ("empty user", [("user", "")]),
        ("empty client", [("client-id", "")]),
        ("empty address", [("ip", "")]),
        ("address and user", [address, user]),
        ("address and client", [client, address]),
        ("twice the same", [user, user]),
        ("two users", [user, ("user", "other")]),
        ("a bad address", [("ip", "not an address")]),
        ("a bad number", [("ip", "1.2.3.4.5")]),
        ("a short address", [("ip", "127.1")]),
        ("IPv6", [("ip", "::1")]),
    ]
    for case, entity in entities:
        key = CONNECTIONS if entity and entity[0][0] == "ip" else RATE
        _alter(wire, f"entity: {case}", [_entry(entity, [(key, 10)])], validate_only=True)
    for case, key, value in (
        ("unknown key", "bytes", 1),
        ("empty key", "", 1),
        ("connections of a user", CONNECTIONS, 1),
        ("zero", RATE, 0),
        ("negative", RATE, -1),
        ("fraction of bytes", RATE, 1.5),
        ("nearly whole", RATE, 1.0000001),
        ("nearly whole, below", RATE, 1.9999999),
        ("largest", RATE, 2**63 - 1),
        ("too large", RATE, 1e19),
        ("infinite", RATE, float("inf")),
        ("no number", RATE, float("nan")),
        ("small percentage", PERCENT, 0.01),
        ("percentage of zero", PERCENT, 0),
        ("infinite percentage", PERCENT, float("inf")),
        ("percentage that is no number", PERCENT, float("nan")),
        ("fraction of mutations", MUTATIONS, 0.5),
    ):
        _alter(wire, f"value: {case}", [_entry([user], [(key, value)])], validate_only=True)
    for case, value in (("fraction", 1.5), ("too large", 3e9), ("zero", 0), ("largest", 2**31 - 1)):
        _alter(wire, f"address: {case}", [_entry([address], [(CONNECTIONS, value)])], validate_only=True)
    _alter(wire, "address: bytes", [_entry([address], [(RATE, 1)])], validate_only=True)
    _alter(wire, "removes an unknown key", [_entry([user], [("bytes", None)])])
    _alter(wire, "removes an absent key", [_entry([user], [(MUTATIONS, None)])])
    _alter(wire, "a key twice", [_entry([user], [(RATE, 1e15), (RATE, 2e15)])])
    _alter(wire, "a key set and removed", [_entry([user], [(RATE, 1e15), (RATE, None)])])
    _alter(wire, "nothing to do", [_entry([user], [])])
    _alter(wire, "no entries", [])
    _describe(wire, "after what was refused", [(*user, EXACT)])


def _several(wire: Wire, user: Pair, client: Pair) -> None:
    _alter(wire, "several keys", [_entry([user], [(OTHER, 5e14), (PERCENT, 4000.5), (MUTATIONS, 1e6)])])
    _describe(wire, "several keys", [(*user, EXACT)], True)
    both = [_entry([user], [(OTHER, 6e14)]), _entry([user], [(OTHER, 7e14)])]
    _alter(wire, "an entity twice", both)
    _describe(wire, "an entity twice", [(*user, EXACT)], True)
    _alter(
        wire, "an entity twice, the first one wrong", [_entry([user], [(OTHER, -1)]), _entry([user], [(OTHER, 8e14)])]
    )
    _describe(wire, "after the wrong one", [(*user, EXACT)], True)
    _alter(wire, "one wrong of two", [_entry([user], [("bytes", 1)]), _entry([client], [(OTHER, 9e14)])])
    _describe(wire, "one wrong of two", [(*client, EXACT)], True)
    turned = [_entry([client, user], [(OTHER, 9e14)])]
    _alter(wire, "the parts in another order", turned)
    _describe(wire, "the parts in another order", [(*user, EXACT), (*client, EXACT)])
    _alter(wire, "only checked", [_entry([user], [(OTHER, 1e13)])], validate_only=True)
    _alter(wire, "one wrong key of two", [_entry([user], [(OTHER, 1e12), ("bytes", 1)])])
    _describe(wire, "only checked", [(*user, EXACT)], True)


def _entry(entity: list[Pair], ops: list[tuple[str, float | None]]) -> dict[str, Any]:
    return {
        "Entity": [{"EntityType": kind, "EntityName": name} for kind, name in entity],
        "Ops": [{"Key": key, "Value": value or 0.0, "Remove": value is None} for key, value in ops],
    }


def _alter(wire: Wire, case: str, entries: list[dict[str, Any]], validate_only: bool = False) -> None:
    wire.ask(case, "AlterClientQuotas", 1, {"Entries": entries, "ValidateOnly": validate_only})


def _describe(wire: Wire, case: str, components: list[tuple[str, str | None, int]], strict: bool = False) -> None:
    wire.ask(case, "DescribeClientQuotas", 1, _filter(components, strict))


def _filter(components: list[tuple[str, str | None, int]], strict: bool) -> dict[str, Any]:
    return {
        "Components": [{"EntityType": kind, "Match": name, "MatchType": match} for kind, name, match in components],
        "Strict": strict,
    }
