"""The actor of one share partition: it loads the machine, has its changes written, and keeps its locks' time.

A change is kept once the share coordinator has written it, and only then is it answered. Where the coordinator says
that another leader or another state has come, the actor is `fenced`: it answers nobody any more, and the next request
loads the state again.

Dead letters are ARCHIVING in the state before they are written, and ARCHIVED afterwards, whether they could be written
or not. A load writes those again that it finds ARCHIVING: after a crash they may come twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ..clock import Clock
from ..coordination.share_states.routed_persister import RoutedPersister
from ..coordination.share_states.share_state import Progress, ShareKey, ShareState, StateBatch
from ..purgatory import Purgatory
from ..timers import TimerHandle, Timers
from ..topics.partition import Partition
from ..turns import keeper
from .dead_letters import DeadLetterWriter
from .machine import Acknowledgement, Acquired, Change, DeadLetters, SharePartition, Span, Wish
from .settings import Settings

# Errors of the share coordinator: another leader or another state has come; the client is told them as they are.
_FENCED = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)
_PASSED_ON = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST)

_log = logging.getLogger(__name__)


class ShareSurroundings(NamedTuple):
    """What the share partitions of one broker share."""

    persister: RoutedPersister
    clock: Clock
    timers: Timers
    purgatory: Purgatory
    # Returns the configs of a group as they are now.
    settings_of: Callable[[str], Settings]
    # Returns where a group begins that has not read the partition yet.
    first_offset: Callable[[Partition, Settings], Awaitable[int]]
    dead_letters: DeadLetterWriter


class SharePartitionActor:
    """One share partition. `load` it before it is used; `machine` is there once it was."""

    def __init__(self, key: ShareKey, partition: Partition, surroundings: ShareSurroundings) -> None:
        self.key = key
        self.partition = partition
        # Whether it has nothing to say any more.
        self.is_fenced = False
        # Why it could not be loaded.
        self.failure: KafkaError | None = None
        self._machine: SharePartition | None = None
        self._state_epoch = 0
        self._leader_epoch = partition.leader_epoch
        self._reign = partition.reign
        self._persister, self._clock, self._timers, self._purgatory, self._settings_of, self._first, _ = surroundings
        self._dead_letters = surroundings.dead_letters
        # Whether the group begins beyond the end of the log, as an administrator has said.
        self._is_ahead = False
        self._timer: TimerHandle | None = None
        # Writes and loads under way. A client that goes away does not stop them.
        self._work: set[asyncio.Task[None]] = set()
        # Steps of acknowledgements that take turns.
        self._slow: set[asyncio.Task[None]] = set()

    @property
    def settings(self) -> Settings:
        """The configs of the group."""
        return self._settings_of(self.key.group_id)

    @property
    def machine(self) -> SharePartition | None:
        """What the group has done with the partition; None until it is loaded."""
        return self._machine

    def is_current(self, partition: Partition) -> bool:
        """Return whether this is about the partition as it is now, in the same reign of this broker."""
        return not self.is_fenced and self.partition is partition and self._reign == partition.reign

    # -- Load --------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Begin to read the state. Requests that wait for the actor are woken when it is there, or has failed."""
        self._begin(self._load())

    async def _load(self) -> None:
        try:
            state = await self._persister.read(self.key, self._leader_epoch)
            if state.start_offset < 0:
                state = await self._begin_state(state)
            elif state.start_offset > (end := self.partition.log.log_end_offset):
                self._is_ahead = state.is_chosen
                state = state if state.is_chosen else await self._set_back(state, end)
            self._state_epoch = state.state_epoch
            self._machine = self._restored(state)
            self._bury_again(self._machine)
        except KafkaError as error:
            self.failure = self._told(error)
        finally:
            if self._machine is None and self.failure is None:
                # Nobody foresaw it, and requests must not wait for what never comes.
                self.failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the share partition could not be loaded")
            self._purgatory.wake(self)

    async def _begin_state(self, state: ShareState) -> ShareState:
        """Have the group begin, and write where: after a restart it would begin elsewhere, and records be lost."""
        offset = await self._first(self.partition, self.settings)
        begin = Progress(offset, 0)
        await self._persister.write(self.key, state.state_epoch, self._leader_epoch, lambda: begin, ())
        return state._replace(start_offset=offset, batches=())

    async def _set_back(self, state: ShareState, end: int) -> ShareState:
        """Have the group go on where the log ends, as after a torn end. A write cannot set the start back."""
        await self._persister.initialize(self.key, state.state_epoch, end)
        return await self._persister.read(self.key, self._leader_epoch)

    def _restored(self, state: ShareState) -> SharePartition:
        """Return the machine. What the log does not have any more, as after a torn end, counts for nothing."""
        end = self.partition.log.log_end_offset
        batches = [each._replace(last_offset=min(each.last_offset, end - 1)) for each in state.batches]
        kept: list[StateBatch] = [each for each in batches if each.first_offset <= each.last_offset]
        machine = SharePartition(state.start_offset, kept)
        machine.advance_start(self.partition.log.log_start_offset)
        return machine

    def _bury_again(self, machine: SharePartition) -> None:
        """Write the dead letters that were under way when the last leader ended. The count tells why they are such."""
        limit = self.settings.limits.max_deliveries
        found = [each._replace(is_rejected=each.delivery_count < limit) for each in machine.dead_letters()]
        if found:
            self._begin(self._bury(machine, found))

    # -- Deliver -----------------------------------------------------------------------------------------

    def acquirable(self, settings: Settings) -> SharePartition | None:
        """Return the machine if a member may acquire anything; None also while it is loaded."""
        if self._machine is None or self.is_fenced:
            return None
        self._machine.advance_start(self.partition.log.log_start_offset)
        self._is_ahead = self._is_ahead and self._machine.start_offset > self.partition.log.log_end_offset
        return self._machine if not self._is_ahead and self._machine.can_acquire(settings.limits) else None

    def acquire(self, wish: Wish, offset: int, spans: Sequence[Span], settings: Settings) -> list[Acquired]:
        """Give a member records; see SharePartition.acquire."""
        machine, now_ms = self._loaded(), self._clock.monotonic_ms()
        acquired = machine.acquire(wish, offset, spans, settings.limits, now_ms)
        if acquired:
            self._arm(now_ms + settings.limits.lock_ms)
        return acquired

    def acknowledge(self, member: str, said: Sequence[Acknowledgement]) -> asyncio.Future[None] | None:
        """Begin what a member says, and return when it is written; None where nothing need be.

        Raises KafkaError, or has the future raise it where there is very much of it.
        """
        machine, change = self._loaded(), Change()
        steps = machine.acknowledge(member, said, self.settings.limits, self._clock.monotonic_ms(), change)
        if not keeper().take_now(steps):
            return self._write(change)
        rest = asyncio.ensure_future(keeper().finish(steps))
        self._slow.add(rest)
        rest.add_done_callback(self._slow.discard)
        return self._begin(self._acknowledge_rest(machine, change, rest))

    async def _acknowledge_rest(self, machine: SharePartition, change: Change, rest: asyncio.Task[None]) -> None:
        """Write very many acknowledgements once the rest of them has had its turns."""
        try:
            await rest
        finally:
            # A lock may have ended meanwhile that a failure has brought back.
            self._set_timer()
        if change.stretches:
            await self._settle(machine, change, is_certain=False)

    async def acknowledged(self) -> None:
        """Wait for acknowledgements that take turns: a session that ends gives back what they leave."""
        if self._slow:
            await asyncio.wait(self._slow)

    def release(self, member: str) -> asyncio.Future[None] | None:
        """Give back what a member holds, as `acknowledge` does."""
        if self._machine is None or self.is_fenced:
            return None
        return self._write(self._machine.release(member, self.settings.limits), is_certain=True)

    def _loaded(self) -> SharePartition:
        """Return the machine. Raises NOT_LEADER_OR_FOLLOWER, or why it could not be loaded."""
        self.partition.check_leading()
        if self.is_fenced:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another leader serves the share group")
        if self._machine is None:
            raise self.failure or KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the share partition is loaded")
        self._machine.advance_start(self.partition.log.log_start_offset)
        return self._machine

    # -- Write -------------------------------------------------------------------------------------------

    def _write(self, change: Change, *, is_certain: bool = False) -> asyncio.Future[None] | None:
        """Have a change written. A certain one is kept even where that fails, because nobody can take it back."""
        if not change.stretches:
            return None
        assert self._machine is not None
        return self._begin(self._settle(self._machine, change, is_certain))

    async def _settle(self, machine: SharePartition, change: Change, is_certain: bool) -> None:
        is_kept = is_certain
        try:
            epochs = self._state_epoch, self._leader_epoch
            await self._persister.write(self.key, *epochs, lambda: _progress(machine), change.batches())
            is_kept = True
        except KafkaError as error:
            raise self._told(error) from error
        finally:
            (machine.keep if is_kept else machine.undo)(change)
            self._set_timer()
            self._purgatory.wake(self)
            letters = machine.dead_letters(change.stretches) if is_kept and not self.is_fenced else []
            if letters:
                self._begin(self._bury(machine, letters))

    async def _bury(self, machine: SharePartition, letters: Sequence[DeadLetters]) -> None:
        """Have dead letters written, and archive them however that ends: the writer has logged it."""
        await self._dead_letters.write(self.key.group_id, self.partition, letters, self.settings)
        change = machine.archive(letters)
        if change.stretches:
            await self._settle(machine, change, is_certain=True)

    def _told(self, error: KafkaError) -> KafkaError:
        """Return what a client is told of an error of the share coordinator. Fences the actor if another has come."""
        if error.code in _FENCED:
            self.fence()
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message)
        if error.code in _PASSED_ON:
            return error
        _log.warning("share group %s, partition %d: %s", self.key.group_id, self.key.partition, error.message)
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)

    # -- Time --------------------------------------------------------------------------------------------

    def _arm(self, deadline_ms: int) -> None:
        timer = self._timer
        if timer is not None and timer.active:
            if timer.deadline_ms <= deadline_ms:
                return
            timer.cancel()
        self._timer = self._timers.at(deadline_ms, self._expire)

    def _set_timer(self) -> None:
        deadline_ms = self._machine.next_deadline_ms() if self._machine is not None else None
        if deadline_ms is not None and not self.is_fenced:
            self._arm(deadline_ms)

    def _expire(self) -> None:
        """Give back what was held too long."""
        machine = self._machine
        if machine is None or self.is_fenced:
            return
        self._write(machine.expire(self.settings.limits, self._clock.monotonic_ms()), is_certain=True)
        self._set_timer()

    # -- The end -----------------------------------------------------------------------------------------

    def fence(self) -> None:
        """Answer nobody any more, and wake the requests that wait."""
        self.is_fenced = True
        if self._timer is not None:
            self._timer.cancel()
        self._purgatory.wake(self)
        self._purgatory.forget(self)

    async def settled(self) -> None:
        """Wait for what is being written."""
        while self._work:
            await asyncio.wait(self._work)

    async def close(self, deadline_s: float) -> None:
        """Fence it, and wait for what is being written; what is not written by the deadline never is."""
        self.fence()
        if self._work:
            _, late = await asyncio.wait(self._work, timeout=deadline_s)
            for task in late:
                task.cancel()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        # A caller that waits has the error. Nobody waits for the end of a lock, and `_told` has logged it.
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, KafkaError):
            where = self.key.group_id, self.key.partition
            _log.error("share group %s, partition %d: a load or a write has failed", *where, exc_info=error)


def _progress(machine: SharePartition) -> Progress:
    return Progress(machine.start_offset, machine.delivery_complete_count)
