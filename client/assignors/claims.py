"""The previous owner of each partition, from what the members say.

A member that was away still names the partitions that it had then, so two members may name the same partition. The
claim of the higher generation counts, because that assignment is newer. If both name the same generation, neither
counts (KIP-792).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..record import TopicPartition
from .assignor import NO_GENERATION


class Claim(NamedTuple):
    """The partitions that one member says it had, and the generation that assigned them."""

    partitions: Sequence[TopicPartition] = ()
    generation_id: int = NO_GENERATION


def owners(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """Return the member id of each partition's owner. Partitions without a valid claim are left out."""
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id, claim in claims.items():
        for partition in dict.fromkeys(claim.partitions):
            generation_id, _ = best.get(partition, (NO_GENERATION - 1, None))
            if claim.generation_id > generation_id:
                best[partition] = claim.generation_id, member_id
            elif claim.generation_id == generation_id:
                best[partition] = generation_id, None
    return {partition: member_id for partition, (_, member_id) in best.items() if member_id is not None}
