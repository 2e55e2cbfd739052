"""The machine of a transactional id: events go in, outcomes come out. Pure: no clock, no log, no network.

    outcome = transaction.step(event, now_ms)
    append outcome.records; when they are committed:  for record in outcome.records: transaction.apply(record)
    then send outcome.replies, set outcome.timers, write outcome.markers

`apply` is also what start-up does with the last record of the id, so that a crash between any two steps comes back to
the same place; `Loaded` then goes on with what was ending. Between a step that returns a record and its `apply` (or an
AppendFailed) the machine is not stepped.

The handlers of events stand beside this module: initializing.py (Initialize), adding.py (AddPartitions,
VerifyPartitions), ending.py (EndTransaction, time-outs, markers), expiring.py (Expire). States and legal moves:
states.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import partitions as adding, completion as ending, events, expiry as expiring, initialization as initializing
from .records import LAST_TOLD_EPOCH, NO_ID, Standing, TopicPartition, TransactionRecord
from .states import ENDING, LEGAL, IllegalMove, TransactionState


class TransactionLimits(NamedTuple):
    """What every transactional id has from its broker."""

    new_producer_id: Callable[[], int]
    """A producer id that was never given out. A KafkaError that it raises ends the step before it changed anything."""
    transaction_version: int = 2
    """The finalized feature `transaction.version`: 2 raises the epoch with every end (KIP-890)."""
    marker_retry_ms: int = 1000
    """How long after a failed write of a marker the next attempt comes: a disk that fails does not mend at once. Each
    further failure doubles it."""
    marker_retry_max_ms: int = 30_000
    """But never more than this: readers of committed records wait for the marker, and should not once the disk is
    mended."""


class Transaction:
    """One transactional id: its producer, and the transaction that is open or ending."""

    def __init__(self, transactional_id: str, limits: TransactionLimits) -> None:
        self.transactional_id = transactional_id
        self.limits = limits
        # Set by apply alone.
        self.standing = Standing(TransactionState.EMPTY)
        # Set by move_to alone.
        self.state = TransactionState.EMPTY
        self.recorded = False
        """Whether the log has a record of this id."""
        # Invariant: empty unless the transaction is ending.
        self.unmarked: set[TopicPartition] = set()
        """Partitions that do not know yet how the transaction ended."""
        # Invariant: of `unmarked` those that nobody is writing to now.
        self.to_retry: set[TopicPartition] = set()
        self.retries = 0
        """How often what ends the transaction failed since anything of it went well."""
        self.retry_is_due = False
        """Whether the timer of the next attempt runs."""

    # The two doors.

    def step(self, event: events.Event, now_ms: int) -> events.Outcome:
        """What comes of an event. `now_ms` is the wall clock, as in the records."""
        outcome = events.Outcome()
        _HANDLERS[event.__class__](self, event, outcome, now_ms)
        return outcome

    def apply(self, record: TransactionRecord) -> None:
        """A committed record takes effect, now or at start-up."""
        standing = record.standing
        if standing is None:
            self.move_to(TransactionState.DEAD)
            return
        if self.recorded:
            self.move_to(standing.state)
        else:
            # The log may have lost, by compaction, what led here.
            self.state = standing.state
        self.recorded = True
        self.standing = standing
        self.unmarked = set(standing.partitions) if standing.state in ENDING else set()
        self.to_retry = set()
        self.retries = 0

    # What the handlers share.

    def move_to(self, target: TransactionState) -> None:
        """The one place where the state changes; a move that is not in the table is a defect."""
        if target not in LEGAL[self.state]:
            raise IllegalMove(self.transactional_id, self.state, target)
        self.state = target

    def write(self, standing: Standing, outcome: events.Outcome) -> None:
        """This is how the id is to stand."""
        outcome.records.append(TransactionRecord(self.transactional_id, standing))

    def next(self, state: TransactionState, now_ms: int, **changes: Any) -> Standing:
        """How the id stands after a move, with the fields of Standing that change besides."""
        usual = {"previous_producer_id": self.standing.producer_id, "next_producer_id": NO_ID, "update_ms": now_ms}
        return self.standing._replace(state=state, **{**usual, **changes})

    @property
    def epochs_used_up(self) -> bool:
        """The next producer needs another id."""
        return self.standing.producer_epoch >= LAST_TOLD_EPOCH

    def is_blank(self) -> bool:
        """Nothing would be lost if this id were forgotten."""
        return not self.recorded


_HANDLERS: dict[type, Callable[[Transaction, Any, events.Outcome, int], None]] = {
    events.Initialize: initializing.initialize,
    events.AddPartitions: adding.add_partitions,
    events.VerifyPartitions: adding.verify_partitions,
    events.EndTransaction: ending.end_transaction,
    events.LookForTimeout: ending.look_for_timeout,
    events.Expire: expiring.expire,
    events.RetryMarkers: ending.retry_markers,
    events.MarkersWritten: ending.markers_written,
    events.MarkersFailed: ending.markers_failed,
    events.Loaded: ending.loaded,
    events.AppendFailed: ending.append_failed,
}
