"""Membership by the classic protocol: JoinGroup (key 11), SyncGroup (14), Heartbeat (12), LeaveGroup (13).

    STABLE --rebalance, other subscription or other partitions--> JOINING

(`membership.py` has the other arrows.) Before it joins, the member gives up all its partitions, and polls return no
records until it has joined, unless all strategies are cooperative (KIP-429). Then it gives up only those of topics that
are no longer subscribed, and after the join those that the assignment takes away. In that case it joins once more, so
that another member can have them. Partitions that stay keep their positions and fetched records, and polls go on
returning these.

The leader of the group assigns partitions by the strategy that the members have in common, and starts a rebalance when
the topics' partitions have changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ...protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ...protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ...protocol.schema import Message
from ..assignors import NO_GENERATION
from ..core.clock import monotonic_ms, wait_for
from ..core.committed_offsets import Generation
from ..core.connection import REBALANCE
from ..record import TopicPartition
from .classic_protocol import GroupLeader, decode_assignment, encode_subscription, leave_group
from .membership import Membership, MemberState

R = TypeVar("R")
M = TypeVar("M", bound=Message)

_PROTOCOL_TYPE = "consumer"
# The coordinator responds to JoinGroup and SyncGroup when the rebalance ends. The network gets this much on top.
_NETWORK_MARGIN_MS = 5_000
# After these errors, join again with the same member id, or with a new one.
_REJOIN = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}
_FENCED = {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}


class ClassicMembership(Membership):
    """A member of a group whose leader assigns."""

    _joining_waits_for = "the other members, which must join or give partitions up"

    def __post_init__(self) -> None:
        options = self._options
        self._assignors = {assignor.name: assignor for assignor in options.assignors}
        # If one strategy is eager, the group may choose it, and all partitions must be given up.
        self._cooperative = all(assignor.cooperative for assignor in options.assignors)
        self._leader = GroupLeader(self._cluster, options.group_id, self._assignors)
        self._member_id = ""
        self._generation_id = NO_GENERATION
        # The last assignment, for strategies that keep partitions in place.
        self._previous: list[TopicPartition] = []
        self._previous_generation_id = NO_GENERATION
        # `_wake` is set when it becomes true.
        self._rejoin_needed = True
        self._stop_watching = self._cluster.on_update(lambda _view: self._check_partitions())

    @property
    def generation(self) -> Generation:
        return Generation(self._generation_id, self._member_id, self._options.group_instance_id)

    @property
    def rebalancing(self) -> bool:
        return self._rejoin_needed or self.state is not MemberState.STABLE

    @property
    def pauses_polls(self) -> bool:
        """Whether polls must not return records now: a cooperative member goes on with the partitions that it keeps."""
        return self.state is MemberState.ENDED if self._cooperative else self.rebalancing

    @property
    def _interval_ms(self) -> float:
        return self._options.heartbeat_interval_ms

    def request_rejoin(self) -> None:
        self._rejoin_needed = True
        self._wake.set()

    @property
    def joins_as_new(self) -> bool:
        return self.state is MemberState.JOINING and self._generation_id == NO_GENERATION

    def _check_partitions(self) -> None:
        if self.state is MemberState.STABLE and self._leader.partitions_changed():
            self.request_rejoin()

    def _end(self, error: KafkaError) -> None:
        super()._end(error)
        self._stop_watching()

    # -- Steps

    async def _step(self) -> None:
        """Join if needed, and heartbeat until a rejoin is needed. Raises KafkaError."""
        if self.rebalancing:
            await self._prepare_join()
            began_ms = monotonic_ms()
            await self._join()
            self._succeeded()
            self._rejections = 0
            self._count_rebalance(began_ms)
        await self._heartbeat_until_rejoin()

    async def _recovers(self, error: KafkaError) -> bool:
        if error.code not in _REJOIN:
            return False
        self._rejoin_needed = True
        if error.code in _FENCED:
            await self._forget_generation(error)
        await self._rejected()
        return True

    async def _forget_generation(self, error: KafkaError) -> None:
        """Lose the partitions of a generation that the group has ended for this member."""
        self._generation_id = NO_GENERATION
        if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        await self._lose()

    async def _heartbeat_until_rejoin(self) -> None:
        """Heartbeat until a rejoin is needed, or the user stalls. Raises the error of a heartbeat."""
        while not self._rejoin_needed:
            self._wake.clear()
            if await wait_for(self._wake, self._heartbeat_pause_ms()):
                continue
            if self._is_stalled():
                await self._leave_stalled()
                return
            await self._beat()

    async def _beat(self) -> None:
        self._counts.heartbeats += 1
        request = self._request(HeartbeatRequest, generation_id=self._generation_id)
        response = await self._coordinator.request(request, HeartbeatResponse)
        if ErrorCode.of(response.error_code) is ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin_needed = True
        else:
            self._coordinator.raise_error(response.error_code, "a heartbeat")

    async def _leave_stalled(self) -> None:
        self._rejoin_needed = True
        await super()._leave_stalled()

    def _request(self, kind: Callable[..., R], **fields: Any) -> R:
        """Return a request of this member."""
        options = self._options
        identity = {"group_id": options.group_id, "group_instance_id": options.group_instance_id}
        return kind(member_id=self._member_id, **identity, **fields)

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
        subscribed = set(self._wanted().topics)
        return frozenset(partition for partition in assigned if partition.topic not in subscribed)

    # -- Join and sync

    async def _join(self) -> None:
        self._rejoin_needed = False
        topics = sorted(self._wanted().topics)
        self._cluster.watch(topics)
        joined = await self._request_join(topics)
        self._member_id, self._generation_id = joined.member_id, joined.generation_id
        assignments: list[SyncGroupRequestAssignment] = []
        self._leader.resign()
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = await self._leader.assign(joined)
        partitions = await self._sync(joined.protocol_name, assignments)
        self._previous, self._previous_generation_id = partitions, joined.generation_id
        if taken_away := self._assignee.partitions().difference(partitions):
            await self._give_up(taken_away)
            # Only now may another member have them, and the next rebalance assigns them.
            self._rejoin_needed = True
            if self.state is not MemberState.JOINING:
                return  # the user has stalled
        await self._heartbeat_while(self._assignee.assign(partitions))
        self.state = MemberState.STABLE
        self._take_part(len(partitions), "generation")
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
            request = self._request(
                JoinGroupRequest,
                session_timeout_ms=self._options.session_timeout_ms,
                rebalance_timeout_ms=self._options.max_poll_interval_ms,
                protocol_type=_PROTOCOL_TYPE,
                protocols=protocols,
            )
            response = await self._ask_for_rebalance(request, JoinGroupResponse)
            if ErrorCode.of(response.error_code) is not ErrorCode.MEMBER_ID_REQUIRED:
                self._coordinator.raise_error(response.error_code, "joining")
                return response
            self._member_id = response.member_id
            await self._rejected()

    async def _sync(self, protocol: str | None, assignments: list[SyncGroupRequestAssignment]) -> list[TopicPartition]:
        """Send the leader's assignments, or none. Return this member's assignment."""
        request = self._request(
            SyncGroupRequest,
            generation_id=self._generation_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=protocol,
            assignments=assignments,
        )
        response = await self._ask_for_rebalance(request, SyncGroupResponse)
        self._coordinator.raise_error(response.error_code, "synchronising")
        return decode_assignment(response.assignment)

    async def _ask_for_rebalance(self, request: Message, response: type[M]) -> M:
        """Send a request to which the coordinator responds when the rebalance ends."""
        limit_ms = self._options.max_poll_interval_ms + _NETWORK_MARGIN_MS
        return await self._coordinator.request(request, response, timeout_ms=limit_ms, purpose=REBALANCE)

    # -- Leave

    async def leave(self, reason: str) -> None:
        self._stop_watching()
        await super().leave(reason)

    async def _leave_group(self, reason: str) -> None:
        member_id, self._member_id, self._generation_id = self._member_id, "", NO_GENERATION
        if not member_id or self._options.group_instance_id is not None:
            return
        try:
            await leave_group(self._coordinator, member_id, reason)
        except asyncio.CancelledError:  # a stop, which leaves then
            self._member_id = member_id
            raise
