"""How partitions come into a transaction: its record names them before they hold anything of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode
from .events import AddPartitions, Outcome, Verified, VerifyPartitions
from .states import ENDING, IDLE, TransactionState

if TYPE_CHECKING:
    from .machine import Transaction


def add_partitions(transaction: Transaction, event: AddPartitions, outcome: Outcome, now_ms: int) -> None:
    """AddPartitions: the first ones open the transaction."""
    error = check_owner(transaction, event.producer_id, event.producer_epoch)
    standing = transaction.standing
    known = transaction.state is TransactionState.ONGOING and event.partitions <= standing.partitions
    outcome.replies.append((event.token, error))
    if error is not ErrorCode.NONE or known:
        return
    start_ms = now_ms if transaction.state in IDLE else standing.start_ms
    ongoing = transaction.next(
        TransactionState.ONGOING,
        now_ms,
        partitions=standing.partitions | event.partitions,
        start_ms=start_ms,
        client_version=event.client_version,
    )
    transaction.write(ongoing, outcome)


def verify_partitions(transaction: Transaction, event: VerifyPartitions, outcome: Outcome, now_ms: int) -> None:
    """VerifyPartitions: nothing is changed."""
    error = check_owner(transaction, event.producer_id, event.producer_epoch)
    if error is not ErrorCode.NONE:
        outcome.replies.append((event.token, error))
        return
    # In the idle states there are none.
    outcome.replies.append((event.token, Verified(event.partitions & transaction.standing.partitions)))


def check_owner(transaction: Transaction, producer_id: int, producer_epoch: int) -> ErrorCode:
    """Whether this producer owns the id, and no transaction is ending."""
    standing = transaction.standing
    if producer_id != standing.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer_epoch != standing.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.state in ENDING else ErrorCode.NONE
