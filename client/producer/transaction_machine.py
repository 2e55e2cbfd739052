"""The machine of a transactional producer: calls and responses go in, the next request comes out. No loop, no wire.

    while (action := machine.next_action()) is not None:
        send its request; then machine.initialized / partitions_added / ... / failed

One action is under way at a time. An action whose outcome is unknown (no response) is asked for again until a response
says what became of it, because EndTxn depends on whether the coordinator knows the transaction.

Version 1 adds partitions and groups before they are written to, and keeps the epoch from transaction to transaction; a
lost sequence costs an InitProducerId. Version 2 (KIP-890) adds them by writing, and gets a new epoch from each EndTxn.

States and moves are those of Java's TransactionManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ...protocol.errors import ErrorCode, KafkaError
from ..errors import InvalidTransactionState, ProducerFenced, ProducerUnusable, TransactionFailed
from ..record import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from .batch import NO_PRODUCER_ID, ProducerIdAndEpoch

E = ErrorCode
# The first version in which partitions and groups are added by writing to them.
IMPLICIT = 2


# -- States


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


# -- Actions: one request each


@dataclass(frozen=True, slots=True)
class Initialize:
    """InitProducerId: the first epoch, or the one after that of `producer`."""

    producer: ProducerIdAndEpoch


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """AddPartitionsToTxn: the transaction is about to write to these partitions (version 1)."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class AddGroup:
    """AddOffsetsToTxn: the transaction is about to commit offsets of this group (version 1)."""

    group_id: str


@dataclass(frozen=True, slots=True, eq=False)
class CommitOffsets:
    """TxnOffsetCommit: the offsets of a group that become visible with the transaction."""

    group: ConsumerGroupMetadata
    offsets: Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True, slots=True)
class End:
    """EndTxn: commit or abort."""

    commit: bool


@dataclass(frozen=True, slots=True)
class Write:
    """Produce, which the sender does; only its failures concern the machine."""


Action = Initialize | AddPartitions | AddGroup | CommitOffsets | End


# -- What an error means for the transaction, as in Java.
#
# A retriable error is tried again. Any other error of Produce, AddPartitionsToTxn and TxnOffsetCommit fails the
# transaction, unless FATAL lists it: the abort that follows finds out whether the producer can go on. Any other error
# of InitProducerId, AddOffsetsToTxn and EndTxn is fatal, unless ABORTABLE lists it.


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


# -- The machine


