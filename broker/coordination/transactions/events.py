"""The events, answers and outcome of the machine of a transactional id. Plain values.

An event is a request (Initialize, AddPartitions, VerifyPartitions, EndTransaction), a check of the coordinator
(LookForTimeout, Abandon, Expire), the result of markers (MarkersWritten, MarkersFailed), the one timer (RetryMarkers),
or something that happened to the log (Loaded, Unload, AppendFailed).
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from ....protocol.errors import ErrorCode
from .. import outcome
from ..outcome import AppendFailed, Loaded, SetTimer, Token, Unload
from .records import NO_EPOCH, NO_ID, TopicPartition, TransactionRecord

# -- Requests


@dataclass(slots=True)
class Initialize:
    """InitProducerId: a producer takes the transactional id, or continues after an error (KIP-360)."""

    token: Token[Producer]
    timeout_ms: int
    # What the producer has, if it continues.
    producer_id: int = NO_ID
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
    """An AddPartitionsToTxn that adds nothing: it verifies that partitions were added."""

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


# -- Checks and timers


@dataclass(slots=True)
class LookForTimeout:
    """Abort the transaction if it has run for longer than its producer's time-out."""


@dataclass(slots=True)
class Abandon:
    """Abort this producer's transaction if it is open: it belongs to no batch of its query any more."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class Expire:
    """Forget the id if it was unused for `retention_ms`."""

    retention_ms: int


@dataclass(frozen=True, slots=True)
class RetryMarkers:
    """The one timer: write again the markers, or the record of the end, that could not be written."""


# -- Markers


@dataclass(slots=True)
class MarkersWritten:
    """These partitions have their marker, or need none any more."""

    partitions: Iterable[TopicPartition]


@dataclass(slots=True)
class MarkersFailed:
    """The markers of these partitions could not be written."""

    partitions: Iterable[TopicPartition]


Request = Initialize | AddPartitions | VerifyPartitions | EndTransaction


# -- Answers and outcome


@dataclass(frozen=True, slots=True)
class Producer:
    """The answer to Initialize and EndTransaction: the producer id and epoch to use from then on."""

    error: ErrorCode
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH


@dataclass(slots=True)
class Verified:
    """The answer to VerifyPartitions: those of them that were added."""

    added: frozenset[TopicPartition]


# AddPartitions is answered with an ErrorCode alone, and so is a VerifyPartitions that is rejected.
Answer = Producer | Verified | ErrorCode


def error_answer(answer: Answer, error: ErrorCode) -> Answer:
    """Return an answer of the same kind that carries the error."""
    return Producer(error) if isinstance(answer, Producer) else error


@dataclass(slots=True)
class Outcome(outcome.Outcome[TransactionRecord, RetryMarkers]):
    """What to do after a step."""

    # Where the decision needs its marker, once the records are committed. None: it is not decided, or has them all.
    markers: Set[TopicPartition] | None = None


Event = (
    Request
    | LookForTimeout
    | Abandon
    | Expire
    | RetryMarkers
    | MarkersWritten
    | MarkersFailed
    | Loaded
    | Unload
    | AppendFailed[Outcome]
)

__all__ = ["AppendFailed", "Loaded", "SetTimer", "Token", "Unload"]
