"""The coordinator of transactions: which transactional id lives where, whether it is loaded, and who asks for it.

An id belongs to a partition of `__transaction_state`, by the same hash as a group to its own. Partitions that this
broker owns are `owned`, those that it is still reading are `loading`; `ids` is the cache of all ids of the owned ones.
Each id has an actor (actor.py) around its machine.

Every request answers with a response where it is known at once, else with a future of one. Loading reads the last
record of each id, and goes on with each transaction whose end was decided.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from ....protocol.errors import DecodeError, ErrorCode, KafkaError
from ....protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ....protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
)
from ....protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ....protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ....protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ....protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ..calls import Call, Clock, TimerHandle, Timers
from ..groups.partitions import partition_for
from . import describing, patterns, records, requests
from .actor import TransactionActor, TransactionsLog, World, WriteMarker
from .events import (
    AddPartitions,
    Answer,
    EndTransaction,
    Event,
    Expire,
    Initialize,
    Loaded,
    LookForTimeout,
    Producer,
    Verified,
    VerifyPartitions,
)
from .machine import Transaction, TransactionLimits
from .records import NO_EPOCH, NO_ID
from .states import TransactionState

OFFSETS_TOPIC = "__consumer_offsets"
MAX_ID_BYTES = 2**15 - 1
"""What a record's key can hold, though newer requests can say more."""

_log = logging.getLogger(__name__)


class TransactionsConfig(Protocol):
    """What the coordinator needs of the broker's configuration."""

    @property
    def transaction_max_timeout_ms(self) -> int: ...
    @property
    def transactional_id_expiration_ms(self) -> int: ...
    @property
    def transaction_abort_timed_out_transaction_cleanup_interval_ms(self) -> int: ...
    @property
    def transaction_remove_expired_transaction_cleanup_interval_ms(self) -> int: ...


class Context(Protocol):
    """Who asks."""

    @property
    def api_version(self) -> int: ...


class Groups(Protocol):
    """Where groups keep their offsets."""

    def partition_count(self) -> int: ...


