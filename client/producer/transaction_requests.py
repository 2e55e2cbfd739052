"""The requests of transactions, those of one producer and those of a query's many producers.

Of one producer: InitProducerId (key 22), AddPartitionsToTxn (24), AddOffsetsToTxn (25), EndTxn (26) and TxnOffsetCommit
(28), each sent once. TxnOffsetCommit goes to the group's coordinator, the others to that of the transactional id. An
error in a response is raised as KafkaError with its code. ConnectionLost and RequestTimedOut: no response came.

Batches of a query are transactions of many producers that commit together, by two requests that Odradek alone has.

    batches = QueryBatches(cluster, query_id, run_id)
    transactional_id = await batches.join(batch_id, task)         # each task; None: the batch was committed before
    ... the task writes in a transaction and hands it over ...
    await batches.end(batch_id, open_transactions, commit=True)   # the driver

A run is one start of the query. The first task of a new run fences the run before. When Spark repeats a stage, attempts
of a task begin to count again while older ones are alive: a task whose name has an open transaction gets another name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ...protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ...protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...protocol.messages.odradek_end_query_batch import (
    MAX_PARTICIPANTS,
    OdradekEndQueryBatchRequest,
    OdradekEndQueryBatchResponse,
    Participant,
)
from ...protocol.messages.odradek_join_query import OdradekJoinQueryRequest, OdradekJoinQueryResponse
from ...protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ...protocol.primitives import ZERO_UUID
from ...protocol.schema import Message
from ..core.cluster import Cluster
from ..core.connection import Connection
from ..core.coordinator import TRANSACTION, Coordinator
from ..core.leaders import rows_in
from ..errors import answered, only, results_of
from ..record import ConsumerGroupMetadata, by_topic
from .batch import NO_PRODUCER_ID, ProducerIdAndEpoch
from .transaction_machine import IMPLICIT, AddGroup, AddPartitions, CommitOffsets, End, Initialize

_LAST_STABLE_INITIALIZE = 5  # InitProducerId 6 is for two-phase commits (KIP-939)
_FIRST_EPOCH_INITIALIZE = 3  # InitProducerId 3 goes on from an epoch (KIP-360)
_LAST_CLIENT_ADD = 3  # AddPartitionsToTxn 4 is among brokers
_LAST_EXPLICIT_END = 4  # EndTxn 5 returns the next epoch
_LAST_EXPLICIT_COMMIT = 4  # TxnOffsetCommit 5 adds its group
_LAST_NAMED_COMMIT = 5  # TxnOffsetCommit 6 has the ids of topics
_FIRST_MEMBER_COMMIT = 3  # TxnOffsetCommit 3 names the member
_FEATURE = "transaction.version"
R = TypeVar("R", OdradekJoinQueryResponse, OdradekEndQueryBatchResponse)

# Attempts of one name in a batch that are alive or done: one for each time that Spark repeats the stage.
MAX_NAMESAKES = 10


class OpenTransaction(NamedTuple):
    """A transaction that its producer has handed over."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


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
        rows = results_of(answered(action.partitions, rows_in(response))).values()
        codes = [row.partition_error_code for row in rows]
        # Either all partitions are added or none: the others say OPERATION_NOT_ATTEMPTED.
        decisive = [code for code in codes if code not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)]
        self._coordinator.raise_error((decisive or [max(codes)])[0], "adding partitions to a transaction")

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
        topics = self._offset_topics(action)
        has_ids = all(topic.topic_id != ZERO_UUID for topic in topics)
        at_most = _LAST_EXPLICIT_COMMIT if version < IMPLICIT else None if has_ids else _LAST_NAMED_COMMIT
        wire_version = connection.version_for(TxnOffsetCommitRequest, at_most)
        request = TxnOffsetCommitRequest(self._transactional_id, group.group_id, *producer, topics=topics)
        if wire_version >= _FIRST_MEMBER_COMMIT:
            request.generation_id_or_member_epoch, request.member_id = group.generation_id, group.member_id
            request.group_instance_id = group.group_instance_id
        elif group.member_id:
            text = "the broker is too old to check the member that commits (TxnOffsetCommit 3): pass the group id alone"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        response = await coordinator.request_over(connection, request, TxnOffsetCommitResponse, version=wire_version)
        said = rows_in(response, {topic.topic_id: topic.name for topic in topics})
        for row in results_of(answered(action.offsets, said)).values():
            coordinator.raise_error(row.error_code, "committing offsets in a transaction")

    async def end(self, action: End, producer: ProducerIdAndEpoch, version: int) -> tuple[ProducerIdAndEpoch, int]:
        """End the transaction. Return the producer id and epoch of the next (none: the same), and the version."""
        connection = await self._coordinator.connection()
        at_most = None if version >= IMPLICIT else _LAST_EXPLICIT_END
        wire_version = connection.version_for(EndTxnRequest, at_most)
        request = EndTxnRequest(self._transactional_id, *producer, action.commit)
        response = await self._coordinator.request_over(connection, request, EndTxnResponse, version=wire_version)
        self._coordinator.raise_error(response.error_code, "committing" if action.commit else "aborting")
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch), _transaction_version(connection)

    def _offset_topics(self, action: CommitOffsets) -> list[TxnOffsetCommitRequestTopic]:
        rows = [
            (name, TxnOffsetCommitRequestPartition(number, offset, leader_epoch, metadata))
            for (name, number), (offset, metadata, leader_epoch) in action.offsets.items()
        ]
        ids = self._cluster.view.topic_id
        return [TxnOffsetCommitRequestTopic(name, ids(name), some) for name, some in by_topic(rows).items()]

    def _coordinator_of(self, group: ConsumerGroupMetadata) -> Coordinator:
        found = self._group_coordinator
        if found is None or found.key != group.group_id:
            found = self._group_coordinator = Coordinator(self._cluster, group.group_id)
        return found


