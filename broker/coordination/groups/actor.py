"""A group at work: feeds its machine one event at a time, and does what comes of it.

The machine says what to write, whom to answer and which timers to set; the actor writes, waits for the commit, applies,
answers and sets. While a record of the group itself is on its way into the log, events wait in the inbox, so that the
machine never sees a state that may not last. Commits of offsets do not wait for one another: they leave the machine's
state alone. Whoever takes offsets away waits for the commits that are under way: what they bring would stay. So does
the end of a transaction, for commits that are part of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from ....protocol.errors import EncodeError, ErrorCode, KafkaError
from ..calls import Call, Clock, OnCommitted, TimerHandle, Timers
from . import machine, records
from .events import (
    Answer,
    AppendFailed,
    CommitInTransaction,
    CommitOffsets,
    Delete,
    DeleteOffsets,
    DropTopic,
    EndTransaction,
    Event,
    ExpireOffsets,
    Heartbeat,
    InitialDelayPassed,
    Join,
    Joined,
    Leave,
    Left,
    Outcome,
    RebalanceTimeout,
    SessionExpired,
    SetTimer,
    Sync,
    Synced,
    SyncTimeout,
    TimerEvent,
    Unload,
)
from .group import Group
from .replay import Ended, Written
from .states import GroupState

_TIMERS = (SessionExpired, InitialDelayPassed, RebalanceTimeout, SyncTimeout)
_TAKES_OFFSETS_AWAY = (Delete, DeleteOffsets, DropTopic, EndTransaction, ExpireOffsets)


class OffsetsLog(Protocol):
    """`__consumer_offsets`, as the broker keeps it."""

    def partition_count(self) -> int:
        """`offsets.topic.num.partitions`, or what the topic was made with."""
        ...

    def ensure_topic(self) -> None:
        """Creates the topic at first need."""
        ...

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        on_committed: OnCommitted,
        producer: tuple[int, int] | None = None,
    ) -> None:
        """Appends the records as one batch, in the transaction of a producer (its id and epoch) where one is given;
        calls back once, when they are committed or cannot be, at once if so.
        """
        ...

    def entries(self, partition: int) -> Iterable[Written | Ended]:
        """Every record of the partition that has a key and every end of a transaction, oldest first."""
        ...


class Note(Protocol):
    """Where a line for the log goes."""

    def __call__(self, line: str, /) -> None: ...


class World(NamedTuple):
    """What all actors share: their way out."""

    log: OffsetsLog
    timers: Timers
    clock: Clock
    note: Note
    forget: Callable[[GroupActor], None]
    """Called where a group is dead, or was never more than an unanswered question."""


class _Alarm:
    """A timer of the group. Moving its deadline back costs nothing: it looks again when it rings."""

    __slots__ = ("armed_ms", "deadline_ms", "handle")

    def __init__(self, deadline_ms: int, handle: TimerHandle) -> None:
        self.deadline_ms = deadline_ms
        self.armed_ms = deadline_ms
        self.handle = handle


class GroupActor:
    """One group, its inbox and its timers."""

    __slots__ = (
        "_alarms",
        "_busy",
        "_closed",
        "_inbox",
        "_rung",
        "_under_way",
        "_world",
        "_writing",
        "group",
        "partition",
    )

    def __init__(self, group: Group, partition: int, world: World) -> None:
        self.group = group
        self.partition = partition
        self._world = world
        # Bounded by the connections, each of which has one group request under way, and by the group's timers.
        self._inbox: deque[Event] = deque()
        self._busy = False
        self._writing = False
        self._closed = False
        self._under_way = 0
        """Appends that were not called back yet."""
        # Invariant: one heap entry for each key.
        self._alarms: dict[TimerEvent, _Alarm] = {}
        self._rung: set[TimerEvent] = set()
        """Timers that rang and whose event waits in the inbox, where a later change of heart still counts."""

    def feed(self, event: Event) -> None:
        """Takes an event; handles it now unless the group waits for its log."""
        if self._closed:
            _refuse(event, ErrorCode.NOT_COORDINATOR)
            return
        self._inbox.append(event)
        self._drain()

    def close(self) -> None:
        """The group is coordinated here no longer: whoever waits is sent on. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for alarm in self._alarms.values():
            alarm.handle.cancel()
        self._alarms.clear()
        inbox, self._inbox = self._inbox, deque()
        for event in inbox:
            _refuse(event, ErrorCode.NOT_COORDINATOR)
        self._release(machine.step(self.group, Unload(), self._world.clock.now_ms()))

    def _drain(self) -> None:
        if self._busy:
            return
        self._busy = True
        try:
            while self._inbox and not self._writing:
                if self._under_way and isinstance(self._inbox[0], _TAKES_OFFSETS_AWAY):
                    break
                event = self._inbox.popleft()
                if not isinstance(event, _TIMERS):
                    self._step(event)
                elif event in self._rung:
                    self._rung.remove(event)
                    self._step(event)
        finally:
            self._busy = False
        if not self._under_way and (self.group.state is GroupState.DEAD or self.group.is_blank()):
            self._world.forget(self)

    def _step(self, event: Event) -> None:
        outcome = machine.step(self.group, event, self._world.clock.now_ms())
        if outcome.records:
            self._append(outcome)
        else:
            self._release(outcome)

    # The log.

    def _append(self, outcome: Outcome) -> None:
        self._writing = _concerns_group(outcome)
        self._under_way += 1
        try:
            encoded = [records.encode(record) for record in outcome.records]
        except EncodeError as error:
            self._appended(outcome, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
            return
        self._world.log.append(self.partition, encoded, lambda error: self._appended(outcome, error), outcome.producer)

    def _appended(self, outcome: Outcome, error: KafkaError | None) -> None:
        self._under_way -= 1
        if _concerns_group(outcome):
            self._writing = False
        if error is not None:
            self._world.note(f"group {self.group.group_id}: records were not written: {error}")
            self._fail(outcome, records.append_error(error.code))
        elif self._closed:
            # In the log, so whoever still waits may know; what is in memory is not this broker's to change any more.
            self._answer(outcome)
        else:
            for record in outcome.records:
                self.group.apply(record)
            self._release(outcome)
        self._drain()

    def _fail(self, outcome: Outcome, error: ErrorCode) -> None:
        if self._closed:
            for call, answer in outcome.replies:
                assert isinstance(call, Call)
                call.answer(_refusal(answer, error))
        else:
            self._inbox.appendleft(AppendFailed(outcome, error))

    # Answers and timers.

    def _release(self, outcome: Outcome) -> None:
        for change in outcome.timers:
            if isinstance(change, SetTimer):
                self._set_alarm(change.event, change.delay_ms)
            else:
                self._cancel_alarm(change.event)
        for note in outcome.notes:
            self._world.note(note)
        self._answer(outcome)

    def _answer(self, outcome: Outcome) -> None:
        for call, answer in outcome.replies:
            assert isinstance(call, Call)
            call.answer(answer)

    def _set_alarm(self, event: TimerEvent, delay_ms: int) -> None:
        if self._closed:
            return
        self._rung.discard(event)
        deadline_ms = self._world.clock.monotonic_ms() + delay_ms
        alarm = self._alarms.get(event)
        if alarm is not None and deadline_ms >= alarm.armed_ms:
            alarm.deadline_ms = deadline_ms
            return
        if alarm is not None:
            alarm.handle.cancel()
        handle = self._world.timers.at(deadline_ms, lambda: self._ring(event))
        self._alarms[event] = _Alarm(deadline_ms, handle)

    def _cancel_alarm(self, event: TimerEvent) -> None:
        self._rung.discard(event)
        alarm = self._alarms.pop(event, None)
        if alarm is not None:
            alarm.handle.cancel()

    def _ring(self, event: TimerEvent) -> None:
        alarm = self._alarms.get(event)
        if alarm is None:
            return
        if alarm.deadline_ms > self._world.clock.monotonic_ms():
            alarm.armed_ms = alarm.deadline_ms
            alarm.handle = self._world.timers.at(alarm.deadline_ms, lambda: self._ring(event))
            return
        del self._alarms[event]
        self._rung.add(event)
        self.feed(event)


def _concerns_group(outcome: Outcome) -> bool:
    """Whether the group itself changes with these records, not only its offsets."""
    return isinstance(outcome.records[-1], records.GroupRecord)


def _refuse(event: Event, error: ErrorCode) -> None:
    """Answers a request that will not be stepped."""
    if not isinstance(
        event, Join | Sync | Heartbeat | Leave | CommitOffsets | CommitInTransaction | Delete | DeleteOffsets
    ):
        return
    assert isinstance(event.token, Call)
    if isinstance(event, Join):
        event.token.answer(Joined(error, event.member_id))
    elif isinstance(event, Sync):
        event.token.answer(Synced(error))
    elif isinstance(event, Leave):
        event.token.answer(Left([error] * len(event.members)))
    else:
        event.token.answer(error)


def _refusal(answer: Answer, error: ErrorCode) -> Answer:
    """An answer of the same kind that says the opposite."""
    if isinstance(answer, Joined):
        return Joined(error, "")
    if isinstance(answer, Synced):
        return Synced(error)
    if isinstance(answer, Left):
        return Left([error] * len(answer.errors))
    return error
