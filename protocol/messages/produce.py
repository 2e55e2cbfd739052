"""Produce, API key 0: batches to be appended.

Versions: 1 throttle time; 2 log append time; 3 transactional id, and batches of format 2 from here on; 4 may say
KAFKA_STORAGE_ERROR; 5 log start offset; 7 allows zstd; 8 says which records were refused and why; 9 flexible;
10 names the new leader of a partition that moved; 11 may say TRANSACTION_ABORTABLE; 12 adds the partition to its
transaction by itself; 13 topic ids in place of names. 0-2 are no longer in Kafka 4's files; they carry message sets.
"""

from __future__ import annotations

from ..schema import Message, Records, Struct, array, batches, int16, int32, int64, string, struct, uuid


class ProduceRequest(Message, key=0, versions="0-13", flexible="9+"):
    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16("0+")
    timeout_ms: int = int32("0+")
    topic_data: list[TopicProduceData] = array("0+")


class TopicProduceData(Struct):
    name: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = array("0+")


class PartitionProduceData(Struct):
    index: int = int32("0+")
    records: Records | None = batches("0+", nullable="0+")


class ProduceResponse(Message, request=ProduceRequest):
    responses: list[TopicProduceResponse] = array("0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = array("10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array("0+")


class PartitionProduceResponse(Struct):
    index: int = int32("0+")
    error_code: int = int16("0+")
    base_offset: int = int64("0+")
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array("8+", ignorable=True)
    error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = struct("10+", tag=0)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class NodeEndpoint(Struct):
    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", nullable="10+", default=None)
