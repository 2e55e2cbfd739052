"""Transaction verification: may a transactional batch begin to write to a partition? (KIP-890)

The first batch of a transaction in a partition needs the word of the transaction coordinator: the partition must belong
to the open transaction. Clients of transaction version 2 (Produce 12, TxnOffsetCommit 5) add the partition with that
batch. Later batches need no verification. Errors are translated to those that the client's version knows, as in Kafka.

`transaction.partition.verification.enable=false` turns this off for older clients.

Where another broker of the cluster coordinates the transaction, it is asked over the wire. A marker that arrives before
its answer may have ended the transaction: then it is asked again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ....protocol.records.batch import BatchHeader
from ...configs.broker_config import BrokerConfig
from ...topics.partition import FIRST_IMPLICIT, Partition, VerifyTransaction
from ...topics.topic_names import OFFSETS_TOPIC
from ..interfaces import TopicPartition
from .coordinator import TransactionCoordinator

# From this Produce version on, clients know TRANSACTION_ABORTABLE.
_FIRST_ABORTABLE = 11
# The same for TxnOffsetCommit.
_FIRST_ABORTABLE_OFFSETS = 4
_FIRST_IMPLICIT_OFFSETS = 5
# A producer looks for partitions, not for coordinators: these errors would make it give up.
_COORDINATOR_ERRORS = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


class OffsetsLog(Protocol):
    """`__consumer_offsets`, to which TxnOffsetCommit writes."""

    def has_open_transaction(self, partition: int, producer_id: int, producer_epoch: int) -> bool: ...


# Asks the coordinator on another broker: (transactional id, producer id, producer epoch, partition, implicit).
AskRemotely = Callable[[str, int, int, TopicPartition, bool], Awaitable[ErrorCode]]
Result = TypeVar("Result")
# A marker for each answer would be a coordinator that ends transactions without a pause.
_ATTEMPTS = 5


class RemoteCoordinator(KafkaError):
    """A batch needs the word of a coordinator on another broker."""

    def __init__(self, transactional_id: str, header: BatchHeader) -> None:
        super().__init__(ErrorCode.NOT_COORDINATOR, f"another broker coordinates {transactional_id}")
        self.transactional_id = transactional_id
        self.header = header


class Verification:
    """Asks the transaction coordinator, on behalf of Produce and TxnOffsetCommit."""

    def __init__(
        self,
        config: BrokerConfig,
        transactions: TransactionCoordinator,
        offsets_log: OffsetsLog,
        ask_remotely: AskRemotely | None,
    ) -> None:
        """`ask_remotely` is None for a broker that is alone."""
        self._config = config
        self._transactions = transactions
        self._offsets_log = offsets_log
        self._ask_remotely = ask_remotely

    def _is_remote(self, transactional_id: str) -> bool:
        return self._ask_remotely is not None and (
            self._transactions.shards.check(transactional_id) is ErrorCode.NOT_COORDINATOR
        )

    def of_batches(self, transactional_id: str, version: int) -> VerifyTransaction:
        """Return the verification that a Produce request of this version makes in each partition."""

        def verify(partition: Partition, header: BatchHeader) -> None:
            if version < FIRST_IMPLICIT and not self._config.transaction_partition_verification_enable:
                return
            if self._is_remote(transactional_id):
                raise RemoteCoordinator(transactional_id, header)
            error = self._transactions.verify(
                transactional_id,
                header.producer_id,
                header.producer_epoch,
                partition.topic,
                partition.index,
                implicit=version >= FIRST_IMPLICIT,
            )
            if error is not ErrorCode.NONE:
                why = f"{transactional_id} (producer {header.producer_id}) may not write here: {error.name}"
                raise KafkaError(produce_error(error, version), why)

        return verify

    async def verify_remotely(
        self, remote: RemoteCoordinator, partition: Partition, version: int, append: Callable[[], Result]
    ) -> Result:
        """Ask the coordinator of a batch, and `append` it where it may be. Raises KafkaError."""
        header = remote.header
        who = remote.transactional_id, header.producer_id, header.producer_epoch
        asked = partial(self._ask, *who, partition, version >= FIRST_IMPLICIT)
        for _ in range(_ATTEMPTS):
            error, is_current = await asked()
            if error is not ErrorCode.NONE:
                why = f"{remote.transactional_id} (producer {header.producer_id}) may not write here: {error.name}"
                raise KafkaError(produce_error(error, version), why)
            if is_current:
                return append()
        why = f"the transactions of {remote.transactional_id} end too often to begin to write"
        raise KafkaError(produce_error(ErrorCode.CONCURRENT_TRANSACTIONS, version), why)

    async def _ask(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: Partition, implicit: bool
    ) -> tuple[ErrorCode, bool]:
        """Return the coordinator's error, and whether no marker has ended the producer's transaction meanwhile."""
        assert self._ask_remotely is not None
        place = TopicPartition(partition.topic, partition.index)
        with partition.marker_watch.watch(producer_id) as is_current:
            error = await self._ask_remotely(transactional_id, producer_id, producer_epoch, place, implicit)
            return error, is_current()

    def is_offset_commit_remote(self, request: TxnOffsetCommitRequest, index: int, version: int) -> bool:
        """Return whether another broker must be asked before a TxnOffsetCommit writes to its group's partition."""
        if version < _FIRST_IMPLICIT_OFFSETS and not self._config.transaction_partition_verification_enable:
            return False
        producer = request.producer_id, request.producer_epoch
        return self._is_remote(request.transactional_id) and not self._offsets_log.has_open_transaction(
            index, *producer
        )

    async def commit_with_remote(
        self,
        request: TxnOffsetCommitRequest,
        partition: Partition,
        version: int,
        commit: Callable[[Callable[[int], ErrorCode]], Awaitable[Result]],
    ) -> Result:
        """Ask the remote coordinator of a TxnOffsetCommit, then `commit` with a verification."""
        assert self._ask_remotely is not None
        producer_id, place = request.producer_id, TopicPartition(partition.topic, partition.index)
        who = request.transactional_id, producer_id, request.producer_epoch
        implicit, attempt = version >= _FIRST_IMPLICIT_OFFSETS, 0
        while True:
            attempt += 1
            with partition.marker_watch.watch(producer_id) as is_current:
                error = _offset_commit_error(await self._ask_remotely(*who, place, implicit), version)
                is_late = False

                def verify(_: int, error: ErrorCode = error, is_current: Callable[[], bool] = is_current) -> ErrorCode:
                    nonlocal is_late
                    is_late = is_late or not is_current()
                    return ErrorCode.CONCURRENT_TRANSACTIONS if error is ErrorCode.NONE and is_late else error

                response = await commit(verify)
            if not is_late or attempt == _ATTEMPTS:
                return response

    def of_offsets(self, request: TxnOffsetCommitRequest, version: int) -> Callable[[int], ErrorCode]:
        """Return the verification that a TxnOffsetCommit makes in its group's partition of `__consumer_offsets`."""

        def verify(index: int) -> ErrorCode:
            if version < _FIRST_IMPLICIT_OFFSETS and not self._config.transaction_partition_verification_enable:
                return ErrorCode.NONE
            producer_id, producer_epoch = request.producer_id, request.producer_epoch
            if self._offsets_log.has_open_transaction(index, producer_id, producer_epoch):
                return ErrorCode.NONE
            error = self._transactions.verify(
                request.transactional_id,
                producer_id,
                producer_epoch,
                OFFSETS_TOPIC,
                index,
                implicit=version >= _FIRST_IMPLICIT_OFFSETS,
            )
            return _offset_commit_error(error, version)

        return verify


def produce_error(error: ErrorCode, version: int) -> ErrorCode:
    """Return the coordinator's error as a Produce response of this version says it."""
    if error in _COORDINATOR_ERRORS or (error is ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_IMPLICIT):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return error


def _offset_commit_error(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_ABORTABLE_OFFSETS:
        return ErrorCode.INVALID_TXN_STATE
    return error
