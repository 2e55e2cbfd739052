"""An actor runs one group, transactional id or share state: it feeds its machine with one event at a time.

The machine is pure. It says what to append, whom to answer and which timers to set; the actor does it. Records take
effect, and the rest of their outcome follows, once they are committed. Meanwhile events wait in the inbox, so that the
machine never sees a state that may not last.

A step that takes long is done in a thread, and its records take effect in turns of the loop. Events wait meanwhile.

A request that comes too early for the present state is put off until a record changes that, for as long as the machine
allows. Then it goes before those that came later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, NamedTuple

from ...protocol.errors import EncodeError, ErrorCode, KafkaError
from ..clock import Clock
from ..timers import TimerHandle, Timers
from ..turns import keeper
from .alarms import Alarms
from .coordinator_log import CoordinatorLog
from .interfaces import Aside, TopicPartition
from .machine import EventT, Machine, OutcomeT, StateT
from .outcome import AppendFailed, SetTimer, Unload

# The keys and values of records.
Pairs = list[tuple[bytes, bytes | None]]


class Runtime(NamedTuple):
    """The parts that all actors of a coordinator share."""

    log: CoordinatorLog
    timers: Timers
    clock: Clock
    # Writes a line into the broker's log, with its fields in the JSON log: the noun of the id, and the id.
    note: Callable[[str, str, str], None]
    # Called by an actor whose state is blank.
    forget: Callable[[Actor[Any, Any, Any]], None]
    # Runs a long step in a thread.
    aside: Aside


class Actor(Generic[StateT, EventT, OutcomeT]):
    """One group or transactional id (`key`), its inbox and its timers."""

    __slots__ = (
        "_alarms",
        "_appending",
        "_closed",
        "_draining",
        "_inbox",
        "_locked",
        "_machine",
        "_put_off",
        "_runtime",
        "key",
        "partition",
        "state",
    )

    def __init__(
        self, key: str, partition: int, state: StateT, machine: Machine[StateT, EventT, OutcomeT], runtime: Runtime
    ) -> None:
        self.key = key
        # The partition of the internal topic that holds its records.
        self.partition = partition
        self.state = state
        self._machine = machine
        self._runtime = runtime
        # Bounded: each connection has one request under way, and a machine has few timers.
        self._inbox: deque[Any] = deque()
        # Requests that came too early, by the timer of their wait, in their order. Bounded as the inbox is.
        self._put_off: dict[TimerHandle, EventT] = {}
        self._alarms: Alarms[EventT] = Alarms(runtime.timers, runtime.clock, self.feed)
        # How many appends are neither committed nor failed yet.
        self._appending = 0
        # Whether one of them makes all events wait.
        self._locked = False
        self._draining = False
        self._closed = False

    # -- Events

    @property
    def is_busy(self) -> bool:
        """Return whether an event would have to wait."""
        return self._draining or self._locked or bool(self._inbox)

    def feed(self, event: EventT) -> None:
        """Take an event. Handle it now unless it has to wait for the log."""
        if self._closed:
            self._machine.reject(event, ErrorCode.NOT_COORDINATOR)
            return
        self._inbox.append(event)
        self._drain()

    def feed_first(self, event: EventT) -> None:
        """Take an event that goes before those that wait. It is no request."""
        if not self._closed:
            self._inbox.appendleft(event)
            self._drain()

    def ring(self, timer: EventT) -> None:
        """Let the time of a timer that is set come now."""
        self._alarms.ring(timer)

    def close(self) -> None:
        """Send every waiting client to another coordinator. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._alarms.cancel_all()
        self._take_up()
        inbox, self._inbox = self._inbox, deque()
        for event in inbox:
            self._machine.reject(event, ErrorCode.NOT_COORDINATOR)
        self._release(self._machine.step(self.state, Unload(), self._runtime.clock.now_ms()))

    def apply(self, record: Any) -> None:
        """Change the state as a committed record says, now or while the log is loaded."""
        self._machine.apply(self.state, record)

    def _drain(self) -> None:
        if self._draining:
            return
        self._draining = True
        try:
            while self._inbox and not self._locked:
                if self._appending and self._machine.waits(self._inbox[0]):
                    break
                self._handle(self._inbox.popleft())
        finally:
            self._draining = False
        if not self._appending and self._machine.is_blank(self.state):
            self._runtime.forget(self)

    def _handle(self, event: EventT) -> None:
        if isinstance(event, self._machine.timer_events) and not self._alarms.take(event):
            # The timer was set again or cancelled while its event waited.
            return
        is_long = self._machine.is_long
        if is_long is not None and isinstance(event, self._machine.long_events) and is_long(self.state, event):
            self._handle_aside(event)
            return
        try:
            outcome = self._machine.step(self.state, event, self._runtime.clock.now_ms())
        except KafkaError as error:
            self._refuse(event, error)
            return
        if outcome.records:
            self._append(outcome)
        elif self._machine.patience_ms is None or not self._may_put_off(
            event, outcome, self._machine.patience_ms(self.state, outcome)
        ):
            self._release(outcome)

    def _refuse(self, event: EventT, error: KafkaError) -> None:
        """Answer an event whose step has failed: no producer id could be allocated, say. Nothing has changed."""
        self._note(f"{type(event).__name__} failed: {error}")
        self._machine.reject(event, self._machine.append_error(error.code))

    def _handle_aside(self, event: EventT) -> None:
        """Handle an event whose step takes long. Nothing else changes the state meanwhile."""
        self._locked = True
        self._appending += 1
        found: list[tuple[OutcomeT, Pairs | None]] = []
        failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "see the broker's log")

        def work() -> None:
            nonlocal failure
            try:
                outcome = self._machine.step(self.state, event, self._runtime.clock.now_ms())
            except KafkaError as error:
                failure = error
            else:
                encoded: Pairs | None = None
                with suppress(EncodeError):  # it fails again when it is appended
                    encoded = [self._machine.encode(record) for record in outcome.records]
                found.append((outcome, encoded))

        def done() -> None:
            self._appending -= 1
            if self._closed:
                self._machine.reject(event, ErrorCode.NOT_COORDINATOR)
            elif found and found[0][0].records:
                self._append(*found[0])
            else:
                self._locked = False
                if found:
                    self._release(found[0][0])
                else:
                    self._refuse(event, failure)
            self._drain()

        self._runtime.aside(work, done)

    def _may_put_off(self, event: EventT, outcome: OutcomeT, patience_ms: int) -> bool:
        """Keep a request that came too early, if the machine has patience with it."""
        if patience_ms <= 0:
            return False

        def give_up() -> None:
            del self._put_off[timer]
            self._release(outcome)

        timer = self._runtime.timers.at(self._runtime.clock.monotonic_ms() + patience_ms, give_up)
        self._put_off[timer] = event
        return True

    def _take_up(self) -> None:
        """Let what was put off go before the events that came later."""
        put_off, self._put_off = self._put_off, {}
        for timer, event in reversed(put_off.items()):
            timer.cancel()
            self._inbox.appendleft(event)

    # -- The log

    def _append(self, outcome: OutcomeT, many: Pairs | None = None) -> None:
        """Append records. They take effect in turns where they are `many`, which are encoded already."""
        self._locked = self._machine.locks(outcome)
        self._appending += 1
        try:
            encoded = [self._machine.encode(record) for record in outcome.records] if many is None else many
        except EncodeError as error:
            self._appended(outcome, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
            return
        on_committed = partial(self._appended if many is None else self._appended_many, outcome)
        self._runtime.log.append(self.partition, encoded, on_committed, outcome.producer, self.durable_after(outcome))

    def durable_after(self, outcome: OutcomeT) -> Sequence[TopicPartition] | None:
        """Return the partitions that must be on disk before the records, None where the topic's configs decide."""
        return None

    def _appended(self, outcome: OutcomeT, error: KafkaError | None) -> None:
        self._appending -= 1
        if self._machine.locks(outcome):
            self._locked = False
        if error is not None:
            self._note(f"records were not written: {error}")
            self._fail(outcome, self._machine.append_error(error.code))
        elif self._closed:
            # The records are in the log, so the clients get their answers. The state belongs to the next coordinator.
            for token, answer in outcome.replies:
                token.answer(answer)
        else:
            for record in outcome.records:
                self._machine.apply(self.state, record)
            self._release(outcome)
            self._take_up()
        self._drain()

    def _appended_many(self, outcome: OutcomeT, error: KafkaError | None) -> None:
        """Do as `_appended`, in turns."""
        if error is None:
            keeper().run_now(self._taking_effect(outcome))
        else:
            self._appended(outcome, error)

    def _taking_effect(self, outcome: OutcomeT) -> Iterator[None]:
        records, outcome.records = outcome.records, outcome.records[-1:]
        for record in records[:-1]:
            if not self._closed:
                self._machine.apply(self.state, record)
            yield
        self._appended(outcome, None)

    def _fail(self, outcome: OutcomeT, error: ErrorCode) -> None:
        if not self._closed:
            self._inbox.appendleft(AppendFailed(outcome, error))
            return
        for token, answer in outcome.replies:
            token.answer(self._machine.error_answer(answer, error))

    # -- What is due once the records are committed

    def _release(self, outcome: OutcomeT) -> None:
        for change in outcome.timers:
            if not isinstance(change, SetTimer):
                self._alarms.cancel(change.event)
            elif not self._closed:
                self._alarms.set(change.event, change.delay_ms)
        for note in outcome.notes:
            self._runtime.note(note, self._machine.noun, self.key)
        for token, answer in outcome.replies:
            token.answer(answer)

    def _note(self, line: str) -> None:
        self._runtime.note(f"{self._machine.noun} {self.key}: {line}", self._machine.noun, self.key)
