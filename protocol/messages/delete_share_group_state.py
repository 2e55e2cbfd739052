"""DeleteShareGroupState, API key 86: a group coordinator deletes the states of partitions."""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, string, uuid


class DeleteShareGroupStateRequest(Message, key=86, versions="0", flexible="0+"):
    group_id: str = string("0+")
    topics: list[DeleteStateData] = array("0+")


class DeleteStateData(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionData] = array("0+")


class PartitionData(Struct):
    partition: int = int32("0+")


class DeleteShareGroupStateResponse(Message, request=DeleteShareGroupStateRequest):
    results: list[DeleteStateResult] = array("0+")


class DeleteStateResult(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionResult] = array("0+")


class PartitionResult(Struct):
    partition: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
