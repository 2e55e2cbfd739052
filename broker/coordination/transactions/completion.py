"""How a transaction ends: the decision is written, every partition gets a marker, the end is written.

    Ongoing -- record --> PrepareCommit or PrepareAbort -- markers --> record --> CompleteCommit or CompleteAbort

The client is answered when the decision is committed: from there on nothing can change it. With transactions of version
2 (KIP-890) the epoch is raised in the same record, so that a batch of the old transaction that is late finds itself
fenced; the answer carries the new epoch, or the new producer id where the epochs are used up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode
from .events import (
    AppendFailed,
    EndTransaction,
    Loaded,
    LookForTimeout,
    Markers,
    MarkersFailed,
    MarkersWritten,
    Outcome,
    Producer,
    RetryMarkers,
    SetTimer,
)
from .records import LAST_TOLD_EPOCH, NO_EPOCH, NO_ID, Standing, TopicPartition
from .refusing import error_answer
from .states import ENDING, IDLE, TransactionState

if TYPE_CHECKING:
    from .machine import Transaction

RAISES_EPOCH = 2
"""From this transaction version on."""

# No cap is further away; without a bound the number would grow for as long as a disk is broken.
_DOUBLINGS = 31

NO_TIMEOUT_MS = 2**31 - 1
"""A transaction of two phases (KIP-939) has no time-out."""


# Requests.


def end_transaction(transaction: Transaction, event: EndTransaction, outcome: Outcome, now_ms: int) -> None:
    """EndTransaction."""
    repeated = _is_repetition(transaction, event)
    error = _check_owner(transaction, event, repeated)
    if error is ErrorCode.NONE:
        error = _check_state(transaction, event, repeated)
    if error is not ErrorCode.NONE:
        outcome.replies.append((event.token, Producer(error)))
    elif repeated or _is_ended(transaction, event):
        standing = transaction.standing
        outcome.replies.append((event.token, Producer(error, standing.producer_id, standing.producer_epoch)))
    else:
        _end(transaction, event, outcome, now_ms)


def _is_repetition(transaction: Transaction, event: EndTransaction) -> bool:
    """The client asks again, with the epoch from before the end (version 2 of transactions alone can tell)."""
    standing = transaction.standing
    if min(standing.client_version, event.client_version) < RAISES_EPOCH:
        return False
    if standing.producer_epoch == event.producer_epoch + 1 and standing.producer_id == event.producer_id:
        return True
    changed_id = standing.previous_producer_id == event.producer_id != standing.producer_id
    return changed_id and event.producer_epoch == LAST_TOLD_EPOCH and standing.producer_epoch == 0


def _check_owner(transaction: Transaction, event: EndTransaction, repeated: bool) -> ErrorCode:
    standing, state = transaction.standing, transaction.state
    if event.producer_id != standing.producer_id and not repeated:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if event.producer_epoch == standing.producer_epoch:
        fits = min(standing.client_version, event.client_version) < RAISES_EPOCH or state not in ENDING
    else:
        fits = repeated and (state in ENDING or (state in IDLE and state is not TransactionState.EMPTY))
    return ErrorCode.NONE if fits else ErrorCode.PRODUCER_FENCED


def _check_state(transaction: Transaction, event: EndTransaction, repeated: bool) -> ErrorCode:
    state = transaction.state
    if state is TransactionState.ONGOING:
        return ErrorCode.NONE
    if state in ENDING:
        committing = state is TransactionState.PREPARE_COMMIT
        return ErrorCode.CONCURRENT_TRANSACTIONS if committing is event.commit else ErrorCode.INVALID_TXN_STATE
    if repeated or _is_ended(transaction, event):
        committed = state is TransactionState.COMPLETE_COMMIT
        return ErrorCode.NONE if committed is event.commit else ErrorCode.INVALID_TXN_STATE
    # Nothing is open. With version 2 an abort still raises the epoch: the client may not know what became of a batch.
    may_abort = event.client_version >= RAISES_EPOCH and not event.commit
    return ErrorCode.NONE if may_abort else ErrorCode.INVALID_TXN_STATE


def _is_ended(transaction: Transaction, event: EndTransaction) -> bool:
    """Version 1 of transactions: the end was reached, and the same epoch asks for it again."""
    done = transaction.state in IDLE and transaction.state is not TransactionState.EMPTY
    return done and event.client_version < RAISES_EPOCH


def _end(transaction: Transaction, event: EndTransaction, outcome: Outcome, now_ms: int) -> None:
    now = transaction.standing
    next_id = NO_ID
    if event.client_version >= RAISES_EPOCH and transaction.epochs_used_up:
        next_id = transaction.limits.new_producer_id()
    epoch, last = now.producer_epoch, now.last_producer_epoch
    if event.client_version >= RAISES_EPOCH:
        epoch, last = epoch + 1, epoch
    prepared = transaction.next(
        TransactionState.PREPARE_COMMIT if event.commit else TransactionState.PREPARE_ABORT,
        now_ms,
        producer_epoch=epoch,
        last_producer_epoch=last,
        start_ms=now.start_ms if transaction.state is TransactionState.ONGOING else now_ms,
        next_producer_id=next_id,
        client_version=event.client_version,
    )
    _decide(transaction, prepared, outcome)
    producer_id, epoch = _owner_after(prepared)
    outcome.replies.append((event.token, Producer(ErrorCode.NONE, producer_id, epoch)))


# The coordinator's own decisions.


def look_for_timeout(transaction: Transaction, event: LookForTimeout, outcome: Outcome, now_ms: int) -> None:
    """LookForTimeout: aborts a transaction that has run for longer than its producer allowed."""
    standing = transaction.standing
    if transaction.state is not TransactionState.ONGOING or standing.timeout_ms == NO_TIMEOUT_MS:
        return
    if standing.start_ms + standing.timeout_ms < now_ms:
        fence(transaction, outcome, now_ms)
        spent = f"its time-out of {standing.timeout_ms} ms is over"
        outcome.notes.append(f"transaction of {transaction.transactional_id}: aborted, {spent}")


def fence(transaction: Transaction, outcome: Outcome, now_ms: int) -> None:
    """Aborts the open transaction under the next epoch: who wrote it cannot write any more.

    With version 2 of transactions the one who wrote it may take this epoch (KIP-360), unless somebody else comes first.
    """
    transaction.move_to(TransactionState.PREPARE_EPOCH_FENCE)
    now = transaction.standing
    raises = transaction.limits.transaction_version >= RAISES_EPOCH
    prepared = transaction.next(
        TransactionState.PREPARE_ABORT,
        now_ms,
        producer_epoch=min(now.producer_epoch + 1, LAST_TOLD_EPOCH + 1),
        last_producer_epoch=now.producer_epoch if raises else NO_EPOCH,
        client_version=transaction.limits.transaction_version,
    )
    _decide(transaction, prepared, outcome)


# Markers.


def _decide(transaction: Transaction, prepared: Standing, outcome: Outcome) -> None:
    transaction.write(prepared, outcome)
    outcome.markers = _markers(prepared, prepared.partitions)


def markers_written(transaction: Transaction, event: MarkersWritten, outcome: Outcome, now_ms: int) -> None:
    """MarkersWritten: with the last one the end is reached."""
    if transaction.state in ENDING:
        transaction.unmarked.difference_update(event.partitions)
        transaction.retries = 0
        _complete(transaction, outcome, now_ms)


def markers_failed(transaction: Transaction, event: MarkersFailed, outcome: Outcome, now_ms: int) -> None:
    """MarkersFailed: another attempt comes later. The decision stands, however long it takes."""
    if transaction.state in ENDING:
        transaction.to_retry.update(event.partitions)
        _retry_later(transaction, outcome)


def _retry_later(transaction: Transaction, outcome: Outcome) -> None:
    """The next attempt, for all that has failed by then: each comes after twice the time, up to the cap."""
    if transaction.retry_is_due:
        return
    limits = transaction.limits
    delay_ms = limits.marker_retry_ms << min(transaction.retries, _DOUBLINGS)
    transaction.retries += 1
    transaction.retry_is_due = True
    outcome.timers.append(SetTimer(RetryMarkers(), min(delay_ms, limits.marker_retry_max_ms)))


def retry_markers(transaction: Transaction, event: RetryMarkers, outcome: Outcome, now_ms: int) -> None:
    """RetryMarkers: what failed is written again, be it markers or the record of the end."""
    transaction.retry_is_due = False
    if transaction.state not in ENDING:
        return
    partitions, transaction.to_retry = transaction.to_retry, set()
    if partitions:
        outcome.markers = _markers(transaction.standing, partitions)
    _complete(transaction, outcome, now_ms)


def loaded(transaction: Transaction, event: Loaded, outcome: Outcome, now_ms: int) -> None:
    """Loaded: a decision that was found in the log is carried out. Nobody knows which markers are there already."""
    if transaction.state in ENDING:
        outcome.markers = _markers(transaction.standing, transaction.standing.partitions)
        how = "commit" if transaction.state is TransactionState.PREPARE_COMMIT else "abort"
        outcome.notes.append(f"transaction of {transaction.transactional_id}: goes on with its {how}")


def append_failed(transaction: Transaction, event: AppendFailed, outcome: Outcome, now_ms: int) -> None:
    """AppendFailed: who asked is told; the record of an end is tried again."""
    outcome.replies.extend((token, error_answer(answer, event.error)) for token, answer in event.outcome.replies)
    if transaction.state is TransactionState.PREPARE_EPOCH_FENCE:
        transaction.move_to(TransactionState.ONGOING)
    elif transaction.state in ENDING:
        _retry_later(transaction, outcome)


def _complete(transaction: Transaction, outcome: Outcome, now_ms: int) -> None:
    if transaction.unmarked:
        return
    prepared = transaction.standing
    producer_id, epoch = _owner_after(prepared)
    committed = prepared.state is TransactionState.PREPARE_COMMIT
    ended = transaction.next(
        TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT,
        now_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        partitions=frozenset[TopicPartition](),
    )
    transaction.write(ended, outcome)


def _owner_after(prepared: Standing) -> tuple[int, int]:
    """The producer id and epoch once the end is reached."""
    if prepared.client_version >= RAISES_EPOCH and prepared.next_producer_id != NO_ID:
        return prepared.next_producer_id, 0
    return prepared.producer_id, prepared.producer_epoch


def _markers(standing: Standing, partitions: Iterable[TopicPartition]) -> Markers:
    commit = standing.state is TransactionState.PREPARE_COMMIT
    return Markers(standing.producer_id, standing.producer_epoch, commit, standing.client_version, sorted(partitions))
