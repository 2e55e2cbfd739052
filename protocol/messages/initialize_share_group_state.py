"""InitializeShareGroupState, API key 83: a group coordinator begins the states of partitions, or begins them again."""

from __future__ import annotations

from ..schema import Message, Struct, array, int32, int64, string, uuid
from .delete_share_group_state import PartitionResult


class InitializeShareGroupStateRequest(Message, key=83, versions="0", flexible="0+"):
    group_id: str = string("0+")
    topics: list[InitializeStateData] = array("0+")


class InitializeStateData(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionData] = array("0+")


class PartitionData(Struct):
    partition: int = int32("0+")
    state_epoch: int = int32("0+")
    start_offset: int = int64("0+")


class InitializeShareGroupStateResponse(Message, request=InitializeShareGroupStateRequest):
    results: list[InitializeStateResult] = array("0+")


class InitializeStateResult(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionResult] = array("0+")
