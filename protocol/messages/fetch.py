"""Fetch, API key 1: batches from an offset on.

Versions: 1 throttle time; 2 allows message format 1; 3 a limit over all partitions, whose order counts from here on;
4 isolation level, last stable offset and aborted transactions, and batches of format 2; 5 log start offset; 7 fetch
sessions (KIP-227); 9 the leader epoch that the client knows; 10 allows zstd; 11 rack and preferred read replica;
12 flexible, and the epoch of the last fetched record; 13 topic ids in place of names; 14 tiered storage's error;
15 replica state in place of the replica id; 16 names the new leader of a partition that moved; 17 the follower's
directory; 18 the follower's high watermark. 0-3 are no longer in Kafka 4's files; they carry message sets.
"""

from __future__ import annotations

from ..schema import Message, Records, Struct, array, batches, int8, int16, int32, int64, string, struct, uuid


class FetchRequest(Message, key=1, versions="0-18", flexible="12+"):
    cluster_id: str | None = string("12+", nullable="12+", default=None, ignorable=True, tag=0)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState = struct("15+", tag=1)
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = int8("4+", ignorable=True)
    session_id: int = int32("7+", ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = array("0+")
    forgotten_topics_data: list[ForgottenTopic] = array("7+")
    rack_id: str = string("11+", ignorable=True)


class ReplicaState(Struct):
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchTopic(Struct):
    topic: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[FetchPartition] = array("0+")


class FetchPartition(Struct):
    partition: int = int32("0+")
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64("0+")
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32("0+")
    replica_directory_id: bytes = uuid("17+", ignorable=True, tag=0)
    high_watermark: int = int64("18+", default=9223372036854775807, ignorable=True, tag=1)


class ForgottenTopic(Struct):
    topic: str = string("7-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[int] = array("7+", of="int32")


class FetchResponse(Message, request=FetchRequest):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array("0+")
    node_endpoints: list[NodeEndpoint] = array("16+", tag=0)


class FetchableTopicResponse(Struct):
    topic: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[PartitionData] = array("0+")


class PartitionData(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    high_watermark: int = int64("0+")
    last_stable_offset: int = int64("4+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = struct("12+", tag=0)
    current_leader: LeaderIdAndEpoch = struct("12+", tag=1)
    snapshot_id: SnapshotId = struct("12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array("4+", nullable="4+", ignorable=True)
    preferred_read_replica: int = int32("11+", default=-1)
    records: Records | None = batches("0+", nullable="0+")


class EpochEndOffset(Struct):
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


class SnapshotId(Struct):
    end_offset: int = int64("0+", default=-1)
    epoch: int = int32("0+", default=-1)


class AbortedTransaction(Struct):
    producer_id: int = int64("4+")
    first_offset: int = int64("4+")


class NodeEndpoint(Struct):
    node_id: int = int32("16+")
    host: str = string("16+")
    port: int = int32("16+")
    rack: str | None = string("16+", nullable="16+", default=None)
