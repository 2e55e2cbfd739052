"""The records of `__share_group_state`, in Kafka's own format.

A key is its type (int16: 0 a snapshot, 1 an update) and the group, topic id and partition. A value is its version
(int16) and the fields of that version, which is 0. A snapshot without a value deletes the state.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from ....protocol.codec import decode, decode_versioned, encode_versioned
from ....protocol.messages.share_state_records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from .share_state import ShareKey, StateBatch

SNAPSHOT_KEY, UPDATE_KEY = 0, 1
_VERSION = 0


class StateRecord(NamedTuple):
    """What is written of one state: all of it (a snapshot), what changed (an update), or None: it is deleted."""

    key: ShareKey
    value: ShareSnapshotValue | ShareUpdateValue | None
    # All batches of the state behind the record, where its step has made them. A load makes them itself.
    batches: Sequence[StateBatch] | None = None
    # Where a load has found it in the log.
    offset: int | None = None


def encode(record: StateRecord) -> tuple[bytes, bytes | None]:
    """Return key and value in bytes. Raise EncodeError if the group id is too long for the format."""
    if isinstance(record.value, ShareUpdateValue):
        kind, key = UPDATE_KEY, encode_versioned(ShareUpdateKey(*record.key), _VERSION)
    else:
        kind, key = SNAPSHOT_KEY, encode_versioned(ShareSnapshotKey(*record.key), _VERSION)
    value = None if record.value is None else encode_versioned(record.value, _VERSION)
    # The int16 of a key is its type, not a version: each type has one layout.
    return struct.pack(">h", kind) + key[2:], value


def decode_record(key: bytes, value: bytes | None) -> StateRecord | None:
    """Return the record, or None for an unknown type. Raise DecodeError if the bytes do not fit their type."""
    kind = int.from_bytes(key[:2], "big", signed=True)
    if kind not in (SNAPSHOT_KEY, UPDATE_KEY):
        return None
    found = decode(ShareSnapshotKey if kind == SNAPSHOT_KEY else ShareUpdateKey, _VERSION, key, 2)
    cls = ShareSnapshotValue if kind == SNAPSHOT_KEY else ShareUpdateValue
    content = None if value is None else decode_versioned(cls, value)
    return StateRecord(ShareKey(found.group_id, found.topic_id, found.partition), content)
