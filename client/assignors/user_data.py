"""What members of the sticky strategies tell the leader, byte for byte as Kafka's own StickyAssignor and
CooperativeStickyAssignor: members of both kinds share a group.

sticky: what the member was given last (version 0), and in which generation (version 1). cooperative-sticky: that
generation only, as the partitions stand in the subscription itself; newer members have the generation there too.
No version goes in front: a reader tries the newest and goes back. What cannot be read claims nothing, as in Kafka,
because other clients put other things there.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.codec import decoder, encode_versioned
from ...protocol.errors import DecodeError
from ...protocol.schema import Message, Struct, array, int32, string
from ..record import TopicPartition
from .assignor import NO_GENERATION
from .claims import Claim

# What every other versioned struct has in front.
_VERSION_BYTES = 2


class StickyAssignorUserData(Message, versions="0-1"):
    previous_assignment: list[TopicAssignment] = array("0+")
    generation: int = int32("1+", default=NO_GENERATION, ignorable=True)


class TopicAssignment(Struct):
    topic: str = string("0+")
    partitions: list[int] = array("0+", of="int32")


class CooperativeStickyUserData(Message, versions="0"):
    generation: int = int32("0+", default=NO_GENERATION)


def encode_sticky(previous: Sequence[TopicPartition], generation_id: int) -> bytes:
    topics: dict[str, TopicAssignment] = {}
    for topic, partition in previous:
        topics.setdefault(topic, TopicAssignment(topic=topic)).partitions.append(partition)
    data = StickyAssignorUserData(previous_assignment=list(topics.values()), generation=generation_id)
    return _encode(data, 1)


def decode_sticky(data: bytes | None) -> Claim:
    """The claim in it, an empty one where there is none to be read."""
    for version in reversed(StickyAssignorUserData.VERSIONS) if data else ():
        try:
            found, _ = decoder(StickyAssignorUserData, version)(data or b"", 0)
        except DecodeError:
            continue  # an older version, or another client's own
        topics = found.previous_assignment
        return Claim([TopicPartition(each.topic, p) for each in topics for p in each.partitions], found.generation)
    return Claim()


def encode_generation(generation_id: int) -> bytes:
    return _encode(CooperativeStickyUserData(generation=generation_id), 0)


def decode_generation(data: bytes | None) -> int:
    """The generation in it, NO_GENERATION where there is none to be read."""
    try:
        return decoder(CooperativeStickyUserData, 0)(data or b"", 0)[0].generation
    except DecodeError:
        return NO_GENERATION


def _encode(data: Message, version: int) -> bytes:
    return encode_versioned(data, version)[_VERSION_BYTES:]
