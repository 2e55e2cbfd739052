"""Transaction verification: may a transactional batch begin to write to a partition? (KIP-890)

The first batch of a transaction in a partition needs the word of the transaction coordinator: the partition must belong
to the open transaction. Clients of transaction version 2 (Produce 12, TxnOffsetCommit 5) add the partition with that
batch. Later batches need no verification. Errors are translated to those that the client's version knows, as in Kafka.

`transaction.partition.verification.enable=false` turns this off for older clients.

The word of the coordinator may come later: after its log has the partition, after the markers of the producer's last
transaction, or over the wire from another broker of the cluster. A marker that arrives before it may have ended the
transaction: then the coordinator is asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ....protocol.records.batch import BatchHeader
from ...configs.broker_config import BrokerConfig
from ...topics.partition import FIRST_IMPLICIT, Partition, VerifyTransaction
from ...topics.topic_names import OFFSETS_TOPIC
from ..calls import awaited
from ..interfaces import Question, TopicPartition

if TYPE_CHECKING:
    # The first Produce of a process does not wait for them.
    from ..coordinator_log import CoordinatorLog
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


# Asks the coordinator on another broker.
AskRemotely = Callable[[Question], Awaitable[ErrorCode]]
_NOTHING: frozenset[TopicPartition] = frozenset()
Result = TypeVar("Result")
# A marker for each answer would be a coordinator that ends transactions without a pause.
_ATTEMPTS = 5


class LateWord(KafkaError):
    """A batch needs the word of a coordinator, which does not come at once."""

    def __init__(self, transactional_id: str, header: BatchHeader, also: frozenset[TopicPartition] = _NOTHING) -> None:
        super().__init__(ErrorCode.CONCURRENT_TRANSACTIONS, f"the coordinator of {transactional_id} is asked")
        self.transactional_id = transactional_id
        self.header = header
        # The partitions that the same request writes to.
        self.also = also


class OffsetsVerification:
    """The verification that a TxnOffsetCommit makes in its group's partition, where the word comes at once."""

    def __init__(self, verify: Callable[[int], ErrorCode | None]) -> None:
        self._verify = verify
        # Whether it did not: then the commit was refused.
        self.is_late = False

    def __call__(self, index: int) -> ErrorCode:
        error = self._verify(index)
        self.is_late = error is None
        return ErrorCode.CONCURRENT_TRANSACTIONS if error is None else error


