"""OffsetCommit and TxnOffsetCommit: the records of a request, and the response with an error for each partition."""

from __future__ import annotations

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


class Commit:
    """One OffsetCommit: its records, and its response.

    Partitions that do not exist and metadata that is too long get an error each. The group then accepts or rejects the
    rest as a whole.
    """

    def __init__(
        self,
        request: OffsetCommitRequest,
        version: int,
        topics: Topics,
        max_metadata_length: int,
        now_ms: int,
        producer_id: int = NO_PRODUCER,
    ) -> None:
        self.response = OffsetCommitResponse()
        self.records: list[Record] = []
        # Whether any partition is left for the group to decide on.
        self.asks_group = False
        self._request = request
        self._max_metadata_length = max_metadata_length
        self._now_ms = now_ms
        self._producer_id = producer_id
        # The partitions that the group decides on, each with its error if the group accepts the commit.
        self._open: list[tuple[OffsetCommitResponsePartition, ErrorCode]] = []
        for topic in request.topics:
            found = topics.by_id(topic.topic_id) if version >= TOPIC_ID_VERSION else topics.get(topic.name)
            self._take(topic, found, version)

    def answer(self, error: ErrorCode) -> OffsetCommitResponse:
        """Return the response, with the error of the group or the log for every partition that it decided on."""
        for partition, own_error in self._open:
            partition.error_code = own_error if error is ErrorCode.NONE else error
        return self.response

    def _take(self, topic: OffsetCommitRequestTopic, found: Topic | None, version: int) -> None:
        if found is not None and not topic.partitions:
            # Kafka leaves a topic without partitions out of the response.
            return
        answered = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        self.response.topics.append(answered)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= TOPIC_ID_VERSION else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in topic.partitions:
            result = OffsetCommitResponsePartition(partition.partition_index)
            answered.partitions.append(result)
            if found is None:
                result.error_code = unknown
            elif found.partition(partition.partition_index) is None:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                self._take_partition(found, partition, result)

    def _take_partition(
        self, topic: Topic, partition: OffsetCommitRequestPartition, result: OffsetCommitResponsePartition
    ) -> None:
        self.asks_group = True
        if metadata_length(partition.committed_metadata or "") > self._max_metadata_length:
            self._open.append((result, ErrorCode.OFFSET_METADATA_TOO_LARGE))
            return
        self._open.append((result, ErrorCode.NONE))
        value = self._value(topic, partition)
        index = partition.partition_index
        self.records.append(OffsetRecord(self._request.group_id, topic.name, index, value, self._producer_id))

    def _value(self, topic: Topic, partition: OffsetCommitRequestPartition) -> OffsetCommitValue:
        """Return the value of the record. Version 1 may date the commit, versions 2 to 4 may have a retention time."""
        committed_ms = self._now_ms if partition.commit_timestamp == NO_TIMESTAMP else partition.commit_timestamp
        retention_ms = self._request.retention_time_ms
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


def as_plain(request: TxnOffsetCommitRequest) -> OffsetCommitRequest:
    """Return a TxnOffsetCommit as an OffsetCommit, without the transaction."""
    topics = [
        OffsetCommitRequestTopic(
            topic.name,
            topic.topic_id,
            [
                OffsetCommitRequestPartition(
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    committed_metadata=each.committed_metadata,
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitRequest(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        topics=topics,
    )


def as_transactional(response: OffsetCommitResponse, version: int) -> TxnOffsetCommitResponse:
    """Return the response to the request that `as_plain` turned into an OffsetCommit."""
    answered = TxnOffsetCommitResponse()
    for topic in response.topics:
        results = [
            TxnOffsetCommitResponsePartition(each.partition_index, _understood(each.error_code, version))
            for each in topic.partitions
        ]
        answered.topics.append(TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, results))
    return answered


def _understood(error: int, version: int) -> int:
    """Return the error in the words of a version: older producers break on a coordinator that is loading."""
    code = ErrorCode.of(error)
    if version < LOADING_VERSION and code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if version < TRANSACTIONAL_ID_VERSION and code is ErrorCode.STALE_MEMBER_EPOCH:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def metadata_length(text: str) -> int:
    """Return the length in UTF-16 units, in which Kafka counts `offset.metadata.max.bytes`."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