class TransactionMachine:
    """The standing of one transactional producer."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = _T.UNINITIALIZED
        # Transaction version: 1, or 2 where the cluster has finalized it.
        self.version = 1
        self.producer = NO_PRODUCER_ID
        # The number of the transaction that is open, or was open last.
        self.number = 0
        # Why the state is AbortableError or FatalError.
        self.cause: KafkaError | None = None
        # Invariant: the partitions that may be written to now; version 1 has added them.
        self.partitions: set[TopicPartition] = set()
        # Partitions with records that wait to be added, in order.
        self._to_add: dict[TopicPartition, None] = {}
        self._groups: set[str] = set()
        self._offsets: deque[CommitOffsets] = deque()
        # The coordinator may know an open transaction, so it needs an EndTxn.
        self._started = False
        # All records of the ending transaction are done.
        self._settled = False
        # Sequences are lost (version 1), or the cluster has finalized version 2: another epoch is needed.
        self._epoch_spent = False
        # An action without a response.
        self._unanswered: Action | None = None

    # -- Calls of the user

    def initialize(self) -> None:
        """Ask for the first producer id and epoch, which fences earlier producers with the transactional id."""
        self._move(_T.INITIALIZING)

    def begin(self) -> None:
        """Open a transaction. Raises InvalidTransactionState, TransactionFailed, ProducerUnusable."""
        self._check(_T.READY, "begin a transaction")
        self._move(_T.IN_TRANSACTION)
        self.number += 1
        self._settled = False

    def check_open(self) -> None:
        """Raise InvalidTransactionState, TransactionFailed or ProducerUnusable unless a transaction takes records."""
        self._check(_T.IN_TRANSACTION, "send")

    def send_offsets(self, commit: CommitOffsets) -> None:
        """Add offsets to the transaction. Raises as `check_open`."""
        self._check(_T.IN_TRANSACTION, "send offsets")
        self._offsets.append(commit)

    def commit(self) -> None:
        """Begin to commit. Raises InvalidTransactionState, TransactionFailed, ProducerUnusable."""
        self._check(_T.IN_TRANSACTION, "commit")
        self._settled = False
        self._move(_T.COMMITTING)

    def abort(self) -> None:
        """Begin to abort. Raises InvalidTransactionState, ProducerUnusable."""
        if self.state is not _T.ABORTABLE_ERROR:
            self._check(_T.IN_TRANSACTION, "abort")
        self._settled = False
        self._move(_T.ABORTING)
        self._to_add.clear()
        self._offsets.clear()

    def hand_over(self) -> ProducerIdAndEpoch | None:
        """Leave the open transaction to others, who end it; None if nothing was written. Nothing is left to do here.

        Raises InvalidTransactionState, TransactionFailed, ProducerUnusable.
        """
        self._check(_T.IN_TRANSACTION, "hand a transaction over")
        self.cause = KafkaError(ErrorCode.INVALID_TXN_STATE, "its transaction was handed over")
        self._move(_T.FATAL_ERROR)
        return self.producer if self._started else None

    def settled(self) -> None:
        """No record of the ending transaction waits or is in flight any more."""
        self._settled = True

    def _check(self, needed: TransactionState, what: str) -> None:
        if self.state in (_T.ABORTABLE_ERROR, _T.FATAL_ERROR):
            raise self.error()
        if self.state is not needed:
            raise InvalidTransactionState(
                f"cannot {what}: the producer {self.transactional_id!r} is {_WORDS[self.state]}"
            )

    def error(self) -> KafkaError:
        """Return a new error for AbortableError or FatalError."""
        cause, name = self.cause, f"transactional id {self.transactional_id!r}"
        assert cause is not None
        if self.state is not _T.FATAL_ERROR:
            error = TransactionFailed(cause.code, f"{name}: the transaction must be aborted: {cause.message}")
        elif cause.code in FENCED:
            error = ProducerFenced(
                f"{name}: another producer with this id has started, or a transaction of this one took longer than "
                f"transaction_timeout_ms. Close this producer ({cause.message})"
            )
        else:
            error = ProducerUnusable(cause.code, f"{name}: the producer cannot go on, close it: {cause.message}")
        error.__cause__ = cause
        return error

    # -- The sender

    @property
    def discards(self) -> bool:
        """Whether records that are not in flight must not be sent any more."""
        return self.state in DISCARDING

    @property
    def sends(self) -> bool:
        """Whether records of the transaction may be sent."""
        return self._is_live and not self._settled

    @property
    def _is_live(self) -> bool:
        """Whether the transaction may be committed yet."""
        return self.state in (_T.IN_TRANSACTION, _T.COMMITTING)

    def may_write(self, partition: TopicPartition) -> bool:
        """Whether records for the partition may be sent now; if not, `next_action` adds it."""
        if partition in self.partitions:
            return True
        if self.version < IMPLICIT:
            self._to_add[partition] = None
            return False
        self.partitions.add(partition)
        self._started = True
        return True

    def write_failed(self, error: KafkaError, *, sequence_lost: bool) -> None:
        """A batch has failed for good; with `sequence_lost` it may have had its place among the sequences."""
        if sequence_lost and self.version < IMPLICIT:
            self._epoch_spent = True
        if self.sends:
            # The sender has tried a retriable error often enough.
            found = Verdict.ABORT if error.retriable else verdict(Write(), error)
            self._give_up(found, error)

    # -- Requests and responses

    def next_action(self) -> Action | None:
        """Return the request to send now, None if there is nothing to ask for."""
        if self._unanswered is not None and self.state is not _T.FATAL_ERROR:
            return self._unanswered
        if self.state is _T.INITIALIZING:
            return Initialize(self.producer)
        if self._is_live and self._to_add:
            return AddPartitions(tuple(self._to_add))
        if self._is_live and self._offsets:
            return self._next_offsets()
        if self.state in (_T.COMMITTING, _T.ABORTING) and self._settled:
            if self._started:
                return End(self.state is _T.COMMITTING)
            self._complete(self.version)
            return self.next_action()
        return None

    def _next_offsets(self) -> Action:
        commit = self._offsets[0]
        if self.version < IMPLICIT and commit.group.group_id not in self._groups:
            return AddGroup(commit.group.group_id)
        self._started = True
        return commit

    def initialized(self, producer: ProducerIdAndEpoch, version: int) -> None:
        """InitProducerId has returned `producer`; `version` is the cluster's transaction version."""
        self._unanswered = None
        if self.state is _T.FATAL_ERROR:
            return
        self.producer, self.version, self._epoch_spent = producer, version, False
        self._move(_T.READY)

    def partitions_added(self, action: AddPartitions) -> None:
        """AddPartitionsToTxn has succeeded."""
        self._unanswered, self._started = None, True
        for partition in action.partitions:
            self._to_add.pop(partition, None)
            self.partitions.add(partition)

    def group_added(self, action: AddGroup) -> None:
        """AddOffsetsToTxn has succeeded."""
        self._unanswered, self._started = None, True
        self._groups.add(action.group_id)

    def offsets_committed(self, action: CommitOffsets) -> None:
        """TxnOffsetCommit has succeeded."""
        if action in self._offsets:
            self._offsets.remove(action)

    def ended(self, producer: ProducerIdAndEpoch, version: int) -> None:
        """EndTxn has succeeded. `producer` is that of the next transaction, NO_PRODUCER_ID the same (version 1)."""
        self._unanswered = None
        if self.state is _T.FATAL_ERROR:
            return  # a partition said so meanwhile
        if producer != NO_PRODUCER_ID:
            self.producer, self._epoch_spent = producer, False
        self._complete(version)

    def unanswered(self, action: Action) -> None:
        """No response came: the action may or may not have been carried out."""
        if not isinstance(action, CommitOffsets):  # EndTxn comes after it anyway
            self._unanswered = action

    def failed(self, action: Action, error: KafkaError) -> Verdict:
        """A response brought an error, or the request could not be made. Return what becomes of the action."""
        self._unanswered = None
        if self.state is _T.FATAL_ERROR:
            return Verdict.FATAL
        found = verdict(action, error)
        if found is Verdict.RETRY:
            return found
        if found is Verdict.ABORT and isinstance(action, End):
            self._epoch_spent = True
            if self.state is _T.ABORTING:
                found = Verdict.FATAL
        if isinstance(action, AddPartitions):
            self._to_add.clear()
        self._give_up(found, error)
        return found

    def _give_up(self, found: Verdict, error: KafkaError) -> None:
        if found is Verdict.FATAL:
            self.cause = error
            self._move(_T.FATAL_ERROR)
        elif self._is_live:  # otherwise the transaction is being aborted already
            self.cause = error
            self._move(_T.ABORTABLE_ERROR)

    def _complete(self, version: int) -> None:
        self.partitions.clear()
        self._groups.clear()
        self._to_add.clear()
        self._offsets.clear()
        self._started = False
        self.cause = None
        if version != self.version or self._epoch_spent:
            self._move(_T.INITIALIZING)
        else:
            self._move(_T.READY)

    def _move(self, target: TransactionState) -> None:
        assert target in LEGAL[self.state], f"a transactional producer cannot go from {self.state} to {target}"
        self.state = target


_WORDS = {
    _T.UNINITIALIZED: "not started",
    _T.INITIALIZING: "waiting for its producer id",
    _T.READY: "in no transaction: begin one first",
    _T.IN_TRANSACTION: "in a transaction already",
    _T.COMMITTING: "committing its transaction",
    _T.ABORTING: "aborting its transaction",
}
