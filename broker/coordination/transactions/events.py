"""What happens to a transactional id, and what comes of it: the vocabulary of its machine. Plain values, no behaviour.

An event is a request (Initialize, AddPartitions, VerifyPartitions, EndTransaction), a look at the clock
(LookForTimeout,
Expire), word of the markers (MarkersWritten, MarkersFailed), the one timer (RetryMarkers) or word from the log
(Loaded, AppendFailed). Tokens stand for parked requests; the machine only hands them back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ....protocol.errors import ErrorCode
from .. import outcome
from ..outcome import Loaded, SetTimer, Token, Unload
from .records import NO_EPOCH, NO_ID, Standing, TopicPartition, TransactionRecord
from .states import TransactionState

# Requests.


@dataclass(slots=True)
class Initialize:
    """InitProducerId: a producer takes the transactional id, or goes on after an error (KIP-360)."""

    token: Token[Producer]
    timeout_ms: int
    producer_id: int = NO_ID
    """What the producer has, if it goes on; NO_ID for one that begins."""
    producer_epoch: int = NO_EPOCH


@dataclass(slots=True)
class AddPartitions:
    """AddPartitionsToTxn, AddOffsetsToTxn, or the first batch in a partition (KIP-890)."""

    token: Token[ErrorCode]
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int


@dataclass(slots=True)
class VerifyPartitions:
    """AddPartitionsToTxn that only asks whether partitions were added."""

    token: Token[Verified | ErrorCode]
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


@dataclass(slots=True)
class EndTransaction:
    """EndTxn."""

    token: Token[Producer]
    producer_id: int
    producer_epoch: int
    commit: bool
    client_version: int


# The clock.


@dataclass(slots=True)
class LookForTimeout:
    """Time to abort the transaction if it has run for longer than its producer allowed."""


@dataclass(slots=True)
class Expire:
    """Time to forget the id if nothing happened to it for so long."""

    retention_ms: int


@dataclass(frozen=True, slots=True)
class RetryMarkers:
    """The one timer: markers, or the record that says that all are written, could not be written."""


# Word from the partitions, the coordinator and the log.


@dataclass(slots=True)
class MarkersWritten:
    """These partitions know how the transaction ended, or exist no longer."""

    partitions: Iterable[TopicPartition]


@dataclass(slots=True)
class MarkersFailed:
    """These partitions could not be told now."""

    partitions: Iterable[TopicPartition]


Request = Initialize | AddPartitions | VerifyPartitions | EndTransaction


# What comes of an event.


@dataclass(frozen=True, slots=True)
class Producer:
    """The answer to Initialize and EndTransaction: the id and epoch to go on with."""

    error: ErrorCode
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH


@dataclass(slots=True)
class Verified:
    """The answer to VerifyPartitions: which of them were added."""

    added: frozenset[TopicPartition]


# AddPartitions is answered with an ErrorCode alone, and so is a VerifyPartitions that is rejected.
Answer = Producer | Verified | ErrorCode


def error_answer(answer: Answer, error: ErrorCode) -> Answer:
    """Return an answer of the same kind that carries the error."""
    return Producer(error) if isinstance(answer, Producer) else error


@dataclass(slots=True)
class Markers:
    """Write these: how the transaction ended, into each of its partitions."""

    producer_id: int
    producer_epoch: int
    commit: bool
    client_version: int
    partitions: list[TopicPartition]

    @classmethod
    def of(cls, standing: Standing, partitions: Iterable[TopicPartition]) -> Markers:
        """Return the markers that this decision needs in these partitions."""
        commit = standing.state is TransactionState.PREPARE_COMMIT
        who = standing.producer_id, standing.producer_epoch
        return cls(*who, commit, standing.client_version, sorted(partitions))


@dataclass(slots=True)
class Outcome(outcome.Outcome[TransactionRecord, RetryMarkers]):
    """What to do after a step: with records, the markers are due once they are committed."""

    markers: Markers | None = None


@dataclass(slots=True)
class AppendFailed(outcome.AppendFailed[Outcome]):
    """The records of this outcome were not committed."""


Event = (
    Request | LookForTimeout | Expire | RetryMarkers | MarkersWritten | MarkersFailed | Loaded | Unload | AppendFailed
)

__all__ = ["Loaded", "SetTimer", "Token", "Unload"]
