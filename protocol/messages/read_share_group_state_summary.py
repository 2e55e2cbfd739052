"""ReadShareGroupStateSummary, API key 87: a group coordinator reads where a share group begins in partitions.

Versions: 1 the number of records that are delivered for good behind the start offset (KIP-1226).
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, int64, string, uuid
from .read_share_group_state import PartitionData


class ReadShareGroupStateSummaryRequest(Message, key=87, versions="0-1", flexible="0+"):
    group_id: str = string("0+")
    topics: list[ReadStateSummaryData] = array("0+")


class ReadStateSummaryData(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionData] = array("0+")


class ReadShareGroupStateSummaryResponse(Message, request=ReadShareGroupStateSummaryRequest):
    results: list[ReadStateSummaryResult] = array("0+")


class ReadStateSummaryResult(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionResult] = array("0+")


class PartitionResult(Struct):
    partition: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    state_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)
