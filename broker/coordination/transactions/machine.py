"""The machine of a transactional id: an event goes in, an outcome comes out. Pure: no clock, no log, no network.

    outcome = step(transaction, event, now_ms)
    append outcome.records; when they are committed:  for record in outcome.records: transaction.apply(record)
    then send outcome.replies, set outcome.timers, write outcome.markers

Loading calls `apply` with the last record of the id, so that a crash between any two steps comes back to the same
place; `Loaded` then goes on with a transaction whose end was decided. Between a step that returns a record and its
`apply` (or an AppendFailed) the caller does not step the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import completion, events, initialization, partitions, preparation
from .events import Expire, Outcome
from .records import TransactionRecord
from .states import IDLE
from .transaction import Transaction


def expire(transaction: Transaction, event: Expire, outcome: Outcome, now_ms: int) -> None:
    """Write a tombstone. A producer that returns later gets INVALID_PRODUCER_ID_MAPPING, and begins again."""
    if transaction.state in IDLE and now_ms - transaction.standing.update_ms >= event.retention_ms:
        outcome.records.append(TransactionRecord(transaction.transactional_id, None))
        outcome.notes.append(f"transactional id {transaction.transactional_id} has expired")


def step(transaction: Transaction, event: events.Event, now_ms: int) -> events.Outcome:
    """Return the outcome of an event. `now_ms` is the wall clock, which also dates records."""
    outcome = events.Outcome()
    STEPS[event.__class__](transaction, event, outcome, now_ms)
    return outcome


STEPS: dict[type[events.Event], Callable[[Transaction, Any, events.Outcome, int], None]] = {
    events.Initialize: initialization.initialize,
    events.AddPartitions: partitions.add_partitions,
    events.VerifyPartitions: partitions.verify_partitions,
    events.EndTransaction: preparation.end_transaction,
    events.LookForTimeout: preparation.look_for_timeout,
    events.Abandon: preparation.abandon,
    events.Expire: expire,
    events.RetryMarkers: completion.retry_markers,
    events.MarkersWritten: completion.markers_written,
    events.MarkersFailed: completion.markers_failed,
    events.Loaded: completion.loaded,
    events.Unload: completion.unload,
    events.AppendFailed: completion.append_failed,
}
