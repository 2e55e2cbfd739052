"""A transactional id at work: feeds its machine one event at a time, and does what comes of it.

The machine says what to write, whom to answer and which markers to send; the actor writes, waits for the commit,
applies, answers and sends. While a record is on its way into the log events wait in the inbox, so that the machine
never sees a state that may not last. Word of markers goes before requests: what has been decided is finished first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from ....protocol.errors import EncodeError, ErrorCode, KafkaError
from ..calls import Call, Clock, OnCommitted, TimerHandle, Timers
from . import records
from .events import (
    AddPartitions,
    AppendFailed,
    EndTransaction,
    Event,
    Initialize,
    Markers,
    MarkersFailed,
    MarkersWritten,
    Outcome,
    Producer,
    RetryMarkers,
    SetTimer,
    VerifyPartitions,
)
from .machine import Transaction
from .records import TopicPartition
from .refusing import append_error, refusal
from .states import TransactionState

_SETTLED = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)
"""A partition that is gone needs no marker; where a later epoch has written, the transaction is open no longer."""


class TransactionsLog(Protocol):
    """`__transaction_state`, as the broker keeps it."""

    def partition_count(self) -> int:
        """`transaction.state.log.num.partitions`, or what the topic was made with."""
        ...

    def ensure_topic(self) -> None:
        """Creates the topic at first need."""
        ...

    def coordinator_epoch(self, partition: int) -> int:
        """The leader epoch of the partition: what its coordinator signs markers with."""
        ...

    def append(self, partition: int, records: list[tuple[bytes, bytes | None]], on_committed: OnCommitted) -> None:
        """Appends the records as one batch; calls back once, when they are committed or cannot be, at once if so."""
        ...

    def replay(self, partition: int) -> Iterator[tuple[bytes, bytes | None]]:
        """Every (key, value) of the partition, oldest first."""
        ...


class WriteMarker(Protocol):
    """Writes the end of a transaction into one partition: at once, or a future of it. KafkaError where it cannot."""

    def __call__(
        self,
        topic_name: str,
        index: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int,
    ) -> asyncio.Future[None] | None: ...


class World(NamedTuple):
    """What all actors share: their way out."""

    log: TransactionsLog
    timers: Timers
    clock: Clock
    write_marker: WriteMarker
    note: Callable[[str], object]
    forget: Callable[[TransactionActor], None]
    """Called where an id has expired, or was never more than an unanswered question."""


class TransactionActor:
    """One transactional id, its inbox and its timer."""

    __slots__ = ("_busy", "_closed", "_inbox", "_timer", "_world", "_writing", "partition", "transaction")

    def __init__(self, transaction: Transaction, partition: int, world: World) -> None:
        self.transaction = transaction
        self.partition = partition
        self._world = world
        # Bounded by the connections, each of which has one such request under way, and by the transaction's partitions.
        self._inbox: deque[Event] = deque()
        self._busy = False
        self._writing = False
        self._closed = False
        self._timer: TimerHandle | None = None

    @property
    def is_busy(self) -> bool:
        """Whether an event would have to wait."""
        return self._busy or self._writing or bool(self._inbox)

    def feed(self, event: Event) -> None:
        """Takes an event; handles it now unless the machine waits for its log."""
        if self._closed:
            _refuse(event, ErrorCode.NOT_COORDINATOR)
            return
        if isinstance(event, MarkersWritten | MarkersFailed):
            self._inbox.appendleft(event)
        else:
            self._inbox.append(event)
        self._drain()

    def close(self) -> None:
        """The id is coordinated here no longer: whoever waits is sent on. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        inbox, self._inbox = self._inbox, deque()
        for event in inbox:
            _refuse(event, ErrorCode.NOT_COORDINATOR)

    def _drain(self) -> None:
        if self._busy:
            return
        self._busy = True
        try:
            while self._inbox and not self._writing:
                self._step(self._inbox.popleft())
        finally:
            self._busy = False
        transaction = self.transaction
        if not self._writing and (transaction.state is TransactionState.DEAD or transaction.is_blank()):
            self._world.forget(self)

    def _step(self, event: Event) -> None:
        try:
            outcome = self.transaction.step(event, self._world.clock.now_ms())
        except KafkaError as error:
            # No producer id could be had: nothing has changed.
            self._note(f"{type(event).__name__} failed: {error}")
            _refuse(event, append_error(error.code))
            return
        if outcome.records:
            self._append(outcome)
        else:
            self._release(outcome)

    # The log.

    def _append(self, outcome: Outcome) -> None:
        self._writing = True
        try:
            encoded = [records.encode(record) for record in outcome.records]
        except EncodeError as error:
            self._appended(outcome, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
            return
        self._world.log.append(self.partition, encoded, lambda error: self._appended(outcome, error))

    def _appended(self, outcome: Outcome, error: KafkaError | None) -> None:
        self._writing = False
        if error is not None:
            self._note(f"records were not written: {error}")
            self._fail(outcome, append_error(error.code))
        elif self._closed:
            # In the log, so whoever still waits may know; the rest is for the next coordinator.
            self._answer(outcome)
        else:
            for record in outcome.records:
                self.transaction.apply(record)
            self._release(outcome)
        self._drain()

    def _fail(self, outcome: Outcome, error: ErrorCode) -> None:
        if self._closed:
            for call, answer in outcome.replies:
                assert isinstance(call, Call)
                call.answer(refusal(answer, error))
        else:
            self._inbox.appendleft(AppendFailed(outcome, error))

    # What is due once it is written.

    def _release(self, outcome: Outcome) -> None:
        for change in outcome.timers:
            self._set_timer(change)
        for note in outcome.notes:
            self._world.note(note)
        self._answer(outcome)
        if outcome.markers is not None:
            self._write_markers(outcome.markers)

    def _answer(self, outcome: Outcome) -> None:
        for call, answer in outcome.replies:
            assert isinstance(call, Call)
            call.answer(answer)

    def _set_timer(self, change: SetTimer) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline_ms = self._world.clock.monotonic_ms() + change.delay_ms
        self._timer = self._world.timers.at(deadline_ms, lambda: self._ring(change.event))

    def _ring(self, event: RetryMarkers) -> None:
        self._timer = None
        self.feed(event)

    # Markers.

    def _write_markers(self, markers: Markers) -> None:
        written: list[TopicPartition] = []
        failed: list[TopicPartition] = []
        coordinator_epoch = self._world.log.coordinator_epoch(self.partition)
        for place in markers.partitions:
            try:
                waiting = self._write_marker(place, markers, coordinator_epoch)
            except KafkaError as error:
                (written if self._is_settled(place, error) else failed).append(place)
                continue
            if waiting is None:
                written.append(place)
            else:
                waiting.add_done_callback(lambda done, place=place: self._marker_done(place, done))
        if failed:
            self.feed(MarkersFailed(failed))
        if written or not markers.partitions:
            self.feed(MarkersWritten(written))

    def _write_marker(
        self, place: TopicPartition, markers: Markers, coordinator_epoch: int
    ) -> asyncio.Future[None] | None:
        topic, index = place
        return self._world.write_marker(
            topic,
            index,
            markers.producer_id,
            markers.producer_epoch,
            coordinator_epoch,
            markers.commit,
            markers.client_version,
        )

    def _marker_done(self, place: TopicPartition, done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or (error is not None and not self._is_settled(place, error)):
            self.feed(MarkersFailed([place]))
        else:
            self.feed(MarkersWritten([place]))

    def _is_settled(self, place: TopicPartition, error: BaseException) -> bool:
        """Whether there is nothing more to do about a marker that was refused."""
        self._note(f"the marker for {place[0]}-{place[1]} was not written: {error}")
        return isinstance(error, KafkaError) and error.code in _SETTLED

    def _note(self, line: str) -> None:
        self._world.note(f"transactional id {self.transaction.transactional_id}: {line}")


def _refuse(event: Event, error: ErrorCode) -> None:
    """Answers a request that will not be stepped."""
    if not isinstance(event, Initialize | AddPartitions | VerifyPartitions | EndTransaction):
        return
    assert isinstance(event.token, Call)
    event.token.answer(Producer(error) if isinstance(event, Initialize | EndTransaction) else error)
