"""How the end of a transaction is decided: one record moves it to PrepareCommit or PrepareAbort.

The client is answered when that record is committed: from then on nothing can change the decision. With transaction
version 2 (KIP-890) the same record raises the epoch, so that a late batch of the old transaction is fenced. The
response carries the new epoch, or a new producer id if the epochs are used up. Completion (completion.py) follows.
"""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from .events import Abandon, EndTransaction, LookForTimeout, Outcome, Producer
from .records import LAST_TOLD_EPOCH, NO_EPOCH, NO_ID, NO_TIME, RAISES_EPOCH, Standing
from .states import ENDING, IDLE, TransactionState
from .transaction import Transaction

# The time-out of a two-phase transaction (KIP-939): it has none.
NO_TIMEOUT_MS = 2**31 - 1

# -- EndTxn


def end_transaction(transaction: Transaction, event: EndTransaction, outcome: Outcome, now_ms: int) -> None:
    """Decide the end, or answer a repeated request as before."""
    if transaction.state in ENDING and event.client_version >= RAISES_EPOCH:
        # The client may have the epoch of the next transaction already: as Kafka's coordinator, look after the end.
        outcome.reply(event.token, Producer(ErrorCode.CONCURRENT_TRANSACTIONS))
        return
    repeated = _is_repetition(transaction, event)
    error = _check_owner(transaction, event, repeated)
    if error is ErrorCode.NONE:
        error = _check_state(transaction, event, repeated)
    if error is not ErrorCode.NONE:
        outcome.reply(event.token, Producer(error))
    elif repeated and transaction.standing.producer_epoch > LAST_TOLD_EPOCH:
        _replace_id(transaction, event, outcome, now_ms)
    elif repeated or _is_ended(transaction, event):
        standing = transaction.standing
        outcome.reply(event.token, Producer(error, standing.producer_id, standing.producer_epoch))
    else:
        _end(transaction, event, outcome, now_ms)


def _is_repetition(transaction: Transaction, event: EndTransaction) -> bool:
    """Return whether the client repeats the request, with the epoch from before the end (only version 2 can tell)."""
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
    ended = state in IDLE and state is not TransactionState.EMPTY
    if event.producer_id != standing.producer_id and state is TransactionState.EMPTY:
        # The response that told it of the new id was lost.
        ended = event.producer_epoch == standing.last_producer_epoch
    fits = event.producer_epoch == standing.producer_epoch or (repeated and ended)
    return ErrorCode.NONE if fits else ErrorCode.PRODUCER_FENCED


def _check_state(transaction: Transaction, event: EndTransaction, repeated: bool) -> ErrorCode:
    state = transaction.state
    if state is TransactionState.ONGOING:
        return ErrorCode.NONE
    if state in ENDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if repeated or _is_ended(transaction, event):
        committed = state is TransactionState.COMPLETE_COMMIT
        return ErrorCode.NONE if committed is event.commit else ErrorCode.INVALID_TXN_STATE
    # No transaction is open. With version 2 an abort still raises the epoch, since the client may not know whether one
    # of its batches arrived.
    may_abort = event.client_version >= RAISES_EPOCH and not event.commit
    return ErrorCode.NONE if may_abort else ErrorCode.INVALID_TXN_STATE


def _is_ended(transaction: Transaction, event: EndTransaction) -> bool:
    """Return whether a client of version 1 repeats the request after the end, with the same epoch."""
    done = transaction.state in IDLE and transaction.state is not TransactionState.EMPTY
    return done and event.client_version < RAISES_EPOCH


def _replace_id(transaction: Transaction, event: EndTransaction, outcome: Outcome, now_ms: int) -> None:
    """Give a producer a new id that was fenced at its last epoch, and could end nothing with the epoch of the fence."""
    fresh = transaction.standing.moved(
        TransactionState.EMPTY,
        now_ms,
        producer_id=transaction.limits.new_producer_id(),
        producer_epoch=0,
        last_producer_epoch=event.producer_epoch,
        start_ms=NO_TIME,
    )
    outcome.records.append(transaction.record(fresh))
    outcome.reply(event.token, Producer(ErrorCode.NONE, fresh.producer_id, fresh.producer_epoch))


def _end(transaction: Transaction, event: EndTransaction, outcome: Outcome, now_ms: int) -> None:
    now = transaction.standing
    next_id = NO_ID
    if event.client_version >= RAISES_EPOCH and transaction.epochs_used_up:
        next_id = transaction.limits.new_producer_id()
    epoch, last = now.producer_epoch, now.last_producer_epoch
    if event.client_version >= RAISES_EPOCH:
        epoch, last = epoch + 1, epoch
    prepared = now.moved(
        TransactionState.PREPARE_COMMIT if event.commit else TransactionState.PREPARE_ABORT,
        now_ms,
        producer_epoch=epoch,
        last_producer_epoch=last,
        start_ms=now.start_ms if transaction.state is TransactionState.ONGOING else now_ms,
        next_producer_id=next_id,
        client_version=event.client_version,
    )
    _prepare(transaction, prepared, outcome)
    outcome.reply(event.token, Producer(ErrorCode.NONE, *prepared.owner_after_end()))


# -- Decisions of the coordinator


def look_for_timeout(transaction: Transaction, event: LookForTimeout, outcome: Outcome, now_ms: int) -> None:
    """Abort a transaction that has run for longer than its producer's time-out."""
    standing = transaction.standing
    if transaction.state is not TransactionState.ONGOING or standing.timeout_ms == NO_TIMEOUT_MS:
        return
    if standing.start_ms + standing.timeout_ms < now_ms:
        fence(transaction, outcome, now_ms)
        spent = f"its time-out of {standing.timeout_ms} ms is over"
        outcome.notes.append(f"transaction of {transaction.transactional_id}: aborted, {spent}")


def abandon(transaction: Transaction, event: Abandon, outcome: Outcome, now_ms: int) -> None:
    """Abort a transaction of a query that no batch names: its task was repeated, or its driver is gone."""
    standing = transaction.standing
    is_meant = (event.producer_id, event.producer_epoch) == (standing.producer_id, standing.producer_epoch)
    if transaction.state is TransactionState.ONGOING and is_meant:
        fence(transaction, outcome, now_ms)
        outcome.notes.append(f"transaction of {transaction.transactional_id}: aborted, no batch of its query names it")


def fence(transaction: Transaction, outcome: Outcome, now_ms: int) -> None:
    """Abort the open transaction under the next epoch, so that its producer cannot write any more.

    With transaction version 2 that producer may take this epoch (KIP-360), unless another producer comes first.
    """
    transaction.move_to(TransactionState.PREPARE_EPOCH_FENCE)
    now = transaction.standing
    raises = transaction.limits.transaction_version >= RAISES_EPOCH
    prepared = now.moved(
        TransactionState.PREPARE_ABORT,
        now_ms,
        producer_epoch=min(now.producer_epoch + 1, LAST_TOLD_EPOCH + 1),
        last_producer_epoch=now.producer_epoch if raises else NO_EPOCH,
        client_version=transaction.limits.transaction_version,
    )
    _prepare(transaction, prepared, outcome)


def _prepare(transaction: Transaction, prepared: Standing, outcome: Outcome) -> None:
    outcome.records.append(transaction.record(prepared))
    outcome.markers = prepared.partitions
