"""Who had which partition, by what the members say themselves.

A member that was away comes back with what it had then, so two may name the same partition. The higher generation is
right, as the younger assignment; of the same generation both cannot be, and neither is believed (KIP-792).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..record import TopicPartition
from .assignor import NO_GENERATION


class Claim(NamedTuple):
    """What one member says it had, and since which generation."""

    partitions: Sequence[TopicPartition] = ()
    generation_id: int = NO_GENERATION


def owners(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """Each partition that was believably had by somebody, with the member id."""
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id, claim in claims.items():
        for partition in dict.fromkeys(claim.partitions):
            generation_id, _ = best.get(partition, (NO_GENERATION - 1, None))
            if claim.generation_id > generation_id:
                best[partition] = claim.generation_id, member_id
            elif claim.generation_id == generation_id:
                best[partition] = generation_id, None
    return {partition: member_id for partition, (_, member_id) in best.items() if member_id is not None}
