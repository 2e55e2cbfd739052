"""ShareAcknowledge, API key 79: a member of a share group says what became of records that it holds (KIP-932).

The session and the acknowledge types are those of ShareFetch.

Versions: 1 replaces the early one of Kafka 4.0; 2 renewals, and how long a lock lasts (KIP-1222).
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int16, int32, int64, string, struct, uuid


class ShareAcknowledgeRequest(Message, key=79, versions="1-2", flexible="0+"):
    group_id: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+")
    share_session_epoch: int = int32("0+")
    is_renew_ack: bool = boolean("2+", default=False)
    topics: list[AcknowledgeTopic] = array("0+")


class AcknowledgeTopic(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[AcknowledgePartition] = array("0+")


class AcknowledgePartition(Struct):
    partition_index: int = int32("0+")
    acknowledgement_batches: list[AcknowledgementBatch] = array("0+")


class AcknowledgementBatch(Struct):
    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    acknowledge_types: list[int] = array("0+", of="int8")


class ShareAcknowledgeResponse(Message, request=ShareAcknowledgeRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = array("0+")
    node_endpoints: list[NodeEndpoint] = array("0+")


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionData] = array("0+")


class PartitionData(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = struct("0+")


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


class NodeEndpoint(Struct):
    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", nullable="0+", default=None)
