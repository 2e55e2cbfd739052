"""Membership in a consumer group: what the classic protocol and the consumer protocol (KIP-848) share.

    UNJOINED --poll--> JOINING --assignment--> STABLE
    any --fenced by the group: partitions are lost--> UNJOINED
    any --no poll for max_poll_interval_ms: leaves the group--> UNJOINED
    any --leave(), a listener or store that raises, or an error that is not retriable--> ENDED

One task runs all of it. A rebalance does not take partitions while the user works on their records: the task heartbeats
until the user polls again (`Polls.idle`), has the processed records committed, and then gives partitions up. Heartbeats
go on while a rebalance listener runs.

`ClassicMembership` and `ConsumerMembership` say how a member joins, what a heartbeat is, and which partitions go when.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol

from ...protocol.errors import DecodeError, ErrorCode, KafkaError
from ..core.clock import monotonic_ms, wait_for
from ..core.cluster import Cluster
from ..core.committed_offsets import Generation
from ..core.coordinator import Coordinator
from ..core.lifetime import end_tasks
from ..errors import ListenerFailed, OffsetStoreFailed
from ..record import TopicPartition
from .explanation import ConsumerCounts
from .options import GroupOptions, Subscription
from .polls import Polls
from .positions import Signals

_log = logging.getLogger(__name__)

# A member that was fenced joins at once, and is told its member id first.
_REJECTIONS_AT_ONCE = 2


class MemberState(Enum):
    """The state of the consumer in its group."""

    UNJOINED = auto()  # not in the group: joins at the next poll
    JOINING = auto()  # has no partitions, or those that it may keep; a request to join is in flight or will be
    STABLE = auto()  # has its assignment and heartbeats
    ENDED = auto()  # has left, or failed for good: `error` says why


class Assignee(Protocol):
    """What a membership needs of its consumer: see `assignment.Assignment`, which commits with the membership."""

    def partitions(self) -> frozenset[TopicPartition]: ...

    def hold(self, partitions: Collection[TopicPartition]) -> None: ...

    async def revoke(self, partitions: Collection[TopicPartition]) -> None: ...

    async def lose(self) -> None: ...

    async def assign(self, partitions: Sequence[TopicPartition]) -> None: ...


@dataclass(eq=False, repr=False)
class Membership(ABC):
    """One consumer's membership in one group. Run `run()` as a task, and call `leave()` at the end."""

    _cluster: Cluster
    _coordinator: Coordinator
    _options: GroupOptions
    _assignee: Assignee
    _wanted: Callable[[], Subscription]
    _signals: Signals
    _polls: Polls
    _counts: ConsumerCounts
    state: MemberState = MemberState.UNJOINED
    # Why the membership has ended; polls raise it.
    error: KafkaError | None = None
    # What hinders the membership and does not end it, for one poll.
    _hindrance: KafkaError | None = None
    # Failures in a row that do not end it.
    _failures: int = 0
    # Rejections by the group in a row, since a rebalance succeeded.
    _rejections: int = 0
    # Set by `request_rejoin`.
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    # -- What the protocols do differently

    @abstractmethod
    def __post_init__(self) -> None:
        """Make what the protocol needs."""

    @property
    @abstractmethod
    def generation(self) -> Generation:
        """The member's identity for commits."""

    @property
    @abstractmethod
    def rebalancing(self) -> bool:
        """Whether the member must join, or has not finished joining."""

    @property
    @abstractmethod
    def pauses_polls(self) -> bool:
        """Whether polls must not return records now."""

    @property
    @abstractmethod
    def _interval_ms(self) -> float:
        """The time between two heartbeats."""

    @abstractmethod
    def request_rejoin(self) -> None:
        """Turn to the group at once: the subscription has changed, or a commit was fenced."""

    @abstractmethod
    async def _step(self) -> None:
        """Join, come to the assignment, or heartbeat. Raises KafkaError."""

    @abstractmethod
    async def _recovers(self, error: KafkaError) -> bool:
        """Note why a step has failed. Return whether the next one can follow at once."""

    @abstractmethod
    async def _beat(self) -> None:
        """Send one heartbeat. Raises KafkaError."""

    @abstractmethod
    async def _leave_group(self, reason: str) -> None:
        """Tell the group, without a retry, that the member goes: its session time-out does the same later."""

    # -- What it waits for

    def waits_for(self) -> str:
        """Return who or what holds the rebalance of this member up, "" if it does not rebalance."""
        if not self.rebalancing or self.state is MemberState.ENDED:
            return ""
        if self.state is MemberState.UNJOINED:
            return "the next poll of this consumer" if not self._polls.asked.is_set() else "the coordinator"
        if self.state is MemberState.JOINING:
            return self._joining_waits_for
        line = self._polls.line()
        return "this consumer's user, who works on its records" + (f" at {line}" if line else "")

    _joining_waits_for = "the coordinator"

    @property
    def joins_as_new(self) -> bool:
        """Whether a join waits for others, and what is sent behind it, too, for a member that is in no generation."""
        return False

    def may_commit_again(self, generation: Generation, error: KafkaError) -> bool:
        """Whether a commit of this generation that was rejected may succeed with a later one."""
        return self.error is None and (self.generation != generation or self.state is MemberState.JOINING)

    def take_error(self) -> KafkaError | None:
        """Return what a poll must raise: why the membership has ended, or once what hinders it."""
        hindrance, self._hindrance = self._hindrance, None
        return self.error or hindrance

    # -- The task

    async def run(self) -> None:
        """Join, heartbeat and rejoin, until cancelled or an error that may not pass."""
        while True:
            try:
                await self._step_or_recover()
            except DecodeError as error:
                text = f"group {self._options.group_id!r}: what the members tell each other cannot be read: {error}"
                self._end(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text))
                return
            except (ListenerFailed, OffsetStoreFailed) as error:
                # Leave at once, so that other members need not wait for the session time-out.
                self._end(error)
                whose = "a rebalance listener" if isinstance(error, ListenerFailed) else "the offset store"
                await self._leave_group(f"{whose} failed")
                return
            except KafkaError as error:
                if not self._may_pass(error):
                    self._end(error)
                    return
                self._failures += 1
                self._cluster.retries.failed(self, error)
                await asyncio.sleep(self._cluster.backoff.pause_ms(self._failures) / 1000)

    async def _step_or_recover(self) -> None:
        try:
            await self._step()
        except KafkaError as error:
            if self.state is MemberState.JOINING:
                self._counts.failed_rebalances += 1
            if not await self._recovers(error):
                raise

    def _may_pass(self, error: KafkaError) -> bool:
        """Whether the member goes on after an error of a request."""
        return error.retriable

    async def _rejected(self) -> None:
        """Wait before the next join where a coordinator takes the member and sends it away, again and again."""
        self._rejections += 1
        if self._rejections > _REJECTIONS_AT_ONCE:
            await asyncio.sleep(self._cluster.backoff.pause_ms(self._rejections - _REJECTIONS_AT_ONCE) / 1000)

    def _succeeded(self) -> None:
        """Begin with the shortest pause again."""
        self._failures = 0
        self._cluster.retries.done(self)

    def _take_part(self, partitions: int, kind: str) -> None:
        """Tell the log, and who waits for records, that the member has its part of a generation, or of an epoch."""
        at = self.generation
        text = "group %r: %s has %d partitions in %s %d"
        _log.info(text, self._options.group_id, at.member_id, partitions, kind, at.generation_id)
        self._signals.poll.set()

    def _count_rebalance(self, began_ms: float) -> None:
        self._counts.rebalances += 1
        self._counts.rebalance_ms.add(monotonic_ms() - began_ms)

    def _end(self, error: KafkaError) -> None:
        self.state, self.error = MemberState.ENDED, error
        self._cluster.retries.done(self)
        self._signals.poll.set()

    async def _lose(self) -> None:
        """Drop all partitions, and join again when the user has no unprocessed records."""
        self.state = MemberState.UNJOINED
        _log.warning(
            "group %r: the group has gone on without this member, which has lost %d partitions",
            self._options.group_id,
            len(self._assignee.partitions()),
        )
        if not self._polls.idle.is_set():
            self._polls.asked.clear()
        await self._assignee.lose()

    # -- Heartbeats

    async def _heartbeat_while(self, work: Coroutine[Any, Any, None]) -> None:
        """Finish `work` while heartbeats go on. Raises its error, else that of a heartbeat that fenced the member."""
        task = asyncio.create_task(work, name="rebalance")
        fenced: KafkaError | None = None
        try:
            while not (await asyncio.wait((task,), timeout=self._interval_ms / 1000))[0]:
                if fenced is None:
                    fenced = await self._heartbeat_error()
            await task
        finally:
            if not task.done():
                await end_tasks((task,))
        if fenced is not None:
            raise fenced

    async def _heartbeat_error(self) -> KafkaError | None:
        """Heartbeat. Return an error that ends this generation; the others do not."""
        try:
            await self._beat()
        except KafkaError as error:
            if not self._may_pass(error):
                return error
        return None

    # -- Stalls of the user

    def _heartbeat_pause_ms(self) -> float:
        """Return the time until the next heartbeat, less if the user stalls for too long before."""
        left_ms = self._options.max_poll_interval_ms - self._polls.stalled_ms(monotonic_ms())
        return min(self._interval_ms, max(left_ms, 0))

    def _is_stalled(self) -> bool:
        return self._polls.stalled_ms(monotonic_ms()) >= self._options.max_poll_interval_ms

    async def _leave_stalled(self) -> None:
        """Leave the group until the user polls again."""
        limit_ms = self._options.max_poll_interval_ms
        _log.warning(
            "group %r: the consumer leaves, because its user has not polled for %d ms (max_poll_interval_ms). "
            "It joins again at the next poll. Process fewer records per poll, or raise the limit.%s",
            self._options.group_id,
            limit_ms,
            f" The task that polled is at {line}." if (line := self._polls.line()) else "",
        )
        self.state = MemberState.UNJOINED
        self._polls.asked.clear()
        self._assignee.hold(self._assignee.partitions())  # others may have them before the answer comes
        await self._leave_group("max.poll.interval.ms is over")
        await self._assignee.lose()

    # -- Giving up

    async def _give_up(self, partitions: frozenset[TopicPartition]) -> None:
        """Revoke partitions once the user has processed their records; leave the group if the user stalls."""
        self._assignee.hold(partitions)
        if self._polls.works_on(partitions) and not await self._wait_for_user(partitions):
            await self._leave_stalled()
        elif partitions:
            await self._heartbeat_while(self._assignee.revoke(partitions))

    async def _wait_for_user(self, partitions: Collection[TopicPartition]) -> bool:
        """Heartbeat until the user has processed what it has of these partitions. Return whether it does so in time.

        Raises what fences the member.
        """
        while not self._is_stalled():
            if not self._polls.works_on(partitions):
                return True
            self._polls.released.clear()
            if await wait_for(self._polls.released, self._heartbeat_pause_ms()):
                continue
            fenced = await self._heartbeat_error()
            if fenced is not None:
                raise fenced
        return False

    async def give_up_all(self) -> None:
        """Commit the processed records and give up all partitions; the task has ended."""
        if self.state in (MemberState.STABLE, MemberState.JOINING):
            # Also while the group rebalances: until that ends, this generation may commit.
            await self._heartbeat_while(self._assignee.revoke(self._assignee.partitions()))

    async def leave(self, reason: str) -> None:
        """Leave the group. Static members keep their place (KIP-345)."""
        self.state = MemberState.ENDED
        await self._leave_group(reason)
