"""The records of __share_group_state: the delivery states of share groups (KIP-932), types 0 and 1.

A snapshot is the whole state of a partition for a group, an update what changed since. Both have the same key but for
its type. A null value of type 0 deletes the state. The topic is not compacted: what is older than every key's last
snapshot is deleted.

Ours: `start_is_chosen`, a tag that Kafka steps over, says that an administrator has set the start offset.
"""

from __future__ import annotations

from ..schema import OWN_TAGS, Message, array, boolean, int32, int64, string, uuid
from .read_share_group_state import StateBatch


class ShareSnapshotKey(Message, key=0, versions="0"):
    group_id: str = string("0")
    topic_id: bytes = uuid("0")
    partition: int = int32("0")


class ShareSnapshotValue(Message, key=0, versions="0", flexible="0+"):
    snapshot_epoch: int = int32("0+")
    state_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("0+", default=-1, tag=0)
    create_timestamp: int = int64("0+")
    write_timestamp: int = int64("0+")
    state_batches: list[StateBatch] = array("0+")
    start_is_chosen: bool = boolean("0+", tag=OWN_TAGS, ignorable=True)


class ShareUpdateKey(Message, key=1, versions="0"):
    group_id: str = string("0")
    topic_id: bytes = uuid("0")
    partition: int = int32("0")


class ShareUpdateValue(Message, key=1, versions="0", flexible="0+"):
    snapshot_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("0+", default=-1, tag=0)
    state_batches: list[StateBatch] = array("0+")
