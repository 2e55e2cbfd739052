"""How a transactional id is forgotten: it was unused for long enough, and no transaction is open."""

from __future__ import annotations

from .events import Expire, Outcome
from .records import TransactionRecord
from .states import IDLE
from .transaction import Transaction


def expire(transaction: Transaction, event: Expire, outcome: Outcome, now_ms: int) -> None:
    """Write a tombstone. A producer that returns later gets INVALID_PRODUCER_ID_MAPPING, and begins again."""
    if transaction.state in IDLE and now_ms - transaction.standing.update_ms >= event.retention_ms:
        outcome.records.append(TransactionRecord(transaction.transactional_id, None))
        outcome.notes.append(f"transactional id {transaction.transactional_id} has expired")
