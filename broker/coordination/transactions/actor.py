"""The actor of one transactional id: besides what every actor does, it writes the markers that end a transaction.

The results of markers go before requests, so that a decided transaction is finished first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

from ....protocol.errors import ErrorCode, KafkaError
from ...turns import keeper
from ..actor import Actor, Runtime
from ..machine import Machine, append_error
from . import events, machine, records
from .events import Event, MarkersFailed, MarkersWritten, Outcome
from .markers import TransactionEnd
from .records import Standing, TopicPartition
from .states import TransactionState
from .transaction import Transaction, TransactionLimits

# These errors need no further attempt: a partition that is gone needs no marker, and in one where a later epoch has
# written the transaction is not open any more.
_SETTLED = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)


class WriteMarker(Protocol):
    """Writes a marker into one partition: at once, or with a future. KafkaError if it cannot."""

    def __call__(self, topic_name: str, index: int, end: TransactionEnd, /) -> asyncio.Future[None] | None: ...


def reject(event: Event, error: ErrorCode) -> None:
    """Answer a request with an error; ignore other events."""
    match event:
        case events.Initialize() | events.EndTransaction():
            event.token.answer(events.Producer(error))
        case events.AddPartitions() | events.VerifyPartitions():
            event.token.answer(error)
        case _:
            pass


def _patience_ms(transaction: Transaction, outcome: Outcome) -> int:
    """Let requests that come while a transaction ends wait for its markers."""
    is_early = any(answer in _EARLY for _, answer in outcome.replies)
    return transaction.limits.patience_ms if is_early else 0


_EARLY = (ErrorCode.CONCURRENT_TRANSACTIONS, events.Producer(ErrorCode.CONCURRENT_TRANSACTIONS))
_TRANSACTIONS: Machine[Transaction, Event, Outcome] = Machine(
    noun="transactional id",
    step=machine.step,
    apply=Transaction.apply,
    encode=records.encode,
    is_blank=Transaction.is_blank,
    timer_events=(events.RetryMarkers,),
    append_error=partial(append_error, default=ErrorCode.UNKNOWN_SERVER_ERROR),
    reject=reject,
    error_answer=events.error_answer,
    patience_ms=_patience_ms,
)


class TransactionActor(Actor[Transaction, Event, Outcome]):
    """One transactional id, its inbox and its timer."""

    __slots__ = ("_requires_fsync", "_write_marker")

    def __init__(
        self,
        transactional_id: str,
        partition: int,
        limits: TransactionLimits,
        write_marker: WriteMarker,
        requires_fsync: Callable[[TopicPartition], bool],
        runtime: Runtime,
    ) -> None:
        super().__init__(transactional_id, partition, Transaction(transactional_id, limits), _TRANSACTIONS, runtime)
        self._write_marker = write_marker
        self._requires_fsync = requires_fsync

    # -- A commit together with others (queries.py)

    def hold(self) -> None:
        """Make every event wait until `settle` or `let_go`: a record of this id is written together with others."""
        self._locked = True
        self._appending += 1

    def let_go(self) -> None:
        """Go on as if nothing had been prepared."""
        self._locked = False
        self._appending -= 1
        self._drain()

    def settle(self, outcome: Outcome, error: KafkaError | None) -> None:
        """Let the outcome that was prepared take effect, or fail with `error`."""
        self._appended(outcome, error)

    def durable_after(self, outcome: Outcome) -> Sequence[TopicPartition] | None:
        """Require an fsync where a topic of the transaction does (flush.messages=1).

        Otherwise a power cut could leave records of a transaction that the coordinator does not know, or take back an
        end that was acknowledged. What was committed together, such as offsets, is on disk before the decision is.
        """
        for record in outcome.records:
            standing = record.standing
            if standing is not None and self._is_durable(standing):
                return sorted(standing.partitions) if standing.state is TransactionState.PREPARE_COMMIT else ()
        return None

    def _is_durable(self, standing: Standing) -> bool:
        """Return whether a partition of the transaction requires an fsync: then all of the transaction gets one."""
        return any(map(self._requires_fsync, standing.partitions))

    def _release(self, outcome: Outcome) -> None:
        super()._release(outcome)
        if outcome.markers is not None:
            keeper().run(self._write_markers(sorted(outcome.markers)))

    def _write_markers(self, places: Sequence[TopicPartition]) -> Iterator[None]:
        """Write the markers, one a step: a transaction may have thousands of partitions."""
        written: list[TopicPartition] = []
        failed: list[TopicPartition] = []
        # The decision stands until the last marker is written.
        standing = self.state.standing
        end = TransactionEnd(
            standing.producer_id,
            standing.producer_epoch,
            self._runtime.log.coordinator_epoch(self.partition),
            standing.state is TransactionState.PREPARE_COMMIT,
            standing.client_version,
            # A marker that is lost after the record of the end would leave the transaction open in its partition.
            durable=self._is_durable(standing),
            decided_ms=standing.update_ms,
            is_found=self.state.found_ending,
        )
        for number, place in enumerate(places):
            if number:
                yield
            if self._closed:
                # The next coordinator finds the decision in the log.
                return
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
            self.feed_first(MarkersFailed(failed))
        if written or not places:
            self.feed_first(MarkersWritten(written))

    def _marker_done(self, place: TopicPartition, done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or (error is not None and not self._is_settled(place, error)):
            self.feed_first(MarkersFailed([place]))
        else:
            self.feed_first(MarkersWritten([place]))

    def _is_settled(self, place: TopicPartition, error: BaseException) -> bool:
        """Return whether a marker that was rejected needs no further attempt."""
        self._note(f"the marker for {place[0]}-{place[1]} was not written: {error}")
        return isinstance(error, KafkaError) and error.code in _SETTLED
