"""The requests of transactions: InitProducerId (key 22), AddPartitionsToTxn (24), AddOffsetsToTxn (25), EndTxn (26) and
TxnOffsetCommit (28), each sent once.

TxnOffsetCommit goes to the group's coordinator, the others to that of the transactional id. An error in a response is
raised as KafkaError with its code. ConnectionLost and RequestTimedOut mean that no response came.
"""

from __future__ import annotations

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ....protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ....protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ....protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ....protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ...core.cluster import Cluster
from ...core.connection import Connection
from ...core.coordinator import TRANSACTION, Coordinator
from ...record import ConsumerGroupMetadata, by_topic
from ..batch import NO_PRODUCER_ID, ProducerIdAndEpoch
from .machine import IMPLICIT, AddGroup, AddPartitions, CommitOffsets, End, Initialize

_LAST_STABLE_INITIALIZE = 5  # InitProducerId 6 is for two-phase commits (KIP-939)
_FIRST_EPOCH_INITIALIZE = 3  # InitProducerId 3 goes on from an epoch (KIP-360)
_LAST_CLIENT_ADD = 3  # AddPartitionsToTxn 4 is among brokers
_LAST_EXPLICIT_END = 4  # EndTxn 5 returns the next epoch
_LAST_EXPLICIT_COMMIT = 4  # TxnOffsetCommit 5 adds its group
_FIRST_MEMBER_COMMIT = 3  # TxnOffsetCommit 3 names the member
_FEATURE = "transaction.version"


class TransactionRequests:
    """The coordinators of one transactional id and of the group whose offsets it commits."""

    def __init__(self, cluster: Cluster, transactional_id: str, transaction_timeout_ms: int) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._transaction_timeout_ms = transaction_timeout_ms
        self._coordinator = Coordinator(cluster, transactional_id, TRANSACTION)
        # That of the last group; a producer seldom has two.
        self._group_coordinator: Coordinator | None = None

    async def initialize(self, action: Initialize) -> tuple[ProducerIdAndEpoch, int]:
        """Return the producer id and epoch to go on with, and the cluster's transaction version."""
        connection = await self._coordinator.connection()
        version = connection.version_for(InitProducerIdRequest, _LAST_STABLE_INITIALIZE)
        if action.producer != NO_PRODUCER_ID and version < _FIRST_EPOCH_INITIALIZE:
            text = "sequences are lost, and the broker is too old to raise the epoch (InitProducerId 3)"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        request = InitProducerIdRequest(
            self._transactional_id, self._transaction_timeout_ms, action.producer.producer_id, action.producer.epoch
        )
        response = await self._coordinator.request_over(connection, request, InitProducerIdResponse, version=version)
        self._coordinator.raise_error(response.error_code, "initialization")
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch), _transaction_version(connection)

    async def add_partitions(self, action: AddPartitions, producer: ProducerIdAndEpoch) -> None:
        """Have the coordinator know that the transaction writes to these partitions."""
        topics = [AddPartitionsToTxnTopic(*each) for each in by_topic(action.partitions).items()]
        request = AddPartitionsToTxnRequest([], self._transactional_id, *producer, topics)
        connection = await self._coordinator.connection()
        version = connection.version_for(AddPartitionsToTxnRequest, _LAST_CLIENT_ADD)
        response = await self._coordinator.request_over(
            connection, request, AddPartitionsToTxnResponse, version=version
        )
        codes = [
            partition.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        ]
        # Either all partitions are added or none: the others say OPERATION_NOT_ATTEMPTED.
        decisive = [code for code in codes if code not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)]
        self._coordinator.raise_error((decisive or [max(codes, default=0)])[0], "adding partitions to a transaction")

    async def add_group(self, action: AddGroup, producer: ProducerIdAndEpoch) -> None:
        """Have the coordinator know that the transaction commits offsets of this group."""
        request = AddOffsetsToTxnRequest(self._transactional_id, *producer, action.group_id)
        response = await self._coordinator.request(request, AddOffsetsToTxnResponse)
        self._coordinator.raise_error(response.error_code, "adding a group to a transaction")

    async def commit_offsets(self, action: CommitOffsets, producer: ProducerIdAndEpoch, version: int) -> None:
        """Commit offsets as a part of the transaction."""
        group = action.group
        coordinator = self._coordinator_of(group)
        connection = await coordinator.connection()
        at_most = None if version >= IMPLICIT else _LAST_EXPLICIT_COMMIT
        wire_version = connection.version_for(TxnOffsetCommitRequest, at_most)
        request = TxnOffsetCommitRequest(
            self._transactional_id, group.group_id, *producer, topics=_offset_topics(action)
        )
        if wire_version >= _FIRST_MEMBER_COMMIT:
            request.generation_id, request.member_id = group.generation_id, group.member_id
            request.group_instance_id = group.group_instance_id
        elif group.member_id:
            text = "the broker is too old to check the member that commits (TxnOffsetCommit 3): pass the group id alone"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        response = await coordinator.request_over(connection, request, TxnOffsetCommitResponse, version=wire_version)
        for topic in response.topics:
            for partition in topic.partitions:
                coordinator.raise_error(partition.error_code, "committing offsets in a transaction")

    async def end(self, action: End, producer: ProducerIdAndEpoch, version: int) -> tuple[ProducerIdAndEpoch, int]:
        """End the transaction. Return the producer id and epoch of the next (none: the same), and the version."""
        connection = await self._coordinator.connection()
        at_most = None if version >= IMPLICIT else _LAST_EXPLICIT_END
        wire_version = connection.version_for(EndTxnRequest, at_most)
        request = EndTxnRequest(self._transactional_id, *producer, action.commit)
        response = await self._coordinator.request_over(connection, request, EndTxnResponse, version=wire_version)
        self._coordinator.raise_error(response.error_code, "committing" if action.commit else "aborting")
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch), _transaction_version(connection)

    def _coordinator_of(self, group: ConsumerGroupMetadata) -> Coordinator:
        found = self._group_coordinator
        if found is None or found.key != group.group_id:
            found = self._group_coordinator = Coordinator(self._cluster, group.group_id)
        return found


def _transaction_version(connection: Connection) -> int:
    """Return 2 where the cluster has finalized version 2 (KIP-890), else 1."""
    return IMPLICIT if connection.features.get(_FEATURE, 0) >= IMPLICIT else 1


def _offset_topics(action: CommitOffsets) -> list[TxnOffsetCommitRequestTopic]:
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (name, number), (offset, metadata, leader_epoch) in action.offsets.items():
        topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name))
        topic.partitions.append(TxnOffsetCommitRequestPartition(number, offset, leader_epoch, metadata))
    return list(topics.values())
