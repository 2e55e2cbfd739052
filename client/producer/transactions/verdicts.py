"""What an error means for a transaction: try again, abort, or give the producer up. As in Java.

A retriable error is tried again. Any other error of Produce, AddPartitionsToTxn and TxnOffsetCommit fails the
transaction, unless FATAL lists it: the abort that follows finds out whether the producer can go on. Any other error of
InitProducerId, AddOffsetsToTxn and EndTxn is fatal, unless ABORTABLE lists it.
"""

from __future__ import annotations

from enum import Enum

from ....protocol.errors import ErrorCode, KafkaError
from .actions import Action, AddGroup, AddPartitions, CommitOffsets, End, Initialize, Write

E = ErrorCode


class Verdict(Enum):
    """What becomes of an action that failed."""

    RETRY = "retry"
    ABORT = "abort"
    FATAL = "fatal"


# The coordinator has given the transactional id a newer epoch.
FENCED = frozenset({E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH})

_NOT_OURS = {
    E.PRODUCER_FENCED,
    E.INVALID_PRODUCER_ID_MAPPING,
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    E.CLUSTER_AUTHORIZATION_FAILED,
    E.UNSUPPORTED_VERSION,
}

FATAL: dict[type, frozenset[ErrorCode]] = {
    # A partition may still say INVALID_PRODUCER_EPOCH of an epoch that the coordinator raised itself (KIP-588).
    Write: frozenset(_NOT_OURS),
    AddPartitions: frozenset(_NOT_OURS | {E.INVALID_PRODUCER_EPOCH, E.INVALID_TXN_STATE}),
    CommitOffsets: frozenset(_NOT_OURS | {E.INVALID_PRODUCER_EPOCH, E.UNSUPPORTED_FOR_MESSAGE_FORMAT}),
}

ABORTABLE: dict[type, frozenset[ErrorCode]] = {
    Initialize: frozenset(),
    AddGroup: frozenset(
        {E.GROUP_AUTHORIZATION_FAILED, E.INVALID_GROUP_ID, E.UNKNOWN_PRODUCER_ID, E.TRANSACTION_ABORTABLE}
    ),
    End: frozenset({E.UNKNOWN_PRODUCER_ID, E.TRANSACTION_ABORTABLE}),
}


def verdict(action: Action | Write, error: KafkaError) -> Verdict:
    """Return what becomes of an action after an error, while the transaction could still be aborted."""
    kind = type(action)
    if error.retriable:
        return Verdict.RETRY
    if kind in FATAL:
        return Verdict.FATAL if error.code in FATAL[kind] else Verdict.ABORT
    return Verdict.ABORT if error.code in ABORTABLE[kind] else Verdict.FATAL
