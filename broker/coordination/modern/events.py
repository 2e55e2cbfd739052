"""The events that consumer groups and share groups both take, and the answers to a heartbeat. Plain values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ....protocol.errors import ErrorCode
from .state import ModernGroup, Place, Targets

# The epoch of a heartbeat with which a member leaves.
LEAVE_EPOCH = -1


class Rejection(NamedTuple):
    """An error for a client, with its text."""

    error: ErrorCode
    message: str | None = None


@dataclass(slots=True)
class Beat:
    """The answer to a heartbeat that is not rejected. The assignment is None where it is as the member knows it."""

    member_id: str
    epoch: int
    assignment: tuple[Place, ...] | None = None


class MemberSilent(NamedTuple):
    """A member sent no heartbeat for the group's session timeout."""

    member_id: str
    kind: str = "session"


@dataclass(slots=True)
class TargetComputed:
    """The target of a large group for an epoch. `work` computes it, in a thread, and `targets` are what came of it."""

    # The group that it is of: another one may have its id by then.
    body: ModernGroup[Any]
    epoch: int
    work: Callable[[], Targets]
    targets: Targets = field(default_factory=dict[str, set[Place]])