class TransactionCoordinator:
    """The transactional ids of one broker. `start` reads them all, `stop` sends everyone on who waits."""

    def __init__(
        self,
        config: TransactionsConfig,
        log: TransactionsLog,
        timers: Timers,
        clock: Clock,
        topics: requests.Topics,
        groups: Groups,
        new_producer_id: Callable[[], int],
        write_marker: WriteMarker,
        logger: logging.Logger = _log,
    ) -> None:
        self._config = config
        self._log = log
        self._clock = clock
        self._topics = topics
        self._groups = groups
        self._logger = logger
        self._limits = TransactionLimits(new_producer_id)
        self._world = World(log, timers, clock, write_marker, logger.info, self._forget)
        self.ids: dict[str, TransactionActor] = {}
        """Invariant: only ids of `owned` partitions."""
        self.owned: set[int] = set()
        self.loading: set[int] = set()
        self._sweeps: dict[str, TimerHandle] = {}

    # Start and stop.

    def start(self) -> None:
        """Reads every partition. Until its partition is read an id is COORDINATOR_LOAD_IN_PROGRESS."""
        partitions = range(self._log.partition_count())
        self.loading.update(partitions)
        for partition in partitions:
            self.load(partition)
        self._arm_timeouts()
        self._arm_expiry()

    def stop(self) -> None:
        """Idempotent. Parked requests are answered NOT_COORDINATOR, so that producers look for theirs elsewhere."""
        for sweep in self._sweeps.values():
            sweep.cancel()
        self._sweeps.clear()
        for partition in list(self.owned):
            self.unload(partition)
        self.loading.clear()

    def load(self, partition: int) -> None:
        """Takes a partition over: reads its records, restores its ids, and ends what was ending."""
        self.loading.add(partition)
        last: dict[bytes, bytes | None] = {}
        try:
            for key, value in self._log.replay(partition):
                last[key] = value
        except KafkaError as error:
            # Its ids are refused (NOT_COORDINATOR): nobody knows what was decided.
            self._logger.error("transactional ids of partition %d are not served: %s", partition, error.message)
            self.loading.discard(partition)
            return
        restored = [actor for key, value in last.items() if (actor := self._restore(key, value, partition))]
        self.ids.update({actor.transaction.transactional_id: actor for actor in restored})
        self.loading.discard(partition)
        self.owned.add(partition)
        for actor in restored:
            actor.feed(Loaded())

    def unload(self, partition: int) -> None:
        """Lets a partition go, with its ids."""
        self.owned.discard(partition)
        for transactional_id in [name for name, actor in self.ids.items() if actor.partition == partition]:
            self.ids.pop(transactional_id).close()

    def set_version(self, transaction_version: int) -> None:
        """The level of the feature `transaction.version`: under which epoch what is open is aborted from here on."""
        self._limits = self._limits._replace(transaction_version=transaction_version)
        for actor in self.ids.values():
            actor.transaction.limits = self._limits

    # A producer's requests.

    def initialize(
        self, context: Context, request: InitProducerIdRequest
    ) -> InitProducerIdResponse | asyncio.Future[InitProducerIdResponse]:
        """InitProducerId with a transactional id. The first one makes the id known."""
        respond = requests.init_response(context.api_version)
        transactional_id = request.transactional_id or ""
        error = self._check_initialize(request) or self._admission(transactional_id)
        if error is not ErrorCode.NONE:
            return respond(Producer(error))
        actor = self.ids.get(transactional_id) or self._new_actor(transactional_id)
        call = Call(respond)
        actor.feed(Initialize(call, request.transaction_timeout_ms, request.producer_id, request.producer_epoch))
        return call.result()

    def add_partitions(
        self, context: Context, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse | asyncio.Future[AddPartitionsToTxnResponse]:
        """AddPartitionsToTxn."""
        version = context.api_version
        asked = requests.asked_of(request, version)
        return requests.added_response([self._add(each, version) for each in asked], version)

    def add_offsets(
        self, context: Context, request: AddOffsetsToTxnRequest
    ) -> AddOffsetsToTxnResponse | asyncio.Future[AddOffsetsToTxnResponse]:
        """AddOffsetsToTxn: the group's partition of `__consumer_offsets` comes into the transaction."""
        respond = requests.offsets_response(context.api_version)
        error = self._absent(request.transactional_id)
        if error is not ErrorCode.NONE:
            return respond(error)
        partition = partition_for(request.group_id, self._groups.partition_count())
        call = Call(respond)
        self.ids[request.transactional_id].feed(
            AddPartitions(
                call,
                request.producer_id,
                request.producer_epoch,
                frozenset({(OFFSETS_TOPIC, partition)}),
                requests.KEEPS_EPOCH,
            )
        )
        return call.result()

    def end(self, context: Context, request: EndTxnRequest) -> EndTxnResponse | asyncio.Future[EndTxnResponse]:
        """EndTxn, answered once the decision is committed."""
        version = context.api_version
        respond = requests.end_response(version)
        error = self._absent(request.transactional_id)
        if error is not ErrorCode.NONE:
            return respond(Producer(error))
        raises = version >= requests.END_RAISES_EPOCH_VERSION
        call = Call(respond)
        self.ids[request.transactional_id].feed(
            EndTransaction(
                call,
                request.producer_id,
                request.producer_epoch,
                request.committed,
                requests.RAISES_EPOCH if raises else requests.KEEPS_EPOCH,
            )
        )
        return call.result()

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic: str,
        index: int,
        *,
        implicit: bool,
    ) -> ErrorCode:
        """Whether a batch of this producer may begin its transaction in a partition. The partition asks at the first.

        `implicit` (Produce 12, TxnOffsetCommit 5 and up, KIP-890) brings the partition into the transaction;
        without it, it must have been brought in before: TRANSACTION_ABORTABLE otherwise. CONCURRENT_TRANSACTIONS
        where that cannot be said at once: the client tries again. Other errors as AddPartitionsToTxn's.
        """
        error = self._absent(transactional_id)
        if error is not ErrorCode.NONE:
            return error
        actor = self.ids[transactional_id]
        if actor.is_busy:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        place = frozenset({(topic, index)})
        answers: list[ErrorCode] = []
        call = Call(lambda answer: answers.append(_admitted(answer)))
        event: Event = VerifyPartitions(call, producer_id, producer_epoch, place)
        if implicit:
            event = AddPartitions(call, producer_id, producer_epoch, place, requests.RAISES_EPOCH)
        actor.feed(event)
        return answers[0] if answers else ErrorCode.CONCURRENT_TRANSACTIONS

    # Seen from outside.

    def describe(self, context: Context, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        """DescribeTransactions."""
        response = DescribeTransactionsResponse()
        for transactional_id in dict.fromkeys(request.transactional_ids):
            actor = self.ids.get(transactional_id)
            error = self._admission(transactional_id) if actor is None else ErrorCode.NONE
            transaction = None if actor is None else actor.transaction
            response.transaction_states.append(describing.describe(transactional_id, transaction, error))
        return response

    def list(self, context: Context, request: ListTransactionsRequest) -> ListTransactionsResponse:
        """ListTransactions."""
        if self.loading:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        try:
            matches = patterns.matcher(request.transactional_id_pattern or ".*")
        except patterns.BadPattern as error:
            self._logger.info("ListTransactions: %s", error)
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
        transactions = (actor.transaction for actor in self.ids.values())
        return describing.list_ids(transactions, request, self._clock.now_ms(), matches)

    # Housekeeping.

    def _arm_timeouts(self) -> None:
        interval_ms = self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._arm("timeouts", interval_ms, self._look_for_timeouts)

    def _look_for_timeouts(self) -> None:
        for actor in list(self.ids.values()):
            # Most ids are idle: they cost a look.
            if actor.transaction.state is TransactionState.ONGOING:
                actor.feed(LookForTimeout())
        self._arm_timeouts()

    def _arm_expiry(self) -> None:
        interval_ms = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._arm("expiry", interval_ms, self._expire)

    def _expire(self) -> None:
        for actor in list(self.ids.values()):
            actor.feed(Expire(self._config.transactional_id_expiration_ms))
        self._arm_expiry()

    def _arm(self, sweep: str, interval_ms: int, run: Callable[[], None]) -> None:
        self._sweeps[sweep] = self._world.timers.at(self._clock.monotonic_ms() + interval_ms, run)

    # Parts.

    def _check_initialize(self, request: InitProducerIdRequest) -> ErrorCode:
        if not request.transactional_id:
            return ErrorCode.INVALID_REQUEST
        if (request.producer_id == NO_ID) != (request.producer_epoch == NO_EPOCH):
            return ErrorCode.INVALID_REQUEST
        if request.enable2_pc:
            # transaction.two.phase.commit.enable is off, which Kafka says so.
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if request.keep_prepared_txn:
            return ErrorCode.UNSUPPORTED_VERSION
        if not 0 < request.transaction_timeout_ms <= self._config.transaction_max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return ErrorCode.NONE

    def _add(
        self, asked: requests.Asked, version: int
    ) -> AddPartitionsToTxnResult | asyncio.Future[AddPartitionsToTxnResult]:
        refused = requests.refused(asked, self._topics, version)
        if refused:
            return requests.none_added(asked, refused)
        respond = requests.added(asked, version)
        error = self._absent(asked.transactional_id)
        if error is not ErrorCode.NONE:
            return respond(error)
        who = asked.producer_id, asked.producer_epoch
        call = Call(respond)
        event: Event = AddPartitions(call, *who, asked.partitions, asked.client_version)
        if asked.verify_only:
            event = VerifyPartitions(call, *who, asked.partitions)
        self.ids[asked.transactional_id].feed(event)
        return call.result()

    def _admission(self, transactional_id: str) -> ErrorCode:
        """Whether an id may be asked for here."""
        if not transactional_id or len(transactional_id.encode()) > MAX_ID_BYTES:
            return ErrorCode.INVALID_REQUEST
        partition = partition_for(transactional_id, self._log.partition_count())
        if partition in self.loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE if partition in self.owned else ErrorCode.NOT_COORDINATOR

    def _absent(self, transactional_id: str) -> ErrorCode:
        """What a producer is told whose id is not in the cache; NONE if it is."""
        if transactional_id in self.ids:
            return ErrorCode.NONE
        return self._admission(transactional_id) or ErrorCode.INVALID_PRODUCER_ID_MAPPING

    def _new_actor(self, transactional_id: str) -> TransactionActor:
        self._log.ensure_topic()
        actor = self._actor(transactional_id, partition_for(transactional_id, self._log.partition_count()))
        self.ids[transactional_id] = actor
        return actor

    def _actor(self, transactional_id: str, partition: int) -> TransactionActor:
        return TransactionActor(Transaction(transactional_id, self._limits), partition, self._world)

    def _forget(self, actor: TransactionActor) -> None:
        transactional_id = actor.transaction.transactional_id
        if self.ids.get(transactional_id) is actor:
            del self.ids[transactional_id]
        actor.close()

    def _restore(self, key: bytes, value: bytes | None, partition: int) -> TransactionActor | None:
        if value is None:
            return None
        try:
            record = records.decode_record(key, value)
        except DecodeError as error:
            # One record that cannot be read must not take all ids of its partition with it.
            self._logger.error(
                "__transaction_state-%d: a record was left out: %s (key %s)", partition, error, key.hex()
            )
            return None
        if record is None:
            self._logger.warning("__transaction_state-%d: a record of a kind that is not known here", partition)
            return None
        actor = self._actor(record.transactional_id, partition)
        actor.transaction.apply(record)
        return actor


def _admitted(answer: Answer) -> ErrorCode:
    if isinstance(answer, Verified):
        return ErrorCode.NONE if answer.added else ErrorCode.TRANSACTION_ABORTABLE
    assert isinstance(answer, ErrorCode)
    return answer
