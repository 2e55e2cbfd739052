"""What happens to a transactional id, and what comes of it: the vocabulary of its machine. Plain values, no behaviour.

An event is a request (Initialize, AddPartitions, VerifyPartitions, EndTransaction), a look at the clock
(LookForTimeout,
Expire), word of the markers (MarkersWritten, MarkersFailed), the one timer (RetryMarkers) or word from the log
(Loaded, AppendFailed). Tokens stand for parked requests; the machine only hands them back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ....protocol.errors import ErrorCode
from .records import NO_EPOCH, NO_ID, TopicPartition, TransactionRecord

Token = object
"""Whatever the caller wants back beside the answer."""


# Requests.


@dataclass(slots=True)
class Initialize:
    """InitProducerId: a producer takes the transactional id, or goes on after an error (KIP-360)."""

    token: Token
    timeout_ms: int
    producer_id: int = NO_ID
    """What the producer has, if it goes on; NO_ID for one that begins."""
    producer_epoch: int = NO_EPOCH


@dataclass(slots=True)
class AddPartitions:
    """AddPartitionsToTxn, AddOffsetsToTxn, or the first batch in a partition (KIP-890)."""

    token: Token
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int


@dataclass(slots=True)
class VerifyPartitions:
    """AddPartitionsToTxn that only asks whether partitions were added."""

    token: Token
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


@dataclass(slots=True)
class EndTransaction:
    """EndTxn."""

    token: Token
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


@dataclass(slots=True)
class Loaded:
    """The id was found in the log: a transaction that was ending goes on ending."""


@dataclass(slots=True)
class AppendFailed:
    """The records of an outcome were not committed, so that nothing of it came to be."""

    outcome: Outcome
    error: ErrorCode
    """What the clients are told, in terms of a coordinator."""


Request = Initialize | AddPartitions | VerifyPartitions | EndTransaction
Event = Request | LookForTimeout | Expire | RetryMarkers | MarkersWritten | MarkersFailed | Loaded | AppendFailed


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


Answer = Producer | Verified | ErrorCode
"""AddPartitions is answered with an ErrorCode alone, and so is a VerifyPartitions that is refused."""


@dataclass(slots=True)
class Markers:
    """Write these: how the transaction ended, into each of its partitions."""

    producer_id: int
    producer_epoch: int
    commit: bool
    client_version: int
    partitions: list[TopicPartition]


@dataclass(slots=True)
class SetTimer:
    """Bring `event` after `delay_ms`, instead of an earlier one."""

    event: RetryMarkers
    delay_ms: int


@dataclass(slots=True)
class Outcome:
    """What is to be done after a step.

    With records: append them; once they are committed `apply` each, then send the replies, set the timers and write the
    markers. Until then the machine is not stepped again. Where they could not be committed nothing of the outcome is
    done, and the machine is told by AppendFailed. Without records, all else is due at once.
    """

    records: list[TransactionRecord] = field(default_factory=list[TransactionRecord])
    replies: list[tuple[Token, Answer]] = field(default_factory=list[tuple[Token, Answer]])
    timers: list[SetTimer] = field(default_factory=list[SetTimer])
    markers: Markers | None = None
    notes: list[str] = field(default_factory=list[str])
    """For the log."""
