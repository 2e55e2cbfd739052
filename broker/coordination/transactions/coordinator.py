"""The transaction coordinator: it answers the requests about transactional ids.

An id belongs to a partition of `__transaction_state` (shards.py), and has an actor around its machine (actor.py). Each
request returns a response if that is known at once, otherwise a future of one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ....protocol.errors import ErrorCode
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
from ....protocol.topic_partition import TopicPartition
from ...clock import Clock
from ...configs.broker_config import BrokerConfig
from ...timers import Timers
from ...topics.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ...turns import LargeResponse
from ..actor import Runtime
from ..alarms import Sweep
from ..calls import Call, Eventual
from ..coordinator_log import CoordinatorLog
from ..expressions import BadExpression
from ..interfaces import Context, Question, Topics
from ..replay import Written
from ..shards import Shards
from . import description, events, records, requests
from .actor import TransactionActor, WriteMarker, reject
from .queries import Queries
from .records import KEEPS_EPOCH, NO_EPOCH, NO_ID, RAISES_EPOCH, TransactionRecord
from .states import TransactionState
from .transaction import TransactionLimits

AnswerT = TypeVar("AnswerT")

_log = logging.getLogger(__name__)


class TransactionCoordinator:
    """The transactional ids of one broker, from `start` to `stop`."""

    def __init__(
        self,
        config: BrokerConfig,
        log: CoordinatorLog,
        timers: Timers,
        clock: Clock,
        topics: Topics,
        group_partition: Callable[[str], int],
        new_producer_id: Callable[[], int],
        write_marker: WriteMarker,
        requires_fsync: Callable[[records.TopicPartition], bool],
        logger: logging.Logger = _log,
    ) -> None:
        self._config = config
        self._clock = clock
        self._topics = topics
        self._group_partition = group_partition
        self._write_marker = write_marker
        self._requires_fsync = requires_fsync
        self._logger = logger
        patience_ms = config.add_partitions_to_txn_retry_backoff_max_ms
        self._limits = TransactionLimits(new_producer_id, patience_ms=patience_ms)
        self.shards: Shards[TransactionActor, TransactionRecord] = Shards(
            TRANSACTIONS_TOPIC, log, timers, clock, logger, self._new_actor, _decode
        )
        # Invariant: only ids of partitions that this broker owns.
        self.ids = self.shards.actors
        shards = self.shards
        self.queries = Queries(log, clock, shards.actors, shards.check, shards.partition_of, logger)
        shards.companion = self.queries
        self._sweeps = (
            Sweep(
                *(timers, clock, lambda: config.transaction_abort_timed_out_transaction_cleanup_interval_ms),
                self._look_for_timeouts,
            ),
            Sweep(
                *(timers, clock, lambda: config.transaction_remove_expired_transaction_cleanup_interval_ms),
                self._expire,
            ),
        )

    def start(self, *, load: bool = True) -> None:
        """Load every partition, which finishes each transaction whose end was decided."""
        if load:
            self.shards.start()
        for sweep in self._sweeps:
            sweep.start()

    def stop(self) -> None:
        """Tell waiting producers to look for another coordinator (NOT_COORDINATOR). Idempotent."""
        for sweep in self._sweeps:
            sweep.stop()
        self.shards.stop()

    def set_version(self, transaction_version: int) -> None:
        """Set the level of the feature `transaction.version`, which decides the epoch of an abort."""
        self._limits = self._limits._replace(transaction_version=transaction_version)
        for actor in self.ids.values():
            actor.state.limits = self._limits

    def _new_actor(self, transactional_id: str, partition: int, runtime: Runtime) -> TransactionActor:
        self.queries.note(transactional_id)
        outside = self._write_marker, self._requires_fsync
        return TransactionActor(transactional_id, partition, self._limits, *outside, runtime)

    # -- Requests of producers

    def initialize(self, context: Context, request: InitProducerIdRequest) -> Eventual[InitProducerIdResponse]:
        """Answer an InitProducerId that has a transactional id. The first one makes the id known."""
        respond = requests.producer_response(InitProducerIdResponse, context.api_version, requests.INIT_FENCED_VERSION)
        transactional_id = request.transactional_id or ""
        error = self._check_initialize(request) or self._check(transactional_id)
        if error is ErrorCode.NONE and self.queries.is_aborted(transactional_id):
            error = ErrorCode.PRODUCER_FENCED
        if error is not ErrorCode.NONE:
            return respond(events.Producer(error))
        actor = self.ids.get(transactional_id) or self.shards.add(transactional_id)
        call = Call(respond)
        actor.feed(events.Initialize(call, request.transaction_timeout_ms, request.producer_id, request.producer_epoch))
        return call.result()

    def add_partitions(
        self, context: Context, request: AddPartitionsToTxnRequest
    ) -> Eventual[AddPartitionsToTxnResponse]:
        """Answer an AddPartitionsToTxn."""
        version = context.api_version
        results = [self._add(each, version) for each in requests.additions(request, version)]
        return requests.added_response(results, version)

    def _add(self, addition: requests.Addition, version: int) -> Eventual[AddPartitionsToTxnResult]:
        rejected = requests.rejected_partitions(addition, self._topics, version)
        if rejected:
            return requests.none_added(addition, rejected)
        call = Call(requests.added(addition, version))
        asked = call, addition.producer_id, addition.producer_epoch, addition.partitions
        if addition.verify_only:
            return self._ask(addition.transactional_id, call, events.VerifyPartitions(*asked))
        return self._ask(addition.transactional_id, call, events.AddPartitions(*asked, addition.client_version))

    def add_offsets(self, context: Context, request: AddOffsetsToTxnRequest) -> Eventual[AddOffsetsToTxnResponse]:
        """Answer an AddOffsetsToTxn: add the group's partition of `__consumer_offsets`."""
        call = Call(requests.offsets_response(context.api_version))
        who = request.producer_id, request.producer_epoch
        places = frozenset({TopicPartition(OFFSETS_TOPIC, self._group_partition(request.group_id))})
        return self._ask(request.transactional_id, call, events.AddPartitions(call, *who, places, KEEPS_EPOCH))

    def end(self, context: Context, request: EndTxnRequest) -> Eventual[EndTxnResponse]:
        """Answer an EndTxn, once the decision is committed."""
        call = Call(requests.producer_response(EndTxnResponse, context.api_version))
        who = request.producer_id, request.producer_epoch
        version = RAISES_EPOCH if context.api_version >= requests.END_RAISES_EPOCH_VERSION else KEEPS_EPOCH
        event = events.EndTransaction(call, *who, request.committed, version)
        return self._ask(request.transactional_id, call, event)

    def verify(self, asked: Question) -> Eventual[ErrorCode]:
        """Return whether a producer may begin to write to a partition in its transaction.

        Where that adds the partition, one record of the log adds `also`, too. Otherwise TRANSACTION_ABORTABLE unless it
        was added before. Other errors as those of AddPartitionsToTxn. A future where the answer has to wait for the
        log, or for the markers of the last transaction.
        """
        call, places = Call(_verification_error), frozenset({asked.place})
        who = asked.producer_id, asked.producer_epoch
        if asked.implicit:
            event = events.AddPartitions(call, *who, places | asked.also, RAISES_EPOCH)
        else:
            event = events.VerifyPartitions(call, *who, places)
        return self._ask(asked.transactional_id, call, event)

    def _ask(self, transactional_id: str, call: Call[Any, AnswerT], event: events.Request) -> Eventual[AnswerT]:
        """Feed a request to its id, or reject it where the id cannot take part in a transaction."""
        error = self._absence(transactional_id)
        if error is ErrorCode.NONE:
            self.ids[transactional_id].feed(event)
        else:
            reject(event, error)
        return call.result()

    def open_places(self) -> dict[tuple[int, records.TopicPartition], int] | None:
        """Return the epochs of the transactions that are open or ending, by producer and partition of it.

        None where not all of them are known, because a partition could not be loaded.
        """
        if not self.shards.is_whole:
            return None
        standings = (actor.state.standing for actor in self.ids.values())
        return {(each.producer_id, place): each.producer_epoch for each in standings for place in each.partitions}

    def note_written(self, epochs: Iterable[tuple[int, int]]) -> None:
        """Learn the epochs that partitions have, by producer id. No owner to come gets one that was lost here.

        A power cut may take it from a broker that is alone. Records under it that are not the same would pass for
        repeated ones, or be refused until the epochs here have caught up.
        """
        states = [actor.state for actor in self.ids.values()]
        owners = {each.standing.owner_after_end()[0]: each for each in states}
        for producer_id, epoch in epochs:
            owner = owners.get(producer_id)
            if owner is not None and epoch > owner.standing.owner_after_end()[1]:
                owner.spent_id = producer_id

    # -- Description

    def describe(self, context: Context, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        """Answer a DescribeTransactions."""
        response = DescribeTransactionsResponse()
        for transactional_id in dict.fromkeys(request.transactional_ids):
            actor = self.ids.get(transactional_id)
            error = self._check(transactional_id) if actor is None else ErrorCode.NONE
            transaction = None if actor is None else actor.state
            response.transaction_states.append(description.describe(transactional_id, transaction, error))
        return response

    def list(
        self, context: Context, request: ListTransactionsRequest
    ) -> ListTransactionsResponse | LargeResponse[ListTransactionsResponse]:
        """Answer a ListTransactions."""
        if self.shards.loading:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        try:
            pattern = request.transactional_id_pattern
            wanted = description.read_pattern(pattern) if pattern else None
        except BadExpression as error:
            self._logger.info("ListTransactions: %s", error)
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
        transactions = [actor.state for actor in self.ids.values()]
        return description.list_ids(transactions, request, self._clock.now_ms(), wanted)

    # -- Sweeps

    def _look_for_timeouts(self) -> Iterator[None]:
        for actor in list(self.ids.values()):
            # Most ids are idle, and cost no more than this check.
            if actor.state.state is TransactionState.ONGOING:
                actor.feed(events.LookForTimeout())
            yield

    def _expire(self) -> Iterator[None]:
        for actor in list(self.ids.values()):
            actor.feed(events.Expire(self._config.transactional_id_expiration_ms))
            yield
        yield from self.queries.expire(self._config.transactional_id_expiration_ms)

    # -- Checks

    def _check_initialize(self, request: InitProducerIdRequest) -> ErrorCode:
        if not request.transactional_id:
            return ErrorCode.INVALID_REQUEST
        if (request.producer_id == NO_ID) != (request.producer_epoch == NO_EPOCH):
            return ErrorCode.INVALID_REQUEST
        if request.enable2_pc:
            # Kafka's answer while transaction.two.phase.commit.enable is off.
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if request.keep_prepared_txn:
            return ErrorCode.UNSUPPORTED_VERSION
        if not 0 < request.transaction_timeout_ms <= self._config.transaction_max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return ErrorCode.NONE

    def _check(self, transactional_id: str) -> ErrorCode:
        """Return why this broker does not coordinate an id; NONE if it does."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        return self.shards.check(transactional_id)

    def _absence(self, transactional_id: str) -> ErrorCode:
        """Return why an id cannot take part in a transaction: it is not in memory, or its query was aborted."""
        if transactional_id in self.ids:
            return ErrorCode.PRODUCER_FENCED if self.queries.is_aborted(transactional_id) else ErrorCode.NONE
        return self._check(transactional_id) or ErrorCode.INVALID_PRODUCER_ID_MAPPING


def _decode(written: Written, _: int) -> tuple[str, TransactionRecord] | None:
    record = records.decode_record(written.key, written.value)
    return None if record is None else (record.transactional_id, record)


def _verification_error(answer: events.Verified | ErrorCode) -> ErrorCode:
    if isinstance(answer, events.Verified):
        return ErrorCode.NONE if answer.added else ErrorCode.TRANSACTION_ABORTABLE
    return answer
