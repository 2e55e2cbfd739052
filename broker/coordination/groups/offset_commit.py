"""OffsetCommit and TxnOffsetCommit: the records of a request, and the response with an error for each partition."""

from __future__ import annotations

from typing import Any

from ....protocol.errors import ErrorCode
from ....protocol.messages.group_records import OffsetCommitValue
from ....protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ....protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ...configs.definition import LONG_MAX
from ..interfaces import Topic, Topics
from .records import NO_PRODUCER, OffsetRecord, Record

# Since this version an OffsetCommit names topics by id.
TOPIC_ID_VERSION = 10
# Since this version producers understand COORDINATOR_LOAD_IN_PROGRESS in the response to a TxnOffsetCommit.
LOADING_VERSION = 2
# Since this version a TxnOffsetCommit names topics by id, and producers know the errors of both group protocols.
TRANSACTIONAL_ID_VERSION = 6
NO_RETENTION_TIME = -1
NO_TIMESTAMP = -1

Asked = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
# The response to each request, and the classes of a topic and a partition in it.
_RESPONSES: dict[type[Any], tuple[Any, Any, Any]] = {
    OffsetCommitRequest: (OffsetCommitResponse, OffsetCommitResponseTopic, OffsetCommitResponsePartition),
    TxnOffsetCommitRequest: (TxnOffsetCommitResponse, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition),
}


class Commit:
    """One OffsetCommit or TxnOffsetCommit: its records, and its response.

    Partitions that do not exist and metadata that is too long get an error each. The group then accepts or rejects the
    rest as a whole.
    """

    def __init__(
        self,
        request: OffsetCommitRequest | TxnOffsetCommitRequest,
        version: int,
        topics: Topics,
        max_metadata_length: int,
        now_ms: int,
    ) -> None:
        response, self._topic, self._partition = _RESPONSES[request.__class__]
        self.response: Any = response()
        self.records: list[Record] = []
        # Whether any partition is left for the group to decide on.
        self.asks_group = False
        self._group_id = request.group_id
        self._max_metadata_length = max_metadata_length
        self._now_ms = now_ms
        self._producer_id, self._retention_ms = NO_PRODUCER, NO_RETENTION_TIME
        if isinstance(request, TxnOffsetCommitRequest):
            has_ids = version >= TRANSACTIONAL_ID_VERSION
            self._producer_id = request.producer_id
        else:
            has_ids = version >= TOPIC_ID_VERSION
            self._retention_ms = request.retention_time_ms
        # The partitions that the group decides on, each with its error if the group accepts the commit.
        self._open: list[tuple[Any, ErrorCode]] = []
        for topic in request.topics:
            self._take(topic, topics.by_id(topic.topic_id) if has_ids else topics.get(topic.name), has_ids)

    def answer(self, error: ErrorCode) -> Any:
        """Return the response, with the error of the group or the log for every partition that it decided on."""
        for partition, own_error in self._open:
            partition.error_code = own_error if error is ErrorCode.NONE else error
        return self.response

    def _take(
        self, topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic, found: Topic | None, has_ids: bool
    ) -> None:
        if found is not None and not topic.partitions:
            # Kafka leaves a topic without partitions out of the response.
            return
        answered = self._topic(name=topic.name, topic_id=topic.topic_id)
        self.response.topics.append(answered)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if has_ids else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in topic.partitions:
            result = self._partition(partition.partition_index)
            answered.partitions.append(result)
            if found is None:
                result.error_code = unknown
            elif found.partition(partition.partition_index) is None:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                self._take_partition(found, partition, result)

    def _take_partition(self, topic: Topic, partition: Asked, result: Any) -> None:
        self.asks_group = True
        if metadata_length(partition.committed_metadata or "") > self._max_metadata_length:
            self._open.append((result, ErrorCode.OFFSET_METADATA_TOO_LARGE))
            return
        self._open.append((result, ErrorCode.NONE))
        value = self._value(topic, partition)
        index = partition.partition_index
        self.records.append(OffsetRecord(self._group_id, topic.name, index, value, self._producer_id))

    def _value(self, topic: Topic, partition: Asked) -> OffsetCommitValue:
        """Return the value of the record.

        Version 1 of OffsetCommit may date the commit, versions 2 to 4 may have a retention time.
        """
        committed_ms, retention_ms = self._now_ms, self._retention_ms
        if isinstance(partition, OffsetCommitRequestPartition) and partition.commit_timestamp != NO_TIMESTAMP:
            committed_ms = partition.commit_timestamp
        return OffsetCommitValue(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            commit_timestamp=committed_ms,
            expire_timestamp=-1 if retention_ms == NO_RETENTION_TIME else _within(committed_ms + retention_ms),
            topic_id=topic.id,
        )


def _within(time_ms: int) -> int:
    """Return a time as a record can have it: a client may mean for ever."""
    return min(max(time_ms, 0), LONG_MAX)


def understood(error: ErrorCode, version: int) -> ErrorCode:
    """Return the error in the words of a TxnOffsetCommit: older producers break on a coordinator that is loading."""
    if version < LOADING_VERSION and error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if version < TRANSACTIONAL_ID_VERSION and error is ErrorCode.STALE_MEMBER_EPOCH:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def metadata_length(text: str) -> int:
    """Return the length in UTF-16 units, in which Kafka counts `offset.metadata.max.bytes`."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
