"""Racks of members and replicas, as Kafka's assignors weigh them (KIP-881).

Reading from a replica in the member's own rack causes no traffic between racks. For a member without a rack, all
replicas are equally near.
"""

from __future__ import annotations

from collections.abc import Collection, Set

from .assignor import Racks

NOWHERE: frozenset[str] = frozenset()


def racks_matter(member_racks: Set[str], replicas: Collection[frozenset[str]]) -> bool:
    """Return whether racks make a difference to the assignment. `replicas` holds the racks of each partition.

    They do not if no member runs in a rack with replicas, or if all partitions are in all racks.
    """
    if not member_racks:
        return False
    everywhere = frozenset[str]().union(*replicas)
    return not member_racks.isdisjoint(everywhere) and any(racks != everywhere for racks in replicas)


def replica_racks(topic: str, count: int, racks: Racks) -> list[frozenset[str]]:
    """Return the racks of each of a topic's `count` partitions, NOWHERE for those that are not known."""
    told = racks.get(topic, ())
    return [told[number] if number < len(told) else NOWHERE for number in range(count)]
