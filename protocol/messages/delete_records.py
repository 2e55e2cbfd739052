"""DeleteRecords, API key 21: everything below an offset goes, partition by partition.

Version 1 says the same as 0, 2 has tagged fields.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, int64, string


class DeleteRecordsRequest(Message, key=21, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopic] = array("0+")
    timeout_ms: int = int32("0+")


class DeleteRecordsTopic(Struct):
    name: str = string("0+")
    partitions: list[DeleteRecordsPartition] = array("0+")


class DeleteRecordsPartition(Struct):
    partition_index: int = int32("0+")
    offset: int = int64("0+")


class DeleteRecordsResponse(Message, request=DeleteRecordsRequest):
    throttle_time_ms: int = int32("0+")
    topics: list[DeleteRecordsTopicResult] = array("0+")


class DeleteRecordsTopicResult(Struct):
    name: str = string("0+")
    partitions: list[DeleteRecordsPartitionResult] = array("0+")


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = int32("0+")
    low_watermark: int = int64("0+")
    error_code: int = int16("0+")
