"""Racks of members and replicas, as Kafka's assignors weigh them (KIP-881).

Reading from a replica in one's own rack costs no traffic between racks. A member that does not say where it runs reads
everything alike.
"""

from __future__ import annotations

from collections.abc import Collection, Set

from .assignor import Racks

NOWHERE: frozenset[str] = frozenset()


def racks_matter(member_racks: Set[str], replicas: Collection[frozenset[str]]) -> bool:
    """Whether it makes a difference who gets which partition; `replicas` are each partition's racks.

    It does not where no member runs in a rack with replicas, or where all partitions are in all racks.
    """
    if not member_racks:
        return False
    everywhere = frozenset[str]().union(*replicas)
    return not member_racks.isdisjoint(everywhere) and any(racks != everywhere for racks in replicas)


def replica_racks(topic: str, count: int, racks: Racks) -> list[frozenset[str]]:
    """The racks of each of a topic's `count` partitions, NOWHERE for those that were not told."""
    told = racks.get(topic, ())
    return [told[number] if number < len(told) else NOWHERE for number in range(count)]
