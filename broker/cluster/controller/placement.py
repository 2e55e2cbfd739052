"""Placement: which brokers get the replicas of new partitions. Kafka's way: spread round robin, and over racks.

The first replica, the preferred leader, goes round robin from a random broker on. The others follow it at a distance
that grows by one after every round, so that two brokers do not always share their partitions. With racks, the brokers
are ordered so that neighbours are in different racks, and a partition gets a second replica in a rack only after every
rack has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from ....protocol.errors import ErrorCode, KafkaError


def place(
    racks: Mapping[int, str | None], partitions: int, factor: int, start: int, shift: int, first: int = 0
) -> dict[int, tuple[int, ...]]:
    """Return the replicas of `partitions` new partitions, whose indexes begin at `first`.

    `racks` has the rack of every living broker. `start` and `shift` are random numbers; a topic that grows passes the
    place of partition 0 for both. Raises INVALID_REPLICATION_FACTOR where there are fewer brokers than `factor`.
    """
    if factor < 1:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if factor > len(racks):
        why = f"Unable to replicate the partition {factor} time(s): only {len(racks)} broker(s) are registered."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
    aware = all(rack is not None for rack in racks.values())
    order = _rack_alternating(racks) if aware else sorted(racks)
    found: dict[int, tuple[int, ...]] = {}
    for index in range(first, first + partitions):
        rounds = index // len(order)
        leader_at = (index + start) % len(order)
        found[index] = _replicas(order, racks, factor, leader_at, shift + rounds, aware=aware)
    return found


def _replicas(
    order: list[int], racks: Mapping[int, str | None], factor: int, leader_at: int, shift: int, *, aware: bool
) -> tuple[int, ...]:
    """Return the leader and the followers of one partition."""
    count = len(order)
    chosen = [order[leader_at]]
    rest = count - 1
    candidates = [order[(leader_at + 1 + (shift + step) % rest) % count] for step in range(rest)] if rest else []
    if aware:
        candidates = _racks_first(candidates, racks, racks[order[leader_at]])
    return tuple(chosen + candidates[: factor - 1])


def _racks_first(candidates: list[int], racks: Mapping[int, str | None], leader_rack: str | None) -> list[int]:
    """Return the candidates with the first of every rack that has no replica yet in front."""
    seen = {leader_rack}
    first: list[int] = []
    later: list[int] = []
    for each in candidates:
        (later if racks[each] in seen else first).append(each)
        seen.add(racks[each])
    return first + later


def _rack_alternating(racks: Mapping[int, str | None]) -> list[int]:
    """Return the brokers so that neighbours are in different racks: the first of each rack, the second of each, ..."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker] or "", []).append(broker)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for each in rounds for broker in each if broker is not None]
