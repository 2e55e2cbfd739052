"""How partitions come into a transaction: a record names them before they hold anything of the transaction."""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from .events import AddPartitions, Outcome, Verified, VerifyPartitions
from .states import ENDING, IDLE, TransactionState
from .transaction import Transaction


def add_partitions(transaction: Transaction, event: AddPartitions, outcome: Outcome, now_ms: int) -> None:
    """Add partitions. The first ones open the transaction."""
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
