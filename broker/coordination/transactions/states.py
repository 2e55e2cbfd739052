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

All states but PrepareEpochFence are in the log: an id enters them when their record is committed, now or while the log
is loaded. Once a Prepare record is committed, the transaction *is* committed or aborted. A coordinator that restarts
there writes the markers again and goes on.
"""

from __future__ import annotations

from enum import Enum


class TransactionState(Enum):
    """The state of a transactional id, in the order of its numbers in the log. The value is Kafka's name."""

    # It has a producer id and epoch, and no transaction since it got them.
    #   -> Ongoing when partitions are added, -> PrepareAbort (KIP-890: aborting no transaction still raises the epoch),
    #   -> Empty with the next InitProducerId, -> Dead when it has expired.
    EMPTY = "Empty"

    # A transaction is open. The log names its partitions before they hold anything of it.
    #   -> Ongoing with more partitions, -> PrepareCommit or PrepareAbort by EndTxn, -> PrepareEpochFence.
    ONGOING = "Ongoing"

    # Decided: committed, though readers do not see it yet. Every partition gets a marker. Requests get
    # CONCURRENT_TRANSACTIONS.
    #   -> CompleteCommit when the last marker is written.
    PREPARE_COMMIT = "PrepareCommit"

    # Decided: aborted. Otherwise as PrepareCommit.
    #   -> CompleteAbort when the last marker is written.
    PREPARE_ABORT = "PrepareAbort"

    # The last transaction was committed, and all partitions have their marker.
    #   -> Ongoing, Empty, PrepareAbort, Dead as from Empty.
    COMPLETE_COMMIT = "CompleteCommit"

    # The last transaction was aborted, and all partitions have their marker. -> as from CompleteCommit.
    COMPLETE_ABORT = "CompleteAbort"

    # Expired and forgotten. -> nowhere.
    DEAD = "Dead"

    # Only in memory: the coordinator aborts the transaction under an epoch that its producer does not have, and the
    # record is not committed yet. A failed append leads back to Ongoing.
    #   -> PrepareAbort, -> Ongoing.
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


_IDLE = frozenset(
    {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT, TransactionState.DEAD}
)

# The states that each state may be followed by.
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

# No transaction is open or ending.
IDLE = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

# The end is decided, and markers are being written.
ENDING = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
