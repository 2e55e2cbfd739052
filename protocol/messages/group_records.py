"""The records of __consumer_offsets: who committed what, and what a group agreed on.

A key begins with its type as int16 (encode_key, decode_key), a value with its version as int16 (encode_versioned,
decode_versioned). A key without a value deletes.

Types: 0 and 1 are a committed offset, of which Kafka writes 1 and still reads 0 (Legacy...); 2 is a group of the
classic protocol. Higher ones are newer kinds of group and are not declared here.
"""

from __future__ import annotations

import struct
from typing import TypeAlias, cast

from ..codec import Buffer, decode, decode_versioned, encode, encode_versioned
from ..errors import TruncatedMessage
from ..schema import Message, Struct, array, binary, int32, int64, string, uuid

__all__ = [
    "GroupMetadataKey",
    "GroupMetadataValue",
    "Key",
    "LegacyOffsetCommitKey",
    "LegacyOffsetCommitValue",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "decode_key",
    "decode_versioned",
    "encode_key",
    "encode_versioned",
]


class OffsetCommitKey(Message, key=1, versions="0"):
    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


class OffsetCommitValue(Message, key=1, versions="0-4", flexible="4+"):
    offset: int = int64("0+")
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string("0+")
    commit_timestamp: int = int64("0+")
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: bytes = uuid("4+", ignorable=True, tag=0)


class GroupMetadataKey(Message, key=2, versions="0"):
    group: str = string("0")


class GroupMetadataValue(Message, key=2, versions="0-4", flexible="4+"):
    protocol_type: str = string("0+")
    generation: int = int32("0+")
    protocol: str | None = string("0+", nullable="0+")
    leader: str | None = string("0+", nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array("0+")


class MemberMetadata(Struct):
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32("0+")
    subscription: bytes = binary("0+")
    assignment: bytes = binary("0+")


class LegacyOffsetCommitKey(Message, key=0, versions="0"):
    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


class LegacyOffsetCommitValue(Message, key=0, versions="0"):
    offset: int = int64("0")
    metadata: str = string("0")
    commit_timestamp: int = int64("0")


Key: TypeAlias = LegacyOffsetCommitKey | OffsetCommitKey | GroupMetadataKey

_KEYS: dict[int, type[Key]] = {0: LegacyOffsetCommitKey, 1: OffsetCommitKey, 2: GroupMetadataKey}


def encode_key(key: Key) -> bytes:
    """Return a record's key: its type as int16, then the key at its only version. Raises EncodeError."""
    kind = key.__class__.KEY
    return struct.pack(">h", kind) + b"".join(cast("list[bytes]", encode(key, 0)))


def decode_key(buffer: Buffer) -> Key | None:
    """Return the key of a record, None for a type that is not declared here (newer groups). Raises DecodeError."""
    if len(buffer) < 2:
        raise TruncatedMessage("a coordinator's record key lacks the two bytes of its type")
    (kind,) = struct.unpack_from(">h", buffer)
    cls = _KEYS.get(kind)
    return None if cls is None else decode(cls, 0, buffer, 2)
