"""The records of `__consumer_offsets`, in Kafka's own format.

A key is its type and the fields of that type: int16, 1 an offset, 2 a classic group, 3 to 8 and 16 the parts of a
consumer group, 10 to 15 those of a share group. Type 0 is an offset that an old Kafka wrote; its key has the layout of
type 1. A value is its version (int16) and the fields of that version. A null value is a tombstone.

The broker writes what Kafka 4.4.0 writes: GroupMetadataValue at version 3, and OffsetCommitValue at version 4. A commit
with a retention time of its own is written at version 1, because only that version has the field.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from ....protocol.codec import decode, decode_versioned, encode_versioned
from ....protocol.messages import consumer_group_records as consumer
from ....protocol.messages import share_group_records as share
from ....protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)

LEGACY_OFFSET_KEY = 0
OFFSET_KEY = 1
GROUP_KEY = 2
GROUP_VALUE_VERSION = 3
OFFSET_VALUE_VERSION = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1

NO_PRODUCER = -1

# The int16 of a key is its type, not a version: each type has one layout.
_KEY_LAYOUT_VERSION = 0


class GroupRecord(NamedTuple):
    """A generation of a group. The value None deletes the group."""

    group_id: str
    value: GroupMetadataValue | None


class OffsetRecord(NamedTuple):
    """A committed offset. The value None deletes it. An offset in a producer's transaction is pending at first."""

    group_id: str
    topic: str
    partition: int
    value: OffsetCommitValue | None
    # The producer id of the batch. Key and value do not have it.
    producer_id: int = NO_PRODUCER


class ClassicEnded(NamedTuple):
    """The tombstone of a classic group that becomes a consumer group, and keeps its offsets."""

    group_id: str


class PartRecord(NamedTuple):
    """A part of a consumer or share group. The value is of the class that belongs to the key; None deletes the part."""

    key: Any
    value: Any

    @property
    def group_id(self) -> str:
        """The group."""
        return self.key.group_id

    @property
    def is_share(self) -> bool:
        """Whether this is a part of a share group, not of a consumer group."""
        return self.key.KEY in _SHARE


Record = GroupRecord | OffsetRecord | ClassicEnded | PartRecord

# The classes of keys and values, by the type of the key.
_CONSUMER: dict[int, tuple[Any, Any]] = {
    3: (consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue),
    # Only the tombstone of type 4 is written, and what old records of it say is not needed.
    4: (consumer.ConsumerGroupPartitionMetadataKey, None),
    5: (consumer.ConsumerGroupMemberMetadataKey, consumer.ConsumerGroupMemberMetadataValue),
    6: (consumer.ConsumerGroupTargetAssignmentMetadataKey, consumer.ConsumerGroupTargetAssignmentMetadataValue),
    7: (consumer.ConsumerGroupTargetAssignmentMemberKey, consumer.ConsumerGroupTargetAssignmentMemberValue),
    8: (consumer.ConsumerGroupCurrentMemberAssignmentKey, consumer.ConsumerGroupCurrentMemberAssignmentValue),
    16: (consumer.ConsumerGroupRegularExpressionKey, consumer.ConsumerGroupRegularExpressionValue),
}
_SHARE: dict[int, tuple[Any, Any]] = {
    10: (share.ShareGroupMemberMetadataKey, share.ShareGroupMemberMetadataValue),
    11: (share.ShareGroupMetadataKey, share.ShareGroupMetadataValue),
    12: (share.ShareGroupTargetAssignmentMetadataKey, share.ShareGroupTargetAssignmentMetadataValue),
    13: (share.ShareGroupTargetAssignmentMemberKey, share.ShareGroupTargetAssignmentMemberValue),
    14: (share.ShareGroupCurrentMemberAssignmentKey, share.ShareGroupCurrentMemberAssignmentValue),
    15: (share.ShareGroupStatePartitionMetadataKey, share.ShareGroupStatePartitionMetadataValue),
}
_PARTS = _CONSUMER | _SHARE


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """Return key and value in bytes. Raise EncodeError if a name is too long for the format."""
    if isinstance(record, GroupRecord):
        return group_key(record.group_id), _value(record.value, GROUP_VALUE_VERSION)
    if isinstance(record, PartRecord):
        return _key(record.key.KEY or 0, record.key), _value(record.value, _KEY_LAYOUT_VERSION)
    if isinstance(record, ClassicEnded):
        return group_key(record.group_id), None
    key = _key(OFFSET_KEY, OffsetCommitKey(record.group_id, record.topic, record.partition))
    expires = record.value is not None and record.value.expire_timestamp != -1
    return key, _value(record.value, OFFSET_VALUE_VERSION_WITH_EXPIRY if expires else OFFSET_VALUE_VERSION)


def group_key(group_id: str) -> bytes:
    """Return the key of a group's generations, in bytes."""
    return _key(GROUP_KEY, GroupMetadataKey(group_id))


def decode_record(key: bytes, value: bytes | None) -> Record | None:
    """Return the record, or None for a type that belongs to another kind of group.

    Raise DecodeError if the bytes do not fit their type.
    """
    kind = int.from_bytes(key[:2], "big", signed=True)
    if kind == GROUP_KEY:
        group = decode(GroupMetadataKey, _KEY_LAYOUT_VERSION, key, 2).group
        return GroupRecord(group, None if value is None else decode_versioned(GroupMetadataValue, value))
    if kind in (OFFSET_KEY, LEGACY_OFFSET_KEY):
        cls = OffsetCommitKey if kind == OFFSET_KEY else LegacyOffsetCommitKey
        found = decode(cls, _KEY_LAYOUT_VERSION, key, 2)
        committed = None if value is None else decode_versioned(OffsetCommitValue, value)
        return OffsetRecord(found.group, found.topic, found.partition, committed)
    if kind in _PARTS:
        key_class, value_class = _PARTS[kind]
        part = decode(key_class, _KEY_LAYOUT_VERSION, key, 2)
        return PartRecord(part, value if value is None or value_class is None else decode_versioned(value_class, value))
    return None


def _key(kind: int, key: Any) -> bytes:
    return struct.pack(">h", kind) + encode_versioned(key, _KEY_LAYOUT_VERSION)[2:]


def _value(value: Any, version: int) -> bytes | None:
    return None if value is None else encode_versioned(value, version)
