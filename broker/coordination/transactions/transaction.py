"""The state of one transactional id: its producer, and the transaction that is open or ending.

The machine (machine.py) decides what happens next. Committed records change the state through `apply`, now or while the
log is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .records import LAST_TOLD_EPOCH, NO_ID, Standing, TopicPartition, TransactionRecord
from .states import ENDING, LEGAL, TransactionState


class TransactionLimits(NamedTuple):
    """What the broker gives to every transactional id."""

    # Returns a new producer id. If it raises a KafkaError, the step ends before it has changed anything.
    new_producer_id: Callable[[], int]
    # The finalized feature `transaction.version`: 2 raises the epoch with every end (KIP-890).
    transaction_version: int = 2
    # The delay after a marker that could not be written, since a failed disk does not recover at once. It doubles with
    # each further failure.
    marker_retry_ms: int = 1000
    # The limit of that delay: readers of committed records wait for the marker, also after the disk has recovered.
    marker_retry_max_ms: int = 30_000
    # How long a request may wait for the markers of the last transaction.
    patience_ms: int = 0


class Transaction:
    """One transactional id."""

    def __init__(self, transactional_id: str, limits: TransactionLimits) -> None:
        self.transactional_id = transactional_id
        self.limits = limits
        # Invariant: only `apply` sets it.
        self.standing = Standing(TransactionState.EMPTY)
        # Invariant: only `apply` and `move_to` set it.
        self.state = TransactionState.EMPTY
        # Whether the log has a record of this id.
        self.recorded = False
        # Partitions whose marker is not written yet. Invariant: empty unless the transaction is ending.
        self.unmarked: set[TopicPartition] = set()
        # Those whose marker failed. Invariant: a subset of `unmarked`, and no write is under way.
        self.to_retry: set[TopicPartition] = set()
        # Failures since the last success while the transaction ends.
        self.retries = 0
        # Whether the log was loaded while the transaction ended: its markers may be there already.
        self.found_ending = False
        # Whether the timer of the next attempt runs.
        self.retry_is_due = False
        # A producer id of which a partition has epochs that the coordinator has lost: no new owner gets it.
        self.spent_id = NO_ID

    def move_to(self, target: TransactionState) -> None:
        """Change the state. A move that LEGAL does not list is a defect."""
        assert target in LEGAL[self.state], f"{self.transactional_id!r} cannot go from {self.state} to {target}"
        self.state = target

    def apply(self, record: TransactionRecord) -> None:
        """Let a committed record take effect, now or while the log is loaded."""
        standing = record.standing
        if standing is None:
            self.move_to(TransactionState.DEAD)
            return
        if self.recorded:
            self.move_to(standing.state)
        else:
            # Compaction may have removed the records that led to this state.
            self.state = standing.state
        self.recorded = True
        self.standing = standing
        self.unmarked = set(standing.partitions) if standing.state in ENDING else set()
        self.to_retry = set()
        self.retries = 0
        self.found_ending = False

    def record(self, standing: Standing) -> TransactionRecord:
        """Return the record that gives the id this standing."""
        return TransactionRecord(self.transactional_id, standing)

    @property
    def epochs_used_up(self) -> bool:
        """Return whether the next producer needs a new producer id."""
        return self.standing.producer_epoch >= LAST_TOLD_EPOCH

    def is_blank(self) -> bool:
        """Return whether nothing would be lost if this id were forgotten."""
        return self.state is TransactionState.DEAD or not self.recorded
