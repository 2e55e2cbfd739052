"""Whether a transactional batch may begin to write to a partition: the transaction coordinator's word (KIP-890).

A producer whose transaction is open in a partition writes on without a question. At its first batch there, the
coordinator of its transactional id is asked whether the partition belongs to the transaction that is open; for clients
of transactions version 2 (Produce 12, TxnOffsetCommit 5) it takes the partition in there and then. What it answers is
told in terms that the client's version knows, as Kafka's.

`transaction.partition.verification.enable=false` spares older clients the question: their batch begins what it says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ....protocol.records.batch import BatchHeader
from ...topics.partition import FIRST_IMPLICIT, Partition, VerifyTransaction
from ...topics.topic_names import OFFSETS_TOPIC

if TYPE_CHECKING:
    from ...server import Broker

# From this Produce version on clients know TRANSACTION_ABORTABLE.
_FIRST_ABORTABLE = 11
# The same of TxnOffsetCommit.
_FIRST_ABORTABLE_OFFSETS = 4
_FIRST_IMPLICIT_OFFSETS = 5
# What a producer that looks for partitions, not for coordinators, would give up on.
_OF_COORDINATORS = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


def admission(broker: Broker, transactional_id: str, version: int) -> VerifyTransaction:
    """What a Produce request of this version asks for each partition where its producer has no transaction open."""

    def admit(partition: Partition, header: BatchHeader) -> None:
        if version < FIRST_IMPLICIT and not broker.config.transaction_partition_verification_enable:
            return
        error = broker.transactions.admit(
            transactional_id,
            header.producer_id,
            header.producer_epoch,
            partition.topic,
            partition.index,
            implicit=version >= FIRST_IMPLICIT,
        )
        if error is not ErrorCode.NONE:
            why = f"{transactional_id} (producer {header.producer_id}) may not write here: {error.name}"
            raise KafkaError(told_to_producer(error, version), why)

    return admit


def told_to_producer(error: ErrorCode, version: int) -> ErrorCode:
    """The coordinator's word as a Produce response of this version says it."""
    if error in _OF_COORDINATORS or (error is ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_IMPLICIT):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return error


def offsets_admission(broker: Broker, request: TxnOffsetCommitRequest, version: int) -> Callable[[int], ErrorCode]:
    """What a TxnOffsetCommit of this version asks for the group's partition of `__consumer_offsets`."""

    def admit(index: int) -> ErrorCode:
        if version < _FIRST_IMPLICIT_OFFSETS and not broker.config.transaction_partition_verification_enable:
            return ErrorCode.NONE
        topic = broker.create_internal_topic(OFFSETS_TOPIC)
        partition = topic.partition(index)
        producer_id, producer_epoch = request.producer_id, request.producer_epoch
        if partition is not None and partition.log.producers.has_open_transaction(producer_id, producer_epoch):
            return ErrorCode.NONE
        error = broker.transactions.admit(
            request.transactional_id,
            producer_id,
            producer_epoch,
            OFFSETS_TOPIC,
            index,
            implicit=version >= _FIRST_IMPLICIT_OFFSETS,
        )
        return _told_to_committer(error, version)

    return admit


def _told_to_committer(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_ABORTABLE_OFFSETS:
        return ErrorCode.INVALID_TXN_STATE
    return error
