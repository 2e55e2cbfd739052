"""Membership in a consumer group, by the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup).

    UNJOINED --poll--> JOINING --assignment--> STABLE
    STABLE --rebalance, other subscription or other partitions--> JOINING
    any --fenced (unknown member, old generation): partitions are lost--> UNJOINED
    any --no poll for max_poll_interval_ms: leaves the group--> UNJOINED
    any --leave(), a listener that raises, or an error that is not retriable--> ENDED

One task runs all of it. A rebalance does not take partitions while the user works on their records: the task heartbeats
until the user polls again (`Polls.idle`), has the processed records committed, and gives partitions up before it joins.
It gives up all of them, and polls return no records until it has joined, unless all strategies are cooperative
(KIP-429). Then it gives up only those of topics that are no longer subscribed, and after the join those that the
assignment takes away. In that case it joins once more, so that another member can have them. Partitions that stay keep
their positions and fetched records, and polls go on returning these. Heartbeats go on while a rebalance listener runs.

The leader of the group assigns partitions by the strategy that the members have in common, and starts a rebalance when
the topics' partitions have changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Protocol

from ...protocol.errors import DecodeError, ErrorCode, KafkaError
from ...protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from ...protocol.messages.sync_group import SyncGroupRequestAssignment
from ..assignors import NO_GENERATION
from ..core.clock import monotonic_ms, wait_for
from ..core.cluster import Cluster
from ..core.committed_offsets import Generation
from ..core.coordinator import Coordinator
from ..core.lifetime import end_tasks
from ..errors import ListenerFailed
from ..record import TopicPartition
from .explanation import ConsumerCounts
from .group_protocol import GroupLeader, GroupRequests, decode_assignment, encode_subscription
from .options import GroupOptions
from .polls import Polls
from .positions import Signals

_log = logging.getLogger(__name__)

# After these errors, join again with the same member id, or with a new one.
_REJOIN = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}
_FENCED = {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}


class MemberState(Enum):
    """The state of the consumer in its group."""

    UNJOINED = auto()  # not in the group: joins at the next poll
    JOINING = auto()  # has no partitions, or those that it may keep; JoinGroup or SyncGroup is in flight or will be
    STABLE = auto()  # has its assignment and heartbeats
    ENDED = auto()  # has left, or failed for good: `error` says why


class Assignee(Protocol):
    """What a membership needs of its consumer: see `assignment.Assignment`, which commits with the membership."""

    def partitions(self) -> frozenset[TopicPartition]: ...

    def hold(self, partitions: Collection[TopicPartition]) -> None: ...

    async def revoke(self, partitions: Collection[TopicPartition]) -> None: ...

    async def lose(self) -> None: ...

    async def assign(self, partitions: Sequence[TopicPartition]) -> None: ...


class Membership:
    """One consumer's membership in one group. Run `run()` as a task, and call `leave()` at the end."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: Coordinator,
        options: GroupOptions,
        assignee: Assignee,
        topics: Callable[[], Iterable[str]],
        signals: Signals,
        polls: Polls,
        counts: ConsumerCounts,
    ) -> None:
        self._counts = counts
        self._cluster = cluster
        self._requests = GroupRequests(coordinator, options)
        self._options = options
        self._assignors = {assignor.name: assignor for assignor in options.assignors}
        # If one strategy is eager, the group may choose it, and all partitions must be given up.
        self._cooperative = all(assignor.cooperative for assignor in options.assignors)
        self._leader = GroupLeader(cluster, options.group_id, self._assignors)
        self._assignee = assignee
        # Returns the subscribed topics.
        self._topics = topics
        self._signals = signals
        self._polls = polls
        self.state = MemberState.UNJOINED
        # Why the membership has ended; polls raise it.
        self.error: KafkaError | None = None
        self._member_id = ""
        self._generation_id = NO_GENERATION
        # The last assignment, for strategies that keep partitions in place.
        self._previous: list[TopicPartition] = []
        self._previous_generation_id = NO_GENERATION
        # Retriable failures in a row.
        self._failures = 0
        self._rejoin_needed = True
        # Set when `_rejoin_needed` becomes true.
        self._wake = asyncio.Event()
        self._stop_watching = cluster.on_update(lambda _view: self._check_partitions())

    @property
    def generation(self) -> Generation:
        """The member's identity for commits."""
        return Generation(self._generation_id, self._member_id, self._options.group_instance_id)

    @property
    def rebalancing(self) -> bool:
        """Whether the member must join, or has not finished joining."""
        return self._rejoin_needed or self.state is not MemberState.STABLE

    @property
    def pauses_polls(self) -> bool:
        """Whether polls must not return records now: a cooperative member goes on with the partitions that it keeps."""
        return self.state is MemberState.ENDED if self._cooperative else self.rebalancing

    def waits_for(self) -> str:
        """Return who or what holds the rebalance of this member up, "" if it does not rebalance."""
        if not self.rebalancing or self.state is MemberState.ENDED:
            return ""
        if self.state is MemberState.UNJOINED:
            return "the next poll of this consumer" if not self._polls.asked.is_set() else "the coordinator"
        if self.state is MemberState.JOINING:
            return "the other members, which must join or give partitions up"
        line = self._polls.line()
        return "this consumer's user, who works on its records" + (f" at {line}" if line else "")

    def request_rejoin(self) -> None:
        """Join again: the subscription has changed, or a commit was fenced."""
        self._rejoin_needed = True
        self._wake.set()

    def _check_partitions(self) -> None:
        if self.state is MemberState.STABLE and self._leader.partitions_changed():
            self.request_rejoin()

    # -- The task

    async def run(self) -> None:
        """Join, heartbeat and rejoin, until cancelled or an error that is not retriable."""
        while True:
            try:
                await self._step()
            except DecodeError as error:
                text = f"group {self._options.group_id!r}: what the members tell each other cannot be read: {error}"
                self._end(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text))
                return
            except ListenerFailed as error:
                # Leave at once, so that other members need not wait for the session time-out.
                self._end(error)
                await self._leave_group("a rebalance listener failed")
                return
            except KafkaError as error:
                if error.code not in _REJOIN:
                    if not error.retriable:
                        self._end(error)
                        return
                    self._failures += 1
                    self._cluster.retries.failed(self, error)
                    await asyncio.sleep(self._cluster.backoff.pause_ms(self._failures) / 1000)

    def _end(self, error: KafkaError) -> None:
        self.state, self.error = MemberState.ENDED, error
        self._cluster.retries.done(self)
        self._signals.poll.set()

    async def _step(self) -> None:
        """Join if needed, and heartbeat until a rejoin is needed. Raises KafkaError."""
        try:
            if self.rebalancing:
                await self._prepare_join()
                began_ms = monotonic_ms()
                await self._join()
                self._failures = 0
                self._cluster.retries.done(self)
                self._counts.rebalances += 1
                self._counts.rebalance_ms.add(monotonic_ms() - began_ms)
            await self._heartbeat_until_rejoin()
        except KafkaError as error:
            if self.state is MemberState.JOINING:
                self._counts.failed_rebalances += 1
            if error.code in _REJOIN:
                self._rejoin_needed = True
            if error.code in _FENCED:
                await self._forget_generation(error)
            raise

    async def _forget_generation(self, error: KafkaError) -> None:
        """Lose the partitions of a generation that the group has ended for this member."""
        self._generation_id = NO_GENERATION
        if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        await self._lose()

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

    async def _heartbeat_until_rejoin(self) -> None:
        """Heartbeat until a rejoin is needed, or the user stalls. Raises the error of a heartbeat."""
        while not self._rejoin_needed:
            self._wake.clear()
            if await wait_for(self._wake, self._heartbeat_pause_ms()):
                continue
            if self._is_stalled():
                await self._leave_stalled()
                return
            self._counts.heartbeats += 1
            await self._requests.heartbeat(self.generation)

    async def _heartbeat_while(self, work: Coroutine[Any, Any, None]) -> None:
        """Finish `work` while heartbeats go on. Raises its error, else that of a heartbeat that fenced the member."""
        task = asyncio.create_task(work, name="rebalance")
        fenced: KafkaError | None = None
        try:
            while not (await asyncio.wait((task,), timeout=self._options.heartbeat_interval_ms / 1000))[0]:
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
            self._counts.heartbeats += 1
            await self._requests.heartbeat(self.generation)
        except KafkaError as error:
            if error.code is ErrorCode.REBALANCE_IN_PROGRESS:
                self._rejoin_needed = True
            elif not error.retriable:
                return error
        return None

    # -- Stalls of the user

    def _heartbeat_pause_ms(self) -> float:
        """Return the time until the next heartbeat, less if the user stalls for too long before."""
        left_ms = self._options.max_poll_interval_ms - self._polls.stalled_ms(monotonic_ms())
        return min(self._options.heartbeat_interval_ms, max(left_ms, 0))

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
        self._rejoin_needed = True
        self.state = MemberState.UNJOINED
        self._polls.asked.clear()
        await self._leave_group("max.poll.interval.ms is over")
        await self._assignee.lose()

    # -- Before a join

    async def _prepare_join(self) -> None:
        """Give up partitions once the user has processed their records; after a stall, wait for the next poll."""
        if self.state is MemberState.STABLE:
            await self._give_up(self._revoked_before_join())
        if self.state is MemberState.UNJOINED:
            await self._polls.asked.wait()
        self.state = MemberState.JOINING

    def _revoked_before_join(self) -> frozenset[TopicPartition]:
        """Return the partitions that must be given up before a join: those not subscribed, or all (eager)."""
        assigned = self._assignee.partitions()
        if not self._cooperative:
            return assigned
        subscribed = set(self._topics())
        return frozenset(partition for partition in assigned if partition.topic not in subscribed)

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

    # -- Join and sync

    async def _join(self) -> None:
        self._rejoin_needed = False
        topics = sorted(self._topics())
        self._cluster.watch(topics)
        joined = await self._request_join(topics)
        self._member_id, self._generation_id = joined.member_id, joined.generation_id
        assignments: list[SyncGroupRequestAssignment] = []
        self._leader.resign()
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = await self._leader.assign(joined)
        partitions = decode_assignment(await self._requests.sync(self.generation, joined.protocol_name, assignments))
        self._previous, self._previous_generation_id = partitions, joined.generation_id
        if taken_away := self._assignee.partitions().difference(partitions):
            await self._give_up(taken_away)
            # Only now may another member have them, and the next rebalance assigns them.
            self._rejoin_needed = True
            if self.state is not MemberState.JOINING:
                return  # the user has stalled
        await self._heartbeat_while(self._assignee.assign(partitions))
        self.state = MemberState.STABLE
        _log.info(
            "group %r: %s has %d partitions in generation %d",
            self._options.group_id,
            self._member_id,
            len(partitions),
            joined.generation_id,
        )
        self._signals.poll.set()
        self._check_partitions()  # they may have changed while the member joined

    async def _request_join(self, topics: Sequence[str]) -> JoinGroupResponse:
        before = self._previous, self._previous_generation_id
        user_data = {name: assignor.user_data(topics, *before) for name, assignor in self._assignors.items()}
        kept = self._assignee.partitions(), self._generation_id, self._options.client_rack
        protocols = [
            JoinGroupRequestProtocol(name=name, metadata=encode_subscription(topics, said, *kept))
            for name, said in user_data.items()
        ]
        while True:
            response = await self._requests.join(self._member_id, protocols)
            if ErrorCode.of(response.error_code) is not ErrorCode.MEMBER_ID_REQUIRED:
                self._requests.raise_error(response.error_code, "joining")
                return response
            self._member_id = response.member_id

    # -- Leave

    async def give_up_all(self) -> None:
        """Commit the processed records and give up all partitions; the task has ended."""
        if self.state in (MemberState.STABLE, MemberState.JOINING):
            # Also while the group rebalances: until that ends, this generation may commit.
            await self._heartbeat_while(self._assignee.revoke(self._assignee.partitions()))

    async def leave(self, reason: str) -> None:
        """Leave the group, without a retry: its session time-out does the same later. Static members stay (KIP-345)."""
        self.state = MemberState.ENDED
        self._stop_watching()
        await self._leave_group(reason)

    async def _leave_group(self, reason: str) -> None:
        member_id, self._member_id, self._generation_id = self._member_id, "", NO_GENERATION
        if not member_id or self._options.group_instance_id is not None:
            return
        with suppress(KafkaError):
            await self._requests.leave(member_id, reason)
