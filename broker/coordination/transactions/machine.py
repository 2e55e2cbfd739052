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

from ....protocol.errors import ErrorCode
from ..outcome import nothing
from . import completion, events, initialization, preparation
from .events import AddPartitions, Expire, Outcome, Verified, VerifyPartitions
from .records import TransactionRecord
from .states import ENDING, IDLE, TransactionState
from .transaction import Transaction


def add_partitions(transaction: Transaction, event: AddPartitions, outcome: Outcome, now_ms: int) -> None:
    """Add partitions, before they hold anything of the transaction. The first ones open it."""
    error = _check_owner(transaction, event.producer_id, event.producer_epoch)
    standing = transaction.standing
    known = transaction.state is TransactionState.ONGOING and event.partitions <= standing.partitions
    outcome.reply(event.token, error)
    if error is not ErrorCode.NONE or known:
        return
    ongoing = standing.moved(
        TransactionState.ONGOING,
        now_ms,
        partitions=standing.partitions | event.partitions,
        start_ms=now_ms if transaction.state in IDLE else standing.start_ms,
        client_version=event.client_version,
    )
    outcome.records.append(transaction.record(ongoing))


def verify_partitions(transaction: Transaction, event: VerifyPartitions, outcome: Outcome, now_ms: int) -> None:
    """Answer which partitions belong to the open transaction. Nothing changes."""
    error = _check_owner(transaction, event.producer_id, event.producer_epoch)
    if error is not ErrorCode.NONE:
        outcome.reply(event.token, error)
        return
    # An idle id has no partitions.
    outcome.reply(event.token, Verified(event.partitions & transaction.standing.partitions))


def _check_owner(transaction: Transaction, producer_id: int, producer_epoch: int) -> ErrorCode:
    """Return why this producer may not write in a transaction now; NONE if it may."""
    standing = transaction.standing
    if transaction.state in ENDING and (producer_id, producer_epoch) == standing.owner_after_end():
        # The end was answered with a new producer id, because the epochs were used up. Kafka rejects it for good (49).
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if producer_id != standing.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer_epoch != standing.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.state in ENDING else ErrorCode.NONE


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
    events.AddPartitions: add_partitions,
    events.VerifyPartitions: verify_partitions,
    events.EndTransaction: preparation.end_transaction,
    events.LookForTimeout: preparation.look_for_timeout,
    events.Abandon: preparation.abandon,
    events.Expire: expire,
    events.RetryMarkers: completion.retry_markers,
    events.MarkersWritten: completion.markers_written,
    events.MarkersFailed: completion.markers_failed,
    events.Loaded: completion.loaded,
    # No request waits inside this machine, and the next coordinator finds the rest in the log.
    events.Unload: nothing,
    events.AppendFailed: completion.append_failed,
}
