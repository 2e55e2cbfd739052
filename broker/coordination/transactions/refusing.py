"""Answers that carry an error."""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from .events import Answer, Producer


def error_answer(answer: Answer, error: ErrorCode) -> Answer:
    """Return an answer of the same kind that carries the error."""
    return Producer(error) if isinstance(answer, Producer) else error
