"""DescribeProducers, API key 61: the producers that a partition remembers, and their open transactions (KIP-664).

Version 0 is the only one.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, int64, string


class DescribeProducersRequest(Message, key=61, versions="0", flexible="0+"):
    topics: list[TopicRequest] = array("0+")


class TopicRequest(Struct):
    name: str = string("0+")
    partition_indexes: list[int] = array("0+", of="int32")


class DescribeProducersResponse(Message, request=DescribeProducersRequest):
    throttle_time_ms: int = int32("0+")
    topics: list[TopicResponse] = array("0+")


class TopicResponse(Struct):
    name: str = string("0+")
    partitions: list[PartitionResponse] = array("0+")


class PartitionResponse(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    active_producers: list[ProducerState] = array("0+")


class ProducerState(Struct):
    producer_id: int = int64("0+")
    producer_epoch: int = int32("0+")
    last_sequence: int = int32("0+", default=-1)
    last_timestamp: int = int64("0+", default=-1)
    coordinator_epoch: int = int32("0+")
    current_txn_start_offset: int = int64("0+", default=-1)
