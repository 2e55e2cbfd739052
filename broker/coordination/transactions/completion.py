"""How a decided transaction ends: every partition gets a marker, then a record moves the id to CompleteCommit or
CompleteAbort.

A marker or record that cannot be written is tried again, however long it takes: the decision stands.
"""

from __future__ import annotations

from ..outcome import AppendFailed, Loaded, SetTimer
from .events import MarkersFailed, MarkersWritten, Outcome, RetryMarkers, error_answer
from .records import TopicPartition
from .states import ENDING, TransactionState
from .transaction import Transaction

# Enough for every limit of the delay. Without a bound the number would grow for as long as a disk is broken.
_MAX_DOUBLINGS = 31

# -- Markers


def markers_written(transaction: Transaction, event: MarkersWritten, outcome: Outcome, now_ms: int) -> None:
    """Complete the transaction with the last marker."""
    if transaction.state in ENDING:
        transaction.unmarked.difference_update(event.partitions)
        transaction.retries = 0
        _complete(transaction, outcome, now_ms)


def markers_failed(transaction: Transaction, event: MarkersFailed, outcome: Outcome, now_ms: int) -> None:
    """Plan another attempt."""
    if transaction.state in ENDING:
        transaction.to_retry.update(event.partitions)
        _retry_later(transaction, outcome)


def retry_markers(transaction: Transaction, event: RetryMarkers, outcome: Outcome, now_ms: int) -> None:
    """Write again what failed: markers, or the record of the end."""
    transaction.retry_is_due = False
    if transaction.state not in ENDING:
        return
    partitions, transaction.to_retry = transaction.to_retry, set()
    if partitions:
        outcome.markers = partitions
    _complete(transaction, outcome, now_ms)


def _retry_later(transaction: Transaction, outcome: Outcome) -> None:
    """Set the timer for all that fails until then. Each delay is twice the one before, up to the limit."""
    if transaction.retry_is_due:
        return
    limits = transaction.limits
    delay_ms = limits.marker_retry_ms << min(transaction.retries, _MAX_DOUBLINGS)
    transaction.retries += 1
    transaction.retry_is_due = True
    outcome.timers.append(SetTimer(RetryMarkers(), min(delay_ms, limits.marker_retry_max_ms)))


def _complete(transaction: Transaction, outcome: Outcome, now_ms: int) -> None:
    if transaction.unmarked:
        return
    prepared = transaction.standing
    producer_id, epoch = prepared.owner_after_end()
    committed = prepared.state is TransactionState.PREPARE_COMMIT
    ended = prepared.moved(
        TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT,
        now_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        partitions=frozenset[TopicPartition](),
    )
    outcome.records.append(transaction.record(ended))


# -- The coordinator and its log


def loaded(transaction: Transaction, event: Loaded, outcome: Outcome, now_ms: int) -> None:
    """Carry out a decision that was found in the log. Write all markers, because some may be missing."""
    if transaction.state in ENDING:
        transaction.found_ending = True
        outcome.markers = transaction.standing.partitions
        how = "commit" if transaction.state is TransactionState.PREPARE_COMMIT else "abort"
        outcome.notes.append(f"transaction of {transaction.transactional_id}: goes on with its {how}")


def append_failed(transaction: Transaction, event: AppendFailed[Outcome], outcome: Outcome, now_ms: int) -> None:
    """Answer the requests with the error, and try the record of an end again."""
    outcome.replies.extend((token, error_answer(answer, event.error)) for token, answer in event.outcome.replies)
    if transaction.state is TransactionState.PREPARE_EPOCH_FENCE:
        transaction.move_to(TransactionState.ONGOING)
    elif transaction.state in ENDING:
        _retry_later(transaction, outcome)
