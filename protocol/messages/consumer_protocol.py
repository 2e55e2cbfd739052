"""The messages of consumers to each other through the group: opaque to the broker, bytes in JoinGroup and SyncGroup.

Both begin with their version as int16 (encode_versioned, decode_versioned).
Versions: 1 adds the partitions that a member owns, 2 the generation it owned them in, 3 its rack.
A newer version only ever adds fields at the end: it is read as the newest that is declared, the rest left alone.
"""

from __future__ import annotations

import struct
from typing import TypeVar

from ..codec import Buffer, decoder, encode_versioned
from ..decoding import NO_LIMIT
from ..errors import TruncatedMessage, UnknownVersion
from ..schema import Message, Struct, array, binary, int32, string

__all__ = [
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "TopicPartition",
    "decode_versioned",
    "encode_versioned",
]

M = TypeVar("M", bound=Message)


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: list[str] = array("0+", of="string")
    user_data: bytes | None = binary("0+", nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array("1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class TopicPartition(Struct):
    topic: str = string("0+")
    partitions: list[int] = array("0+", of="int32")


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: list[TopicPartition] = array("0+")
    user_data: bytes | None = binary("0+", nullable="0+", default=None)


def decode_versioned(cls: type[M], buffer: Buffer, max_values: int = NO_LIMIT) -> M:
    """Return the subscription or assignment behind its version. Ignores bytes after it.

    Raises DecodeError, also for one of more than `max_values` topics and partitions.
    """
    if len(buffer) < 2:
        raise TruncatedMessage(f"{cls.__name__} lacks the two bytes of its version")
    (version,) = struct.unpack_from(">h", buffer)
    if version < 0:
        raise UnknownVersion(f"{cls.__name__} has no version {version}")
    message, _ = decoder(cls, min(version, cls.VERSIONS[-1]))(buffer, 2, max_values)
    return message
