"""The states of a transactional id, and the moves between them.

            partitions added              EndTxn                    every marker is written
      Empty ----------------> Ongoing ---------------> PrepareCommit ----------------------> CompleteCommit
        ^                      | ^                                                             |   |
        |                      | +------------------- partitions added ------------------------+   |
        | InitProducerId       +-> PrepareEpochFence --+                                       |   |
        |                      |   time-out, new owner v              likewise                 |   |
        |                      +----------------> PrepareAbort -------------------------> CompleteAbort
        |                          EndTxn                                                          |
        +------------------------------------------------------------------------------------------+

All but PrepareEpochFence are states of the log: an id enters them when the record that says so is committed, now or
while the log is replayed. From the moment that a Prepare record is committed the transaction *is* committed or aborted;
a coordinator that restarts there writes the markers again and goes on.
"""

from __future__ import annotations

from enum import Enum


class TransactionState(Enum):
    """The state of a transactional id; the value is the name that Kafka shows."""

    # Known, with a producer id and epoch; no transaction since then.
    #   -> Ongoing when partitions are added, -> PrepareAbort (KIP-890: an abort of nothing still raises the epoch),
    #   -> Empty with the next InitProducerId, -> Dead when it has expired.
    EMPTY = "Empty"

    # A transaction writes. Its partitions are in the log before anything is in them.
    #   -> Ongoing with more partitions, -> PrepareCommit or PrepareAbort by EndTxn, -> PrepareEpochFence.
    ONGOING = "Ongoing"

    # Decided: committed, though readers do not know yet. Markers are on their way to every partition. Requests are told
    # CONCURRENT_TRANSACTIONS.
    #   -> CompleteCommit when the last marker is written.
    PREPARE_COMMIT = "PrepareCommit"

    # Decided: aborted; the rest likewise.
    #   -> CompleteAbort when the last marker is written.
    PREPARE_ABORT = "PrepareAbort"

    # The last transaction was committed, and all partitions know.
    #   -> Ongoing, Empty, PrepareAbort, Dead as from Empty.
    COMPLETE_COMMIT = "CompleteCommit"

    # The last transaction was aborted, and all partitions know. -> as CompleteCommit.
    COMPLETE_ABORT = "CompleteAbort"

    # Expired: nothing is known of it. -> nowhere.
    DEAD = "Dead"

    # Only in memory: the coordinator itself ends the transaction, under an epoch that its producer does not have, and
    # the record of it is not committed yet. A failed write leads back to Ongoing.
    #   -> PrepareAbort, -> Ongoing.
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


_IDLE = frozenset(
    {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT, TransactionState.DEAD}
)

LEGAL: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: _IDLE,
    TransactionState.ONGOING: frozenset(
        {
            TransactionState.ONGOING,
            TransactionState.PREPARE_COMMIT,
            TransactionState.PREPARE_ABORT,
            TransactionState.PREPARE_EPOCH_FENCE,
        }
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.COMPLETE_COMMIT}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.COMPLETE_ABORT}),
    TransactionState.COMPLETE_COMMIT: _IDLE,
    TransactionState.COMPLETE_ABORT: _IDLE,
    TransactionState.DEAD: frozenset(),
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.PREPARE_ABORT, TransactionState.ONGOING}),
}
"""From each state, where a transactional id may go next."""

IDLE = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
"""No transaction is open or ending."""

ENDING = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""The end is decided, markers are being written."""


class IllegalMove(Exception):
    """A defect: the machine was about to leave its table of legal moves."""

    def __init__(self, transactional_id: str, state: TransactionState, target: TransactionState) -> None:
        super().__init__(f"transactional id {transactional_id!r} cannot go from {state.value} to {target.value}")
        self.transactional_id = transactional_id
        self.state = state
        self.target = target
