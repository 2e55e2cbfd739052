"""Membership in a consumer group, by the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup).

    UNJOINED --poll--> JOINING --assignment--> STABLE
    STABLE --rebalance, other subscription or other partitions--> JOINING
    STABLE --fenced (unknown member, old generation): partitions are lost--> JOINING
    STABLE --no poll for max_poll_interval_ms: leaves the group--> UNJOINED
    any --leave(), or an error that is not retriable--> ENDED

One task runs all of it. A rebalance does not take partitions while the user works on their records: the task heartbeats
until the user polls again (`Assignee.idle`), has the processed records committed, and gives partitions up before it
joins. It gives up all of them, unless all strategies are cooperative (KIP-429). Then it gives up only those of topics
that are no longer subscribed, and after the join those that the assignment takes away. In that case it joins once more,
so that another member can have them. Partitions that stay keep their positions and fetched records. While `rebalancing`
is true, polls return no records.

The leader of the group assigns partitions by the strategy that the members have in common, and starts a rebalance when
the topics' partitions have changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Protocol

from ...protocol.errors import DecodeError, ErrorCode, KafkaError
from ...protocol.messages import consumer_protocol as wire
from ...protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from ...protocol.messages.sync_group import SyncGroupRequestAssignment
from ..assignors import NO_GENERATION, Assignor
from ..clock import wait_for
from ..network.cluster import Cluster
from ..network.committed_offsets import Generation
from ..network.coordinator import Coordinator
from ..record import TopicPartition
from .group_leader import GroupLeader, by_topic
from .group_requests import GroupRequests
from .options import GroupOptions
from .signals import Signals

_SUBSCRIPTION_VERSION = 3
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
    """What a membership needs of its consumer."""

    # Set while the user has no unprocessed records.
    idle: asyncio.Event

    def partitions(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        ...

    async def revoke(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Commit the processed records and give up these partitions, or all."""
        ...

    async def lose(self) -> None:
        """Drop all partitions without a commit: other members have them already."""
        ...

    async def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Take exactly these partitions; those that were assigned before keep their positions."""
        ...


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
    ) -> None:
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
        self.state = MemberState.UNJOINED
        # Why the membership has ended; polls raise it.
        self.error: KafkaError | None = None
        self._member_id = ""
        self._generation_id = NO_GENERATION
        # The last assignment, for strategies that keep partitions in place.
        self._previous: list[TopicPartition] = []
        self._previous_generation_id = NO_GENERATION
        self._rejoin_needed = True
        # Set when `_rejoin_needed` becomes true.
        self._wake = asyncio.Event()
        cluster.on_update(lambda _view: self._check_partitions())

    @property
    def generation(self) -> Generation:
        """The member's identity for commits."""
        return Generation(self._generation_id, self._member_id, self._options.group_instance_id)

    @property
    def rebalancing(self) -> bool:
        """Whether polls must not return records now."""
        return self._rejoin_needed or self.state is not MemberState.STABLE

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
        failures = 0
        while True:
            try:
                if self.rebalancing:
                    await self._prepare_join()
                    await self._join()
                failures = 0
                await self._heartbeat_until_rejoin()
            except DecodeError as error:
                text = f"group {self._options.group_id!r}: what the members tell each other cannot be read: {error}"
                self._end(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text))
                return
            except KafkaError as error:
                if not await self._recover(error):
                    self._end(error)
                    return
                if error.code not in _REJOIN:
                    failures += 1
                    await asyncio.sleep(self._cluster.backoff.pause_ms(failures) / 1000)

    def _end(self, error: KafkaError) -> None:
        self.state, self.error = MemberState.ENDED, error
        self._signals.wake_poll()

    async def _recover(self, error: KafkaError) -> bool:
        """Prepare to go on after `error`. Return whether that is possible."""
        if error.code in _FENCED:
            if self.state is MemberState.STABLE or self._cooperative:
                await self._assignee.lose()
            self.state, self._generation_id = MemberState.JOINING, NO_GENERATION
            if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
        if error.code in _REJOIN:
            self._rejoin_needed = True
            return True
        return error.retriable

    async def _heartbeat_until_rejoin(self) -> None:
        """Heartbeat until a rejoin is needed. Raises the error of a heartbeat."""
        while not self._rejoin_needed:
            self._wake.clear()
            if not await wait_for(self._wake, self._options.heartbeat_interval_ms):
                await self._requests.heartbeat(self.generation)

    # -- Before a join

    async def _prepare_join(self) -> None:
        """Wait until the user polls again, at most `max_poll_interval_ms`, then give up partitions."""
        if self.state is MemberState.UNJOINED:
            await self._assignee.idle.wait()
        elif self.state is MemberState.STABLE:
            if await self._wait_for_poll():
                await self._revoke_before_join()
            else:
                await self.leave("max.poll.interval.ms is over")
                await self._assignee.lose()
                self.state = MemberState.UNJOINED
                await self._assignee.idle.wait()
        self.state = MemberState.JOINING

    async def _wait_for_poll(self) -> bool:
        """Heartbeat until the user polls. Return whether it does so in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.max_poll_interval_ms / 1000
        while loop.time() < deadline:
            if await wait_for(self._assignee.idle, self._options.heartbeat_interval_ms):
                return True
            try:
                await self._requests.heartbeat(self.generation)
            except KafkaError as error:
                if error.code is not ErrorCode.REBALANCE_IN_PROGRESS and not error.retriable:
                    raise
        return False

    async def _revoke_before_join(self) -> None:
        if self._cooperative:
            subscribed = set(self._topics())
            await self._assignee.revoke([each for each in self._assignee.partitions() if each.topic not in subscribed])
        else:
            await self._assignee.revoke()

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
        partitions = _decode_assignment(await self._requests.sync(self.generation, joined.protocol_name, assignments))
        self._previous, self._previous_generation_id = partitions, joined.generation_id
        if taken_away := self._assignee.partitions().difference(partitions):
            # Only after this may another member have them, and the next rebalance assigns them.
            await self._assignee.revoke(taken_away)
            self._rejoin_needed = True
        await self._assignee.assign(partitions)
        self.state = MemberState.STABLE
        self._signals.wake_poll()

    async def _request_join(self, topics: Sequence[str]) -> JoinGroupResponse:
        protocols = [
            JoinGroupRequestProtocol(name=name, metadata=self._subscription(topics, assignor))
            for name, assignor in self._assignors.items()
        ]
        while True:
            response = await self._requests.join(self._member_id, protocols)
            if ErrorCode.of(response.error_code) is not ErrorCode.MEMBER_ID_REQUIRED:
                self._requests.raise_error(response.error_code, "joining")
                return response
            self._member_id = response.member_id

    def _subscription(self, topics: Sequence[str], assignor: Assignor) -> bytes:
        """Return what the leader learns of this member: its topics and the partitions that it has kept."""
        subscription = wire.ConsumerProtocolSubscription(
            topics=list(topics),
            user_data=assignor.user_data(topics, self._previous, self._previous_generation_id),
            owned_partitions=by_topic(sorted(self._assignee.partitions())),
            generation_id=self._generation_id,
            rack_id=self._options.client_rack,
        )
        return wire.encode_versioned(subscription, _SUBSCRIPTION_VERSION)

    # -- Leave

    async def leave(self, reason: str) -> None:
        """Leave the group, without a retry: its session time-out does the same later. Static members stay (KIP-345)."""
        member_id, self._member_id, self._generation_id = self._member_id, "", NO_GENERATION
        self.state = MemberState.ENDED
        if not member_id or self._options.group_instance_id is not None:
            return
        with suppress(KafkaError):
            await self._requests.leave(member_id, reason)


def _decode_assignment(assignment: bytes) -> list[TopicPartition]:
    if not assignment:
        return []
    mine = wire.decode_versioned(wire.ConsumerProtocolAssignment, assignment)
    return [TopicPartition(each.topic, number) for each in mine.assigned_partitions for number in each.partitions]
