"""Answers that say no, and what clients are told where records could not be appended."""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from .events import Answer, Producer


def refusal(answer: Answer, error: ErrorCode) -> Answer:
    """An answer of the same kind that says the opposite."""
    return Producer(error) if isinstance(answer, Producer) else error


def append_error(error: ErrorCode) -> ErrorCode:
    """What clients are told where a record could not be appended: they know coordinators, not logs."""
    if error in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    ):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR):
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.UNKNOWN_SERVER_ERROR
