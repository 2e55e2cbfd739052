"""An actor runs one consumer group or one transactional id: it feeds the machine with one event at a time.

The machine is pure. It says what to append, whom to answer and which timers to set; the actor does it. Records take
effect, and their outcome is released, once they are committed. Meanwhile events wait in the inbox, so that the machine
never sees a state that may not last. What differs between the two kinds of machine stands in the abstract methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from ...protocol.errors import EncodeError, ErrorCode, KafkaError
from .alarms import Alarms
from .interfaces import Clock, StateLog, Timers
from .outcome import Outcome, SetTimer

EventT = TypeVar("EventT")
RecordT = TypeVar("RecordT")
OutcomeT = TypeVar("OutcomeT", bound=Outcome[Any, Any])


class Runtime(NamedTuple):
    """What all actors of a coordinator share."""

    log: StateLog
    timers: Timers
    clock: Clock
    # Writes a line into the broker's log.
    note: Callable[[str], None]
    # Called by an actor whose machine has nothing to remember: it is dead, or it never had a record.
    forget: Callable[[Actor[Any, Any, Any]], None]


class Actor(ABC, Generic[EventT, RecordT, OutcomeT]):
    """One machine, its inbox and its timers."""

    __slots__ = ("_alarms", "_appending", "_closed", "_draining", "_inbox", "_locked", "_runtime", "key", "partition")

    # The events that timers bring.
    TIMER_EVENTS: ClassVar[tuple[type, ...]]

    def __init__(self, key: str, partition: int, runtime: Runtime) -> None:
        # The group id or the transactional id.
        self.key = key
        # The partition of the internal topic that holds its records.
        self.partition = partition
        self._runtime = runtime
        # Bounded: each connection has one request under way, and a machine has few timers.
        self._inbox: deque[EventT] = deque()
        self._alarms: Alarms[EventT] = Alarms(runtime.timers, runtime.clock, self.feed)
        # How many appends are neither committed nor failed yet.
        self._appending = 0
        # Whether one of them makes all events wait.
        self._locked = False
        self._draining = False
        self._closed = False

    # -- What one kind of machine does otherwise than the other

    @abstractmethod
    def apply(self, record: RecordT) -> None:
        """Change the state as a committed record says, now or while the log is loaded."""

    @abstractmethod
    def _step(self, event: EventT, now_ms: int) -> OutcomeT: ...

    @abstractmethod
    def _encode(self, record: RecordT) -> tuple[bytes, bytes | None]: ...

    @abstractmethod
    def _is_blank(self) -> bool:
        """Return whether the machine has nothing to remember."""

    @abstractmethod
    def _append_error(self, error: ErrorCode) -> ErrorCode:
        """Return what clients are told when the log fails with this error."""

    @abstractmethod
    def _append_failed(self, outcome: OutcomeT, error: ErrorCode) -> EventT:
        """Return the event that tells the machine that an outcome has not happened."""

    @abstractmethod
    def _reject(self, event: EventT, error: ErrorCode) -> None:
        """Answer a request that the machine will not see. Ignore other events."""

    @abstractmethod
    def _error_answer(self, answer: Any, error: ErrorCode) -> Any:
        """Return an answer of the same kind that carries the error."""

    def _locks(self, outcome: OutcomeT) -> bool:
        """Return whether events must wait until the records of this outcome are committed."""
        return True

    def _waits(self, event: EventT) -> bool:
        """Return whether this event must wait for every append, even for one that does not lock."""
        return False

    def _unload(self) -> None:
        """Answer the requests that wait inside the machine."""

    # -- Events

    @property
    def is_busy(self) -> bool:
        """Return whether an event would have to wait."""
        return self._draining or self._locked or bool(self._inbox)

    def feed(self, event: EventT) -> None:
        """Take an event. Handle it now unless it has to wait for the log."""
        if self._closed:
            self._reject(event, ErrorCode.NOT_COORDINATOR)
            return
        self._inbox.append(event)
        self._drain()

    def _feed_first(self, event: EventT) -> None:
        """Take an event that goes before those that wait."""
        if not self._closed:
            self._inbox.appendleft(event)
            self._drain()

    def close(self) -> None:
        """Send every waiting client to another coordinator. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._alarms.cancel_all()
        inbox, self._inbox = self._inbox, deque()
        for event in inbox:
            self._reject(event, ErrorCode.NOT_COORDINATOR)
        self._unload()

    def _drain(self) -> None:
        if self._draining:
            return
        self._draining = True
        try:
            while self._inbox and not self._locked:
                if self._appending and self._waits(self._inbox[0]):
                    break
                self._handle(self._inbox.popleft())
        finally:
            self._draining = False
        if not self._appending and self._is_blank():
            self._runtime.forget(self)

    def _handle(self, event: EventT) -> None:
        if isinstance(event, self.TIMER_EVENTS) and not self._alarms.take(event):
            # The timer was set again or cancelled while its event waited.
            return
        try:
            outcome = self._step(event, self._runtime.clock.now_ms())
        except KafkaError as error:
            # No producer id could be allocated: nothing has changed.
            self._note(f"{type(event).__name__} failed: {error}")
            self._reject(event, self._append_error(error.code))
            return
        if outcome.records:
            self._append(outcome)
        else:
            self._release(outcome)

    # -- The log

    def _append(self, outcome: OutcomeT) -> None:
        self._locked = self._locks(outcome)
        self._appending += 1
        try:
            encoded = [self._encode(record) for record in outcome.records]
        except EncodeError as error:
            self._appended(outcome, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
            return
        done = partial(self._appended, outcome)
        self._runtime.log.append(self.partition, encoded, done, outcome.producer)

    def _appended(self, outcome: OutcomeT, error: KafkaError | None) -> None:
        self._appending -= 1
        if self._locks(outcome):
            self._locked = False
        if error is not None:
            self._note(f"records were not written: {error}")
            self._fail(outcome, self._append_error(error.code))
        elif self._closed:
            # The records are in the log, so the clients get their answers. The state belongs to the next coordinator.
            self._answer(outcome)
        else:
            for record in outcome.records:
                self.apply(record)
            self._release(outcome)
        self._drain()

    def _fail(self, outcome: OutcomeT, error: ErrorCode) -> None:
        if not self._closed:
            self._inbox.appendleft(self._append_failed(outcome, error))
            return
        for token, answer in outcome.replies:
            token.answer(self._error_answer(answer, error))

    # -- What is due once the records are committed

    def _release(self, outcome: OutcomeT) -> None:
        for change in outcome.timers:
            if not isinstance(change, SetTimer):
                self._alarms.cancel(change.event)
            elif not self._closed:
                self._alarms.set(change.event, change.delay_ms)
        for note in outcome.notes:
            self._runtime.note(note)
        self._answer(outcome)

    def _answer(self, outcome: OutcomeT) -> None:
        for token, answer in outcome.replies:
            token.answer(answer)

    @abstractmethod
    def _note(self, line: str) -> None:
        """Write a line about this machine into the broker's log."""
