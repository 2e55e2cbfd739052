"""The actor of one consumer group.

Offset commits do not wait for one another: they leave the state of the group alone. An event that deletes offsets waits
for the commits that are under way, because what these bring would stay. So does the end of a transaction.
"""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from .. import actor
from ..append_errors import append_error
from . import machine, records
from .events import (
    Answer,
    AppendFailed,
    Delete,
    DeleteOffsets,
    DropTopic,
    EndTransaction,
    Event,
    ExpireOffsets,
    InitialDelayPassed,
    Joined,
    Left,
    Outcome,
    RebalanceTimeout,
    Request,
    SessionExpired,
    Synced,
    SyncTimeout,
    Unload,
    rejection,
)
from .group import Group, GroupLimits
from .states import GroupState

_DELETES_OFFSETS = (Delete, DeleteOffsets, DropTopic, EndTransaction, ExpireOffsets)


class GroupActor(actor.Actor[Event, records.Record, Outcome]):
    """One group, its inbox and its timers."""

    __slots__ = ("group",)

    TIMER_EVENTS = (SessionExpired, InitialDelayPassed, RebalanceTimeout, SyncTimeout)

    def __init__(self, group_id: str, partition: int, runtime: actor.Runtime, limits: GroupLimits) -> None:
        super().__init__(group_id, partition, runtime)
        self.group = Group(group_id, limits)

    def apply(self, record: records.Record) -> None:
        self.group.apply(record)

    def _step(self, event: Event, now_ms: int) -> Outcome:
        return machine.step(self.group, event, now_ms)

    def _encode(self, record: records.Record) -> tuple[bytes, bytes | None]:
        return records.encode(record)

    def _is_blank(self) -> bool:
        return self.group.state is GroupState.DEAD or self.group.is_blank()

    def _locks(self, outcome: Outcome) -> bool:
        """Offsets alone do not lock: the group itself does not change with them."""
        return isinstance(outcome.records[-1], records.GroupRecord)

    def _waits(self, event: Event) -> bool:
        return isinstance(event, _DELETES_OFFSETS)

    def _unload(self) -> None:
        self._release(self._step(Unload(), self._runtime.clock.now_ms()))

    def _append_error(self, error: ErrorCode) -> ErrorCode:
        return append_error(error)

    def _append_failed(self, outcome: Outcome, error: ErrorCode) -> Event:
        return AppendFailed(outcome, error)

    def _reject(self, event: Event, error: ErrorCode) -> None:
        if isinstance(event, Request):
            token, answer = rejection(event, error)
            token.answer(answer)

    def _error_answer(self, answer: Answer, error: ErrorCode) -> Answer:
        match answer:
            case Joined():
                return Joined(error, "")
            case Synced():
                return Synced(error)
            case Left():
                return Left([error] * len(answer.errors))
            case _:
                return error

    def _note(self, line: str) -> None:
        self._runtime.note(f"group {self.key}: {line}")
