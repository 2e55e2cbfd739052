"""Queries at the transaction coordinator: tasks join a batch, and all transactions of a batch end together.

The machine is in `query.py`, the transactions of the participants are ordinary ones. To commit a batch, `Queries` holds
the actor of each participant, has each machine prepare its commit, and appends all records at once. A participant whose
transaction is not open any more makes the whole batch fail before anything is written.

Work on many participants takes turns of the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.odradek_describe_queries import (
    DescribedQuery,
    OdradekDescribeQueriesRequest,
    OdradekDescribeQueriesResponse,
)
from ....protocol.messages.odradek_end_query_batch import (
    OdradekEndQueryBatchRequest,
    OdradekEndQueryBatchResponse,
    Participant,
)
from ....protocol.messages.odradek_join_query import OdradekJoinQueryRequest, OdradekJoinQueryResponse
from ...clock import Clock
from ...turns import LargeResponse, fill, keeper
from ..calls import Call, Eventual
from ..coordinator_log import CoordinatorLog
from ..interfaces import Context
from ..machine import append_error
from ..replay import Written
from . import events, machine, query_records, records
from .actor import TransactionActor
from .query import NO_BATCH, Ended, Joined, Query, QueryRecord, end, has_expired, join, participant_name, query_of
from .states import TransactionState

_log = logging.getLogger(__name__)

MAX_NAME_BYTES = 1_000


EndCall = Call[Ended, OdradekEndQueryBatchResponse]


class Held(NamedTuple):
    """A participant whose commit is prepared: no event reaches it until it is let go."""

    actor: TransactionActor
    outcome: events.Outcome


class Queries:
    """The queries of one transaction coordinator. `check` says why an id is not coordinated here."""

    def __init__(
        self,
        log: CoordinatorLog,
        clock: Clock,
        ids: dict[str, TransactionActor],
        check: Callable[[str], ErrorCode],
        partition_of: Callable[[str], int],
        logger: logging.Logger = _log,
    ) -> None:
        self._log = log
        self._clock = clock
        self._ids = ids
        self._check = check
        self._partition_of = partition_of
        self._logger = logger
        # Invariant: only queries of owned partitions.
        self.queries: dict[str, Query] = {}
        # Those of partitions that are being loaded.
        self._loading: dict[int, dict[str, Query]] = {}
        # The queries that have a record under way. Their requests get CONCURRENT_TRANSACTIONS and come again.
        self._writing: set[str] = set()
        # Query id -> its transactional ids. May hold some that have expired.
        self._names: dict[str, set[str]] = {}

    # -- Requests

    def join(self, context: Context, request: OdradekJoinQueryRequest) -> Eventual[OdradekJoinQueryResponse]:
        """Answer an OdradekJoinQuery."""
        invalid = not request.task or "/" in request.task or request.batch_id < 0 or _is_long(request.task)
        error = ErrorCode.INVALID_REQUEST if invalid else self._absence(request.query_id, request.run_id)
        if error is not ErrorCode.NONE:
            return OdradekJoinQueryResponse(error_code=error)
        self._log.ensure_topic()
        query = self.queries.setdefault(request.query_id, Query(request.query_id))
        joined = join(query, request.run_id, request.batch_id, self._clock.now_ms())
        if joined.record is None:
            return self._joined(request, joined)
        call: Call[ErrorCode, OdradekJoinQueryResponse] = Call(partial(self._run_begun, query, request))
        self._append_record(query, joined.record, call.answer)
        return call.result()

    def _run_begun(self, query: Query, request: OdradekJoinQueryRequest, error: ErrorCode) -> OdradekJoinQueryResponse:
        if error is not ErrorCode.NONE:
            return OdradekJoinQueryResponse(error_code=error)
        self._logger.info("query %s: run %s begins with batch %d", query.query_id, request.run_id, request.batch_id)
        self._abandon(self._open(query.query_id))
        return self._joined(request, join(query, request.run_id, request.batch_id, self._clock.now_ms()))

    def _joined(self, request: OdradekJoinQueryRequest, joined: Joined) -> OdradekJoinQueryResponse:
        if joined.error is not ErrorCode.NONE:
            return OdradekJoinQueryResponse(error_code=joined.error, error_message=joined.why)
        if joined.is_done:
            return OdradekJoinQueryResponse(is_done=True)
        if joined.is_new_batch:
            self._abandon(self._open(request.query_id))
        name = participant_name(request.query_id, request.task, self._log.partition_count())
        return OdradekJoinQueryResponse(transactional_id=name)

    def end(self, context: Context, request: OdradekEndQueryBatchRequest) -> Eventual[OdradekEndQueryBatchResponse]:
        """Answer an OdradekEndQueryBatch: a commit once it is decided, an abort at once."""
        names = [each.transactional_id for each in request.participants]
        error = self._absence(request.query_id, request.run_id)
        if error is ErrorCode.NONE and (len(set(names)) < len(names) or {*map(query_of, names)} - {request.query_id}):
            error = ErrorCode.INVALID_REQUEST
        if error is not ErrorCode.NONE:
            return OdradekEndQueryBatchResponse(error_code=error)
        if not request.committed:
            return self._abort(request)
        query = self.queries.get(request.query_id) or Query(request.query_id)
        ended = end(query, request.run_id, request.batch_id, self._clock.now_ms())
        if ended.record is None:
            if ended.error is ErrorCode.NONE:
                self._abandon(request.participants)
            return _ended(ended)
        call = Call(_ended)
        self._writing.add(query.query_id)
        keeper().run(self._commit(query, ended.record, request.participants, call))
        return call.result()

    def _abort(self, request: OdradekEndQueryBatchRequest) -> Eventual[OdradekEndQueryBatchResponse]:
        """Abort a batch, also in tasks that told their driver nothing, that run on, or that have not joined yet."""
        self._log.ensure_topic()
        query = self.queries.setdefault(request.query_id, Query(request.query_id))
        joined = join(query, request.run_id, request.batch_id, self._clock.now_ms())
        if joined.record is None:
            return self._aborted(query, request, ErrorCode.NONE)
        # No task of this run has joined yet. The run begins all the same, so that those which do are known as late.
        call = Call(partial(self._aborted, query, request))
        self._append_record(query, joined.record, call.answer)
        return call.result()

    def _aborted(
        self, query: Query, request: OdradekEndQueryBatchRequest, error: ErrorCode
    ) -> OdradekEndQueryBatchResponse:
        if error is ErrorCode.NONE:
            self._abandon(request.participants)
            if query.standing is not None and query.standing.run_id == request.run_id:
                query.is_aborted = True
                self._abandon(self._open(query.query_id))
        return OdradekEndQueryBatchResponse(error_code=error)

    def describe(
        self, context: Context, request: OdradekDescribeQueriesRequest
    ) -> OdradekDescribeQueriesResponse | LargeResponse[OdradekDescribeQueriesResponse]:
        """Answer an OdradekDescribeQueries."""
        wanted = self.queries if request.query_ids is None else dict.fromkeys(request.query_ids)
        found = [query for each in wanted if (query := self.queries.get(each)) and query.standing]
        response = OdradekDescribeQueriesResponse()

        steps = (response.queries.append(self._described(query)) for query in found)
        return fill(response, steps, sum(1 + len(self._names.get(query.query_id, ())) for query in found))

    def _described(self, query: Query) -> DescribedQuery:
        standing, current = query.standing, query.current_batch
        assert standing is not None
        return DescribedQuery(
            query_id=query.query_id,
            run_id=standing.run_id,
            committed_batch_id=standing.batch_id,
            current_batch_id=NO_BATCH if current is None else current,
            last_update_ms=standing.update_ms,
            transactional_ids=[each.transactional_id for each in self._open(query.query_id)],
        )

    # -- The commit of a batch

    def _commit(
        self, query: Query, record: QueryRecord, participants: Sequence[Participant], call: EndCall
    ) -> Iterator[None]:
        """Prepare every participant, then append all records in one batch. Each step is a turn.

        Whatever prevents it, the driver gets an answer and no participant stays held.
        """
        held: list[Held] = []
        try:
            rejected = yield from self._prepare_each(query, participants, held)
            if rejected is None and self.queries.get(query.query_id) is not query:
                # What was prepared is of the reign before.
                why = f"query {query.query_id} has had another coordinator meanwhile"
                rejected = Ended(ErrorCode.NOT_COORDINATOR, why)
            if rejected is None:
                self._append_batch(query, record, held, call)
                return
        except Exception as error:
            self._logger.exception("batch of query %s was not committed", query.query_id)
            rejected = Ended(ErrorCode.UNKNOWN_SERVER_ERROR, f"the batch could not be committed: {error}")
        self._writing.discard(query.query_id)
        call.answer(rejected)
        for each in held:
            each.actor.let_go()

    def _prepare_each(
        self, query: Query, participants: Sequence[Participant], held: list[Held]
    ) -> Generator[None, None, Ended | None]:
        """Prepare the participants and add them to `held`. Return why one cannot commit."""
        partition = self._partition_of(query.query_id)
        for each in participants:
            prepared = self._prepare(each, partition)
            if isinstance(prepared, Ended):
                return prepared
            held.append(prepared)
            yield
        return None

    def _append_batch(self, query: Query, record: QueryRecord, held: list[Held], call: EndCall) -> None:
        encoded = [query_records.encode(record)]
        for each in held:
            encoded.extend(map(records.encode, each.outcome.records))
        after = [each.actor.durable_after(each.outcome) for each in held]
        durable = [each for each in after if each is not None]
        self._log.append(
            self._partition_of(query.query_id),
            encoded,
            partial(self._appended, query, record, held, call),
            None,
            sorted({place for places in durable for place in places}) if durable else None,
        )

    def _prepare(self, participant: Participant, partition: int) -> Held | Ended:
        """Have a participant's machine prepare its commit, and hold it. Nothing changes yet.

        `partition` is the query's: its log takes the records of all participants.
        """
        name = participant.transactional_id
        actor = self._ids.get(name)
        if actor is None:
            return Ended(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"transactional id {name} is not known")
        if actor.partition != partition:
            return Ended(ErrorCode.INVALID_REQUEST, f"the coordinator has not named a task {name}")
        if actor.is_busy:
            return Ended(ErrorCode.CONCURRENT_TRANSACTIONS, f"transactional id {name} has a request under way")
        answer: Call[events.Producer, events.Producer] = Call(lambda each: each)
        who = participant.producer_id, participant.producer_epoch
        event = events.EndTransaction(answer, *who, True, records.RAISES_EPOCH)
        try:
            outcome = machine.step(actor.state, event, self._clock.now_ms())
        except KafkaError as error:
            return Ended(append_error(error.code), error.message)
        if not outcome.records:
            return _rejection(actor, outcome)
        actor.hold()
        return Held(actor, outcome)

    def _appended(
        self, query: Query, record: QueryRecord, held: list[Held], call: EndCall, error: KafkaError | None
    ) -> None:
        """Let the records take effect, or nothing. The driver is answered first: the batch is decided."""
        self._writing.discard(query.query_id)
        if error is None:
            query.apply(record)
            call.answer(Ended())
            names = {each.actor.key for each in held}
            self._abandon([each for each in self._open(query.query_id) if each.transactional_id not in names])
        else:
            call.answer(Ended(append_error(error.code, ErrorCode.UNKNOWN_SERVER_ERROR), error.message))
        keeper().run(_settle(held, error))

    # -- Transactions that belong to no batch any more

    def is_aborted(self, transactional_id: str) -> bool:
        """Return whether the run of this participant has aborted: it may not begin a transaction any more."""
        query_id = query_of(transactional_id)
        query = self.queries.get(query_id) if query_id is not None else None
        return query is not None and query.is_aborted

    def _open(self, query_id: str) -> list[Participant]:
        """Return the open transactions of a query."""
        names = self._names.get(query_id, set())
        known = [(name, actor.state) for name in sorted(names) if (actor := self._ids.get(name))]
        names.intersection_update(name for name, _ in known)
        return [
            Participant(name, state.standing.producer_id, state.standing.producer_epoch)
            for name, state in known
            if state.state is TransactionState.ONGOING
        ]

    def _abandon(self, participants: Sequence[Participant]) -> None:
        """Abort these transactions unless something newer has happened to them."""
        keeper().run(self._abandon_each(participants))

    def _abandon_each(self, participants: Sequence[Participant]) -> Iterator[None]:
        for each in participants:
            actor = self._ids.get(each.transactional_id)
            if actor is not None:
                actor.feed(events.Abandon(each.producer_id, each.producer_epoch))
            yield

    def note(self, transactional_id: str) -> None:
        """Remember the query of a transactional id that comes into memory."""
        query_id = query_of(transactional_id)
        if query_id is not None:
            self._names.setdefault(query_id, set()).add(transactional_id)

    # -- Partitions of `__transaction_state`, and expiry

    def restore(self, written: Written, partition: int) -> bool:
        """Take a record that was loaded. Return whether it is one of a query. Raises DecodeError."""
        record = query_records.decode_record(written.key, written.value)
        if record is None:
            return False
        queries = self._loading.setdefault(partition, {})
        queries.setdefault(record.query_id, Query(record.query_id)).apply(record)
        return True

    def loaded(self, partition: int) -> None:
        """Serve the queries of a partition that was read to its end."""
        self.queries.update(self._loading.pop(partition, {}))

    def unload(self, partition: int) -> None:
        """Forget the queries of a partition that this broker gives up."""
        self._loading.pop(partition, None)
        for query_id in [each for each in self.queries if self._partition_of(each) == partition]:
            self._forget(query_id)

    def expire(self, retention_ms: int) -> Iterator[None]:
        """Write a tombstone for each query that has committed nothing for so long. A step for each."""
        now_ms = self._clock.now_ms()
        for query_id in {**self.queries, **self._names}:
            if not self._open(query_id):
                self._expire_idle(query_id, retention_ms, now_ms)
            yield

    def _expire_idle(self, query_id: str, retention_ms: int, now_ms: int) -> None:
        query = self.queries.get(query_id)
        if query is None:
            # Somebody has invented its tasks, or it has expired before them.
            if not self._names.get(query_id):
                self._names.pop(query_id, None)
        elif query_id not in self._writing and has_expired(query, retention_ms, now_ms):
            self._logger.info("query %s has expired", query_id)
            self._append_record(query, QueryRecord(query_id, None), _ignore)

    def _append_record(self, query: Query, record: QueryRecord, done: Callable[[ErrorCode], None]) -> None:
        """Append a record alone, apply it when it is committed, and call `done`."""

        def appended(error: KafkaError | None) -> None:
            self._writing.discard(query.query_id)
            if error is not None:
                if query.standing is None:
                    self._forget(query.query_id)
                done(append_error(error.code, ErrorCode.UNKNOWN_SERVER_ERROR))
                return
            query.apply(record)
            if record.standing is None:
                self._forget(query.query_id)
            done(ErrorCode.NONE)

        self._writing.add(query.query_id)
        self._log.append(self._partition_of(query.query_id), [query_records.encode(record)], appended)

    def _forget(self, query_id: str) -> None:
        self.queries.pop(query_id, None)
        self._names.pop(query_id, None)

    def _absence(self, query_id: str, run_id: str) -> ErrorCode:
        """Return why a query gets no answer here now; NONE if it does."""
        if not query_id or not run_id or _is_long(query_id) or _is_long(run_id):
            return ErrorCode.INVALID_REQUEST
        error = self._check(query_id)
        if error is ErrorCode.NONE and query_id in self._writing:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return error


def _settle(held: list[Held], error: KafkaError | None) -> Iterator[None]:
    """Let each participant go on: with its markers, or as if nothing had been asked."""
    for each in held:
        each.actor.settle(each.outcome, error)
        yield


def _rejection(actor: TransactionActor, outcome: events.Outcome) -> Ended:
    """Return why a machine prepared nothing."""
    answers = [answer.error for _, answer in outcome.replies if isinstance(answer, events.Producer)]
    error = answers[0] if answers and answers[0] is not ErrorCode.NONE else ErrorCode.INVALID_TXN_STATE
    why = (
        f"the transaction of {actor.key} is not open any more ({actor.state.state.value}): it ran for longer than "
        "transaction.timeout.ms, or another task has its transactional id"
    )
    return Ended(error, why)


def _ended(ended: Ended) -> OdradekEndQueryBatchResponse:
    return OdradekEndQueryBatchResponse(
        error_code=ended.error, error_message=ended.why or None, was_done=ended.was_done
    )


def _ignore(error: ErrorCode) -> None:
    """A tombstone that was not written is written by the next sweep."""


def _is_long(name: str) -> bool:
    return len(name.encode()) > MAX_NAME_BYTES
