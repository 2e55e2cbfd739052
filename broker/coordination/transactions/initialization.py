"""How a producer takes a transactional id: every epoch has one owner, and each new owner fences the one before.

A new producer gets the next epoch. A producer that continues after an error sends the id and epoch that it has
(KIP-360). It gets the next epoch unless another producer came meanwhile; if it repeats the request, it gets the same
answer. An open transaction of the former owner is first aborted under the next epoch: meanwhile the new producer gets
CONCURRENT_TRANSACTIONS and tries again.
"""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from . import preparation
from .events import Initialize, Outcome, Producer
from .records import LAST_TOLD_EPOCH, NO_EPOCH, NO_ID, NO_TIME, Standing, TopicPartition
from .states import ENDING, TransactionState
from .transaction import Transaction


def initialize(transaction: Transaction, event: Initialize, outcome: Outcome, now_ms: int) -> None:
    """Give the id to the producer. PRODUCER_FENCED if it continues with an id or epoch that is not its own."""
    error = ErrorCode.NONE if _may_have(transaction, event) else ErrorCode.PRODUCER_FENCED
    if error is ErrorCode.NONE and transaction.state in ENDING:
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    if error is not ErrorCode.NONE:
        outcome.reply(event.token, Producer(error))
    elif transaction.state is TransactionState.ONGOING:
        preparation.fence(transaction, outcome, now_ms)
        outcome.notes.append(f"transaction of {transaction.transactional_id}: aborted, a new producer took the id")
        outcome.reply(event.token, Producer(ErrorCode.CONCURRENT_TRANSACTIONS))
    else:
        _take(transaction, event, outcome, now_ms)


def _may_have(transaction: Transaction, event: Initialize) -> bool:
    """Return whether the producer id that it continues with can be its own. `_next_owner` checks the epoch."""
    standing = transaction.standing
    if event.producer_id == NO_ID or standing.producer_epoch == NO_EPOCH:
        return True
    if event.producer_id in (standing.producer_id, standing.owner_after_end()[0]):
        return True
    # It repeats a request after which its epochs were used up and it got a new producer id.
    return event.producer_id == standing.previous_producer_id and event.producer_epoch >= LAST_TOLD_EPOCH


def _take(transaction: Transaction, event: Initialize, outcome: Outcome, now_ms: int) -> None:
    standing = _next_owner(transaction, event, now_ms)
    if standing is None:
        outcome.reply(event.token, Producer(ErrorCode.PRODUCER_FENCED))
        return
    outcome.records.append(transaction.record(standing))
    outcome.reply(event.token, Producer(ErrorCode.NONE, standing.producer_id, standing.producer_epoch))


def _next_owner(transaction: Transaction, event: Initialize, now_ms: int) -> Standing | None:
    """Return the standing with this producer as the owner; None if another producer came meanwhile."""
    now = transaction.standing
    continues = event.producer_id != NO_ID
    producer_id = now.producer_id
    is_spent = now.producer_id == transaction.spent_id != NO_ID
    if (is_spent or transaction.epochs_used_up) and (not continues or event.producer_epoch == now.producer_epoch):
        producer_id, epoch = transaction.limits.new_producer_id(), 0
        last = now.producer_epoch if continues else NO_EPOCH
    elif not continues:
        epoch, last = now.producer_epoch + 1, NO_EPOCH
    elif event.producer_epoch == now.producer_epoch or now.producer_epoch == NO_EPOCH:
        epoch, last = now.producer_epoch + 1, now.producer_epoch
    elif event.producer_epoch == now.last_producer_epoch and (is_spent or now.producer_epoch > LAST_TOLD_EPOCH):
        producer_id, epoch, last = transaction.limits.new_producer_id(), 0, event.producer_epoch
    elif event.producer_epoch == now.last_producer_epoch:
        # The producer repeats a request. If another one had come since, there would be no last epoch.
        epoch, last = now.producer_epoch, now.last_producer_epoch
    else:
        return None
    if producer_id == NO_ID:
        producer_id = transaction.limits.new_producer_id()
    return now.moved(
        TransactionState.EMPTY,
        now_ms,
        producer_id=producer_id,
        # As in Kafka's records of a new id.
        previous_producer_id=producer_id if now.producer_id == NO_ID else now.producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last,
        timeout_ms=event.timeout_ms,
        partitions=frozenset[TopicPartition](),
        start_ms=NO_TIME,
    )
