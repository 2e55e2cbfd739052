"""ReadShareGroupState, API key 84: the leader of a partition reads what a share group has done with it."""

from __future__ import annotations

from ..schema import OWN_TAGS, Message, Struct, array, boolean, int8, int16, int32, int64, string, uuid


class ReadShareGroupStateRequest(Message, key=84, versions="0", flexible="0+"):
    group_id: str = string("0+")
    topics: list[ReadStateData] = array("0+")


class ReadStateData(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionData] = array("0+")


class PartitionData(Struct):
    partition: int = int32("0+")
    leader_epoch: int = int32("0+")


class ReadShareGroupStateResponse(Message, request=ReadShareGroupStateRequest):
    results: list[ReadStateResult] = array("0+")


class ReadStateResult(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionResult] = array("0+")


class PartitionResult(Struct):
    partition: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    state_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    state_batches: list[StateBatch] = array("0+")
    start_is_chosen: bool = boolean("0+", tag=OWN_TAGS, ignorable=True)


class StateBatch(Struct):
    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    delivery_state: int = int8("0+")
    delivery_count: int = int16("0+")
