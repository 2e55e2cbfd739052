"""WriteShareGroupState, API key 85: the leader of a partition writes what a share group has done with its records.

Versions: 1 the number of records that are delivered for good behind the start offset (KIP-1226).
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int32, int64, string, uuid
from .delete_share_group_state import PartitionResult
from .read_share_group_state import StateBatch


class WriteShareGroupStateRequest(Message, key=85, versions="0-1", flexible="0+"):
    group_id: str = string("0+")
    topics: list[WriteStateData] = array("0+")


class WriteStateData(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionData] = array("0+")


class PartitionData(Struct):
    partition: int = int32("0+")
    state_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)
    state_batches: list[StateBatch] = array("0+")


class WriteShareGroupStateResponse(Message, request=WriteShareGroupStateRequest):
    results: list[WriteStateResult] = array("0+")


class WriteStateResult(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionResult] = array("0+")
