"""The states of a transactional producer, and the moves between them: those of Java's TransactionManager.

    Uninitialized -> Initializing -> Ready -> InTransaction -> Committing -> Ready
                                                  |   |            |
                                                  |   |            v
                                                  |   +----> AbortableError
                                                  |                |
                                                  +-> Aborting <---+
                                                          |
                                                          +--> Ready

Committing and Aborting lead to Initializing if the producer needs another epoch first. Every state but Uninitialized
leads to FatalError, which nothing leads out of.
"""

from __future__ import annotations

from enum import Enum


class TransactionState(Enum):
    """The state of a transactional producer."""

    # The producer was not started. -> Initializing.
    UNINITIALIZED = "Uninitialized"

    # InitProducerId gets the first epoch, or the next one after sequences were lost. -> Ready, -> FatalError.
    INITIALIZING = "Initializing"

    # No transaction is open. -> InTransaction with `begin`.
    READY = "Ready"

    # Records and offsets are accepted. -> Committing, -> Aborting, -> AbortableError if any of them fails.
    IN_TRANSACTION = "InTransaction"

    # The user has asked to commit: what was accepted is sent and acknowledged, then EndTxn.
    #   -> Ready, -> Initializing, -> AbortableError while it is not certain to commit.
    COMMITTING = "Committing"

    # What was not sent fails, what was sent is waited for, then EndTxn. -> Ready, -> Initializing.
    ABORTING = "Aborting"

    # A record or an offset of the transaction has failed: the transaction cannot be committed any more. -> Aborting.
    ABORTABLE_ERROR = "AbortableError"

    # The producer cannot go on, for example because another one has its transactional id. -> nowhere.
    FATAL_ERROR = "FatalError"


_T = TransactionState

# The states that each state may be followed by.
LEGAL: dict[TransactionState, frozenset[TransactionState]] = {
    _T.UNINITIALIZED: frozenset({_T.INITIALIZING}),
    _T.INITIALIZING: frozenset({_T.READY, _T.FATAL_ERROR}),
    _T.READY: frozenset({_T.IN_TRANSACTION}),
    _T.IN_TRANSACTION: frozenset({_T.COMMITTING, _T.ABORTING, _T.ABORTABLE_ERROR, _T.FATAL_ERROR}),
    _T.COMMITTING: frozenset({_T.READY, _T.INITIALIZING, _T.ABORTABLE_ERROR, _T.FATAL_ERROR}),
    _T.ABORTING: frozenset({_T.READY, _T.INITIALIZING, _T.FATAL_ERROR}),
    _T.ABORTABLE_ERROR: frozenset({_T.ABORTING, _T.FATAL_ERROR}),
    _T.FATAL_ERROR: frozenset(),
}

# EndTxn, or what must come before it, is under way.
ENDING = frozenset({_T.COMMITTING, _T.ABORTING, _T.INITIALIZING})

# Records that are not sent yet must not be sent any more.
DISCARDING = frozenset({_T.ABORTING, _T.ABORTABLE_ERROR, _T.FATAL_ERROR})


class IllegalMove(Exception):
    """A defect: the machine tried a move that LEGAL does not list."""

    def __init__(self, state: TransactionState, target: TransactionState) -> None:
        super().__init__(f"a transactional producer cannot go from {state.value} to {target.value}")
