"""What one kind of actor does: the functions in which the kinds differ, and the errors that clients get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ...protocol.errors import ErrorCode
from .outcome import Outcome

StateT = TypeVar("StateT")
EventT = TypeVar("EventT")
OutcomeT = TypeVar("OutcomeT", bound=Outcome[Any, Any])


@dataclass(frozen=True, slots=True)
class Machine(Generic[StateT, EventT, OutcomeT]):
    """One kind of machine, as the functions that differ between groups, transactional ids and share states."""

    # The kind of actor in lines of the log, such as "group".
    noun: str
    step: Callable[[StateT, Any, int], OutcomeT]
    apply: Callable[[StateT, Any], None]
    encode: Callable[[Any], tuple[bytes, bytes | None]]
    # Whether nothing would be lost without this state.
    is_blank: Callable[[StateT], bool]
    # The events that timers bring.
    timer_events: tuple[type, ...]
    # The coordinator's error for an error of the log.
    append_error: Callable[[ErrorCode], ErrorCode]
    # Answers a request that the machine will not see; ignores other events.
    reject: Callable[[EventT, ErrorCode], None]
    # An answer of the same kind that carries an error.
    error_answer: Callable[[Any, ErrorCode], Any]
    # Whether events must wait until the records of this outcome are committed.
    locks: Callable[[OutcomeT], bool] = lambda _: True
    # Whether this event must wait for all appends, even for one that does not lock.
    waits: Callable[[EventT], bool] = lambda _: False
    # The events whose step may take long, and whether it does.
    long_events: tuple[type, ...] = ()
    is_long: Callable[[StateT, EventT], bool] | None = None
    # How many milliseconds a request with this outcome may be put off before it is answered so. None: not at all.
    patience_ms: Callable[[StateT, OutcomeT], int] | None = None


# The errors that clients get when records cannot be appended: they know coordinators, not logs.
_ANSWERS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # The topic does not exist, and cannot be created: its config asks for too many partitions.
    ErrorCode.POLICY_VIOLATION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_error(error: ErrorCode, default: ErrorCode | None = None) -> ErrorCode:
    """Return the coordinator's error for an error of the log: `default`, or the same error, if no other fits."""
    return _ANSWERS.get(error, error if default is None else default)