class Verification:
    """Asks the transaction coordinator, on behalf of Produce and TxnOffsetCommit."""

    def __init__(
        self,
        config: BrokerConfig,
        transactions: TransactionCoordinator,
        offsets_log: CoordinatorLog,
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

    def of_batches(
        self, transactional_id: str, version: int, places: Callable[[], frozenset[TopicPartition]]
    ) -> VerifyTransaction:
        """Return the verification that a Produce request of this version makes in each partition of `places`."""
        implicit = version >= FIRST_IMPLICIT
        also: frozenset[TopicPartition] | None = None

        def verify(partition: Partition, header: BatchHeader) -> None:
            if version < FIRST_IMPLICIT and not self._config.transaction_partition_verification_enable:
                return
            nonlocal also
            if also is None:
                also = places() if implicit else _NOTHING
            place, who = TopicPartition(partition.topic, partition.index), (header.producer_id, header.producer_epoch)
            error = self._word_now(Question(transactional_id, *who, place, implicit, also))
            if error is None:
                raise LateWord(transactional_id, header, also)
            _check(error, transactional_id, header, version)

        return verify

    def _word_now(self, asked: Question) -> ErrorCode | None:
        """Return the word of the coordinator, None if it comes later."""
        if self._is_remote(asked.transactional_id):
            return None
        word = self._transactions.verify(asked)
        return None if isinstance(word, asyncio.Future) else word

    async def _word(self, asked: Question) -> ErrorCode:
        """Return the word of the coordinator. One that does not wait for the last transaction is asked again."""
        loop, config = asyncio.get_running_loop(), self._config
        late_s = loop.time() + config.add_partitions_to_txn_retry_backoff_max_ms / 1000
        while True:
            if self._ask_remotely is not None and self._is_remote(asked.transactional_id):
                error = await self._ask_remotely(asked)
            else:
                error = await awaited(self._transactions.verify(asked))
            backoff_s = config.add_partitions_to_txn_retry_backoff_ms / 1000
            is_early = error is ErrorCode.CONCURRENT_TRANSACTIONS and asked.implicit
            if not is_early or loop.time() + backoff_s >= late_s:
                return error
            await asyncio.sleep(backoff_s)

    async def verify_later(
        self, late: LateWord, partition: Partition, version: int, append: Callable[[], Result]
    ) -> Result:
        """Await the word of the coordinator of a batch, and `append` it where it may be. Raises KafkaError."""
        header, place = late.header, TopicPartition(partition.topic, partition.index)
        who = late.transactional_id, header.producer_id, header.producer_epoch
        asked = Question(*who, place, version >= FIRST_IMPLICIT, late.also)
        for _ in range(_ATTEMPTS):
            # Whether no marker has ended the producer's transaction meanwhile.
            with partition.marker_watch.watch(header.producer_id) as is_current:
                error, is_current_still = await self._word(asked), is_current()
            _check(error, late.transactional_id, header, version)
            if is_current_still:
                return append()
        why = f"the transactions of {late.transactional_id} end too often to begin to write"
        raise KafkaError(produce_error(ErrorCode.CONCURRENT_TRANSACTIONS, version), why)

    async def commit_later(
        self,
        request: TxnOffsetCommitRequest,
        partition: Partition,
        version: int,
        commit: Callable[[Callable[[int], ErrorCode]], Awaitable[Result]],
    ) -> Result:
        """Await the word of the coordinator of a TxnOffsetCommit, then `commit` with a verification."""
        producer_id, place = request.producer_id, TopicPartition(partition.topic, partition.index)
        who = request.transactional_id, producer_id, request.producer_epoch
        asked, attempt = Question(*who, place, version >= _FIRST_IMPLICIT_OFFSETS), 0
        while True:
            attempt += 1
            with partition.marker_watch.watch(producer_id) as is_current:
                error = _known(await self._word(asked), version >= _FIRST_ABORTABLE_OFFSETS)
                is_late = False

                def verify(_: int, error: ErrorCode = error, is_current: Callable[[], bool] = is_current) -> ErrorCode:
                    nonlocal is_late
                    is_late = is_late or not is_current()
                    return ErrorCode.CONCURRENT_TRANSACTIONS if error is ErrorCode.NONE and is_late else error

                response = await commit(verify)
            if not is_late or attempt == _ATTEMPTS:
                return response

    def of_offsets(self, request: TxnOffsetCommitRequest, version: int) -> OffsetsVerification:
        """Return the verification that a TxnOffsetCommit makes in its group's partition of `__consumer_offsets`."""

        def verify(index: int) -> ErrorCode | None:
            if version < _FIRST_IMPLICIT_OFFSETS and not self._config.transaction_partition_verification_enable:
                return ErrorCode.NONE
            producer = request.producer_id, request.producer_epoch
            if self._offsets_log.has_open_transaction(index, *producer):
                return ErrorCode.NONE
            place, implicit = TopicPartition(OFFSETS_TOPIC, index), version >= _FIRST_IMPLICIT_OFFSETS
            error = self._word_now(Question(request.transactional_id, *producer, place, implicit))
            return None if error is None else _known(error, version >= _FIRST_ABORTABLE_OFFSETS)

        return OffsetsVerification(verify)


def produce_error(error: ErrorCode, version: int) -> ErrorCode:
    """Return the coordinator's error as a Produce response of this version says it."""
    if error in _COORDINATOR_ERRORS or (error is ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_IMPLICIT):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return _known(error, version >= _FIRST_ABORTABLE)


def _known(error: ErrorCode, knows_abortable: bool) -> ErrorCode:
    """Return an error in the words of those who write to partitions."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    is_new = error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable
    return ErrorCode.INVALID_TXN_STATE if is_new else error


def _check(error: ErrorCode, transactional_id: str, header: BatchHeader, version: int) -> None:
    if error is not ErrorCode.NONE:
        why = f"{transactional_id} (producer {header.producer_id}) may not write here: {error.name}"
        raise KafkaError(produce_error(error, version), why)
