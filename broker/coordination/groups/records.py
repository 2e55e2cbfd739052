"""The records of `__consumer_offsets`, in Kafka's own format.

A key is its type and the fields of that type: int16, 1 an offset, 2 a classic group, 3 to 8 and 16 the parts of a
consumer group, 10 to 15 those of a share group. Type 0 is an offset that an old Kafka wrote; its key has the layout of
type 1. A value is its version (int16) and the fields of that version. A null value is a tombstone.

The broker writes what Kafka 4.3.1 writes: GroupMetadataValue at version 3, and OffsetCommitValue at version 4. A commit
with a retention time of its own is written at version 1, because only that version has the field.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple, TypeAlias

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


ConsumerKey: TypeAlias = (
    consumer.ConsumerGroupMetadataKey
    | consumer.ConsumerGroupPartitionMetadataKey
    | consumer.ConsumerGroupMemberMetadataKey
    | consumer.ConsumerGroupTargetAssignmentMetadataKey
    | consumer.ConsumerGroupTargetAssignmentMemberKey
    | consumer.ConsumerGroupCurrentMemberAssignmentKey
    | consumer.ConsumerGroupRegularExpressionKey
)


class ConsumerRecord(NamedTuple):
    """A part of a consumer group. The value is of the class that belongs to the key; None deletes the part."""

    key: ConsumerKey
    value: Any

    @property
    def group_id(self) -> str:
        """The group."""
        return self.key.group_id


ShareKey: TypeAlias = (
    share.ShareGroupMemberMetadataKey
    | share.ShareGroupMetadataKey
    | share.ShareGroupTargetAssignmentMetadataKey
    | share.ShareGroupTargetAssignmentMemberKey
    | share.ShareGroupCurrentMemberAssignmentKey
    | share.ShareGroupStatePartitionMetadataKey
)


class ShareRecord(NamedTuple):
    """A part of a share group. The value is of the class that belongs to the key; None deletes the part."""

    key: ShareKey
    value: Any

    @property
    def group_id(self) -> str:
        """The group."""
        return self.key.group_id


Record = GroupRecord | OffsetRecord | ClassicEnded | ConsumerRecord | ShareRecord

_CONSUMER_KEYS: dict[int, type[ConsumerKey]] = {
    3: consumer.ConsumerGroupMetadataKey,
    4: consumer.ConsumerGroupPartitionMetadataKey,
    5: consumer.ConsumerGroupMemberMetadataKey,
    6: consumer.ConsumerGroupTargetAssignmentMetadataKey,
    7: consumer.ConsumerGroupTargetAssignmentMemberKey,
    8: consumer.ConsumerGroupCurrentMemberAssignmentKey,
    16: consumer.ConsumerGroupRegularExpressionKey,
}
# Type 4 has no value here: only its tombstone is written, and what old records of it say is not needed.
_CONSUMER_VALUES: dict[int, Any] = {
    3: consumer.ConsumerGroupMetadataValue,
    5: consumer.ConsumerGroupMemberMetadataValue,
    6: consumer.ConsumerGroupTargetAssignmentMetadataValue,
    7: consumer.ConsumerGroupTargetAssignmentMemberValue,
    8: consumer.ConsumerGroupCurrentMemberAssignmentValue,
    16: consumer.ConsumerGroupRegularExpressionValue,
}

_SHARE_KEYS: dict[int, type[ShareKey]] = {
    10: share.ShareGroupMemberMetadataKey,
    11: share.ShareGroupMetadataKey,
    12: share.ShareGroupTargetAssignmentMetadataKey,
    13: share.ShareGroupTargetAssignmentMemberKey,
    14: share.ShareGroupCurrentMemberAssignmentKey,
    15: share.ShareGroupStatePartitionMetadataKey,
}
_SHARE_VALUES: dict[int, Any] = {
    10: share.ShareGroupMemberMetadataValue,
    11: share.ShareGroupMetadataValue,
    12: share.ShareGroupTargetAssignmentMetadataValue,
    13: share.ShareGroupTargetAssignmentMemberValue,
    14: share.ShareGroupCurrentMemberAssignmentValue,
    15: share.ShareGroupStatePartitionMetadataValue,
}


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """Return key and value in bytes. Raise EncodeError if a name is too long for the format."""
    if isinstance(record, GroupRecord):
        return group_key(record.group_id), _value(record.value, GROUP_VALUE_VERSION)
    if isinstance(record, ConsumerRecord | ShareRecord):
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
    if kind in _CONSUMER_KEYS:
        found = decode(_CONSUMER_KEYS[kind], _KEY_LAYOUT_VERSION, key, 2)
        cls = _CONSUMER_VALUES.get(kind)
        return ConsumerRecord(found, value if value is None or cls is None else decode_versioned(cls, value))
    if kind in _SHARE_KEYS:
        part = decode(_SHARE_KEYS[kind], _KEY_LAYOUT_VERSION, key, 2)
        return ShareRecord(part, None if value is None else decode_versioned(_SHARE_VALUES[kind], value))
    return None


def _key(kind: int, key: OffsetCommitKey | GroupMetadataKey | ConsumerKey | ShareKey) -> bytes:
    return struct.pack(">h", kind) + encode_versioned(key, _KEY_LAYOUT_VERSION)[2:]


def _value(value: Any, version: int) -> bytes | None:
    return None if value is None else encode_versioned(value, version)
