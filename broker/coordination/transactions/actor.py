"""The actor of one transactional id: besides what every actor does, it writes the markers that end a transaction.

The results of markers go before requests, so that a decided transaction is finished first.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

from ....protocol.errors import ErrorCode, KafkaError
from .. import actor
from ..append_errors import append_error
from . import records
from .events import (
    AddPartitions,
    Answer,
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
    VerifyPartitions,
)
from .machine import Transaction, TransactionLimits
from .markers import TransactionEnd
from .records import TopicPartition
from .refusing import error_answer
from .states import TransactionState

# These errors need no further attempt: a partition that is gone needs no marker, and in one where a later epoch has
# written the transaction is not open any more.
_SETTLED = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)


class WriteMarker(Protocol):
    """Writes a marker into one partition: at once, or with a future. KafkaError if it cannot."""

    def __call__(self, topic_name: str, index: int, end: TransactionEnd, /) -> asyncio.Future[None] | None: ...


class TransactionActor(actor.Actor[Event, records.TransactionRecord, Outcome]):
    """One transactional id, its inbox and its timer."""

    __slots__ = ("_write_marker", "transaction")

    TIMER_EVENTS = (RetryMarkers,)

    def __init__(
        self,
        transactional_id: str,
        partition: int,
        runtime: actor.Runtime,
        limits: TransactionLimits,
        write_marker: WriteMarker,
    ) -> None:
        super().__init__(transactional_id, partition, runtime)
        self.transaction = Transaction(transactional_id, limits)
        self._write_marker = write_marker

    def apply(self, record: records.TransactionRecord) -> None:
        self.transaction.apply(record)

    def _step(self, event: Event, now_ms: int) -> Outcome:
        return self.transaction.step(event, now_ms)

    def _encode(self, record: records.TransactionRecord) -> tuple[bytes, bytes | None]:
        return records.encode(record)

    def _is_blank(self) -> bool:
        return self.transaction.state is TransactionState.DEAD or self.transaction.is_blank()

    def _append_error(self, error: ErrorCode) -> ErrorCode:
        return append_error(error, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _append_failed(self, outcome: Outcome, error: ErrorCode) -> Event:
        return AppendFailed(outcome, error)

    def _reject(self, event: Event, error: ErrorCode) -> None:
        match event:
            case Initialize() | EndTransaction():
                event.token.answer(Producer(error))
            case AddPartitions() | VerifyPartitions():
                event.token.answer(error)
            case _:
                pass

    def _error_answer(self, answer: Answer, error: ErrorCode) -> Answer:
        return error_answer(answer, error)

    def _note(self, line: str) -> None:
        self._runtime.note(f"transactional id {self.key}: {line}")

    # -- Markers

    def _release(self, outcome: Outcome) -> None:
        super()._release(outcome)
        if outcome.markers is not None:
            self._write_markers(outcome.markers)

    def _write_markers(self, markers: Markers) -> None:
        written: list[TopicPartition] = []
        failed: list[TopicPartition] = []
        epoch = self._runtime.log.coordinator_epoch(self.partition)
        end = TransactionEnd(markers.producer_id, markers.producer_epoch, epoch, markers.commit, markers.client_version)
        for place in markers.partitions:
            try:
                waiting = self._write_marker(*place, end)
            except KafkaError as error:
                (written if self._is_settled(place, error) else failed).append(place)
                continue
            if waiting is None:
                written.append(place)
            else:
                waiting.add_done_callback(partial(self._marker_done, place))
        if failed:
            self._feed_first(MarkersFailed(failed))
        if written or not markers.partitions:
            self._feed_first(MarkersWritten(written))

    def _marker_done(self, place: TopicPartition, done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or (error is not None and not self._is_settled(place, error)):
            self._feed_first(MarkersFailed([place]))
        else:
            self._feed_first(MarkersWritten([place]))

    def _is_settled(self, place: TopicPartition, error: BaseException) -> bool:
        """Return whether a marker that was rejected needs no further attempt."""
        self._note(f"the marker for {place[0]}-{place[1]} was not written: {error}")
        return isinstance(error, KafkaError) and error.code in _SETTLED