def _transaction_version(connection: Connection) -> int:
    """Return 2 where the cluster has finalized version 2 (KIP-890), else 1."""
    return IMPLICIT if connection.features.get(_FEATURE, 0) >= IMPLICIT else 1


async def has_query_batches(cluster: Cluster) -> bool:
    """Return whether the brokers have these requests. Raises NoBrokerReachable."""
    return OdradekJoinQueryRequest.KEY in (await cluster.any_connection()).versions


class QueryBatches:
    """The batches of one run of a query."""

    def __init__(self, cluster: Cluster, query_id: str, run_id: str) -> None:
        self._cluster = cluster
        self._query_id = query_id
        self._run_id = run_id
        self._coordinator = Coordinator(cluster, query_id, TRANSACTION)

    async def join(self, batch_id: int, task: str) -> str | None:
        """Return the transactional id that a task has to use, None if the batch was committed before.

        Raises PRODUCER_FENCED for a run that another has taken the place of, INVALID_TXN_STATE for a batch that lies
        before the last one, UnsupportedVersion.
        """
        for number in range(MAX_NAMESAKES):
            transactional_id = await self._join(batch_id, f"{task}.{number}" if number else task)
            if transactional_id is None or not await self._is_open(transactional_id):
                return transactional_id
        why = f"batch {batch_id} of query {self._query_id!r}: {MAX_NAMESAKES} transactions of task {task} are open"
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{why}; the driver ends them when it ends the batch")

    async def _join(self, batch_id: int, task: str) -> str | None:
        request = OdradekJoinQueryRequest(self._query_id, self._run_id, batch_id, task)
        response = await self._request(request, OdradekJoinQueryResponse, f"joining batch {batch_id}")
        return None if response.is_done else response.transactional_id

    async def _is_open(self, transactional_id: str) -> bool:
        """Return whether a task of the same name has an open transaction, which the driver may want to commit."""
        request = DescribeTransactionsRequest([transactional_id])

        async def attempt() -> bool:
            response = await self._coordinator.request(request, DescribeTransactionsResponse)
            found = only(response.transaction_states, transactional_id)
            if ErrorCode.of(found.error_code) is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                self._coordinator.raise_error(found.error_code, f"describing {transactional_id}")
            return found.transaction_state == "Ongoing"

        return await self._cluster.retry(attempt)

    async def end(self, batch_id: int, transactions: Sequence[OpenTransaction], *, commit: bool) -> bool:
        """Commit these transactions together, or abort them. Return whether the batch was committed before.

        In that case they are aborted. Nothing is committed if one of them is not open any more. Raises as `join`, and
        INVALID_REQUEST for more than MAX_PARTICIPANTS to commit.
        """
        if commit and len(transactions) > MAX_PARTICIPANTS:
            why = f"{len(transactions)} tasks have written rows, and at most {MAX_PARTICIPANTS} commit together"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"batch {batch_id}: {why}: write fewer partitions (coalesce)")
        # An abort ends all that the run has left open, named or not.
        participants = [Participant(*each) for each in transactions[:MAX_PARTICIPANTS]]
        request = OdradekEndQueryBatchRequest(self._query_id, self._run_id, batch_id, commit, participants)
        response = await self._request(request, OdradekEndQueryBatchResponse, f"ending batch {batch_id}")
        return response.was_done

    async def wait_for_markers(self, transactions: Sequence[OpenTransaction]) -> None:
        """Wait until every partition has the markers of a committed batch: readers see all of it from then on.

        Raises KafkaError if that takes longer than `default_api_timeout_ms`. The batch stays committed.
        """
        request = DescribeTransactionsRequest([each.transactional_id for each in transactions])

        async def attempt() -> None:
            response = await self._coordinator.request(request, DescribeTransactionsResponse)
            said = {each.transactional_id: each for each in response.transaction_states}
            for each in results_of(answered(request.transactional_ids, said)).values():
                self._coordinator.raise_error(each.error_code, f"describing {each.transactional_id}")
                if each.transaction_state == "PrepareCommit":
                    why = f"the markers of {each.transactional_id} are being written"
                    raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, why)

        await self._cluster.retry(attempt)

    async def _request(self, request: Message, kind: type[R], operation: str) -> R:
        async def attempt() -> R:
            response = await self._coordinator.request(request, kind)
            if response.error_message:
                why = f"{operation} of query {self._query_id!r} failed: {response.error_message}"
                raise KafkaError(ErrorCode.of(response.error_code), why)
            self._coordinator.raise_error(response.error_code, operation)
            return response

        return await self._cluster.retry(attempt)
