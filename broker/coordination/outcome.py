"""The outcome of a step of a coordinator's machine: records to append, clients to answer, timers to set.

Plain values, which every machine of a coordinator returns: of groups, of transactional ids and of share states.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from ...protocol.errors import ErrorCode

AnswerT_contra = TypeVar("AnswerT_contra", contravariant=True)
AnswerT = TypeVar("AnswerT")
RecordT = TypeVar("RecordT")
TimerT = TypeVar("TimerT")
OutcomeT = TypeVar("OutcomeT")


class Token(Protocol[AnswerT_contra]):
    """A waiting request. The machine only hands it back, beside the answer."""

    def answer(self, answer: AnswerT_contra, /) -> None: ...


# A token and the answer that it takes.
Reply = tuple[Token[Any], Any]


@dataclass(slots=True)
class SetTimer(Generic[TimerT]):
    """Feed `event` after `delay_ms`. This replaces an earlier timer of the same event."""

    event: TimerT
    delay_ms: int


@dataclass(slots=True)
class CancelTimer(Generic[TimerT]):
    """Do not feed `event` any more."""

    event: TimerT


@dataclass(slots=True)
class Outcome(Generic[RecordT, TimerT]):
    """What to do after a step.

    With records: append them. Once they are committed, apply each, then send the replies and set the timers. If they
    cannot be committed, do nothing of the outcome and feed AppendFailed. Without records, all else is due at once.
    """

    records: list[RecordT] = field(default_factory=list[RecordT])
    replies: list[Reply] = field(default_factory=list[Reply])
    timers: list[SetTimer[TimerT] | CancelTimer[TimerT]] = field(
        default_factory=list[SetTimer[TimerT] | CancelTimer[TimerT]]
    )
    # The records are part of a transaction of this producer (id and epoch).
    producer: tuple[int, int] | None = None
    # Lines for the log.
    notes: list[str] = field(default_factory=list[str])

    def reply(self, token: Token[AnswerT], answer: AnswerT) -> None:
        """Answer a request."""
        self.replies.append((token, answer))


# -- Events of every machine


@dataclass(slots=True)
class Loaded:
    """The partition was read from the log: go on from the state that the records left."""


@dataclass(slots=True)
class Unload:
    """This broker stops, or does not coordinate the partition any more: answer the requests that wait."""


@dataclass(slots=True)
class AppendFailed(Generic[OutcomeT]):
    """The records of an outcome were not committed: nothing of the outcome has happened."""

    outcome: OutcomeT
    # The error for clients: that of a coordinator, not of a log.
    error: ErrorCode


def nothing(state: Any, event: Any, outcome: Any, now_ms: int) -> None:
    """Do nothing: the step of an event that a machine need not know."""
