"""ShareFetch, API key 78: a member of a share group acquires records, and acknowledges earlier ones (KIP-932).

ShareSessionEpoch 0 begins a session, -1 ends it. Acknowledge types: 0 gap, 1 accept, 2 release, 3 reject, 4 renew.

Versions: 1 replaces the early one of Kafka 4.0; 2 how records are counted (KIP-1206), and renewals (KIP-1222).
"""

from __future__ import annotations

from ..schema import Message, Records, Struct, array, batches, boolean, int8, int16, int32, int64, string, struct, uuid
from .share_acknowledge import AcknowledgementBatch, LeaderIdAndEpoch, NodeEndpoint


class ShareFetchRequest(Message, key=78, versions="1-2", flexible="0+"):
    group_id: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+")
    share_session_epoch: int = int32("0+")
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("0+", default=0x7FFFFFFF)
    max_records: int = int32("1+")
    batch_size: int = int32("1+")
    share_acquire_mode: int = int8("2+", default=0, ignorable=True)
    is_renew_ack: bool = boolean("2+", default=False)
    topics: list[FetchTopic] = array("0+")
    forgotten_topics_data: list[ForgottenTopic] = array("0+")


class FetchTopic(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[FetchPartition] = array("0+")


class FetchPartition(Struct):
    partition_index: int = int32("0+")
    acknowledgement_batches: list[AcknowledgementBatch] = array("0+")


class ForgottenTopic(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array("0+", of="int32")


class ShareFetchResponse(Message, request=ShareFetchRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("1+")
    responses: list[ShareFetchableTopicResponse] = array("0+")
    node_endpoints: list[NodeEndpoint] = array("0+")


class ShareFetchableTopicResponse(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionData] = array("0+")


class PartitionData(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    acknowledge_error_code: int = int16("0+")
    acknowledge_error_message: str | None = string("0+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = struct("0+")
    records: Records | None = batches("0+", nullable="0")
    acquired_records: list[AcquiredRecords] = array("0+")


class AcquiredRecords(Struct):
    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    delivery_count: int = int16("0+")
