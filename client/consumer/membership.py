"""Being a member of a consumer group, by the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup).

    OUT --join--> JOINING --assignment--> MEMBER --(rebalance, subscription or partitions changed)--> JOINING
                                          MEMBER --(fenced: unknown member, old generation)--> partitions lost -->
                                          JOINING MEMBER --(no poll for max_poll_interval_ms)--> left --> OUT until the
                                          next poll

One task runs all of it. A rebalance does not take partitions from under the user: the task heartbeats on until the user
comes back for more (`Owner.idle`), has what was processed committed, gives all partitions up (the eager way) and only
then joins. Where all strategies are cooperative (KIP-429) it gives up only what it does not subscribe any more, tells
the group what it has, and after the join gives up what the assignment takes away; then it joins once more, so that
somebody else can have it. What stays keeps its position and what was fetched ahead. While `rebalancing` is true the
consumer hands out nothing. The leader of the group shares out partitions with the strategy that the members agreed
upon, and starts a rebalance when the topics' partitions have changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from ...protocol.errors import DecodeError, ErrorCode, KafkaError
from ...protocol.messages import consumer_protocol as wire
from ...protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ...protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ...protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ...protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ..assignors import NO_GENERATION, Assignor, Member, Racks
from ..network.cluster import Cluster
from ..network.coordinator import Coordinator, Generation
from ..record import TopicPartition

PROTOCOL_TYPE = "consumer"
_SUBSCRIPTION_VERSION = 3
_ASSIGNMENT_VERSION = 0
_FIRST_BATCH_LEAVE = 3  # LeaveGroup 3 takes several members
# JoinGroup is answered when the rebalance ends; the network gets this much on top.
_JOIN_GRACE_MS = 5_000
# Join again under the same member id, or under a new one.
_REJOIN = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}
_FENCED = {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}


class State(Enum):
    """Where this consumer is in the group's life."""

    OUT = auto()  # not in the group: joins at the next poll (at once where nothing was polled yet)
    JOINING = auto()  # owns nothing, or what cooperation lets it keep; JoinGroup or SyncGroup is under way or will be
    MEMBER = auto()  # owns its assignment and heartbeats
    ENDED = auto()  # left, or refused for good: `error` says why


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """Kafka's options of the same names."""

    group_id: str
    group_instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: float
    max_poll_interval_ms: int
    client_rack: str | None = None


class Owner(Protocol):
    """The consumer, as its membership sees it."""

    # Set while the user is not working on records that were handed out.
    idle: asyncio.Event

    def owned(self) -> frozenset[TopicPartition]:
        """What is ours now."""
        ...

    async def revoked(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Commit what was processed and give up these partitions, or all."""
        ...

    async def lost(self) -> None:
        """All partitions are somebody else's already: nothing can be committed."""
        ...

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These are ours now, and all that are; those that were ours go on where they are."""
        ...

    def stirred(self) -> None:
        """Something changed that a waiting poll should see."""
        ...


class Membership:
    """One consumer's life in one group. Run `run()` as a task, `leave()` at the end."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: Coordinator,
        options: GroupOptions,
        assignors: Sequence[Assignor],
        owner: Owner,
        topics: Callable[[], Iterable[str]],
    ) -> None:
        self._cluster = cluster
        self._coordinator = coordinator
        self._options = options
        self._assignors = {assignor.name: assignor for assignor in assignors}
        # One eager strategy among them, and the group may agree upon it: then all must be given up.
        self._cooperative = all(assignor.cooperative for assignor in assignors)
        self._owner = owner
        self._topics = topics
        self.state = State.OUT
        self.error: KafkaError | None = None
        self._member_id = ""
        self._generation_id = NO_GENERATION
        # What we were given last, for strategies that leave things where they are.
        self._previous: list[TopicPartition] = []
        self._previous_generation_id = NO_GENERATION
        self._wake = asyncio.Event()
        self._wants_rejoin = True
        # What the leader shared out: topic -> partitions. None where another member leads.
        self._shared_out: dict[str, int] | None = None
        cluster.listen(lambda _view: self._partitions_changed())

    @property
    def generation(self) -> Generation:
        return Generation(self._generation_id, self._member_id, self._options.group_instance_id)

    @property
    def rebalancing(self) -> bool:
        """Records must not be handed out now."""
        return self._wants_rejoin or self.state is not State.MEMBER

    def rejoin(self) -> None:
        """The subscription has changed, or somebody told us that the group rebalances."""
        self._wants_rejoin = True
        self._wake.set()

    # -- the task ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Join, stay, rejoin, until cancelled or refused for good."""
        failures = 0
        while True:
            try:
                if self.rebalancing:
                    await self._give_up_partitions()
                    await self._join()
                failures = 0
                await self._stay()
            except DecodeError as error:
                text = f"group {self._options.group_id!r}: what the members tell each other cannot be read: {error}"
                self.state, self.error = State.ENDED, KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
                self._owner.stirred()
                return
            except KafkaError as error:
                if not await self._recover(error):
                    self.state, self.error = State.ENDED, error
                    self._owner.stirred()
                    return
                if error.code not in _REJOIN:
                    failures += 1
                    await asyncio.sleep(self._cluster.backoff.pause_ms(failures) / 1000)

    async def _recover(self, error: KafkaError) -> bool:
        """Whether to go on after `error`."""
        if error.code in _FENCED:
            if self.state is State.MEMBER or self._cooperative:
                await self._owner.lost()
            self.state, self._generation_id = State.JOINING, -1
            if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
        if error.code in _REJOIN:
            self._wants_rejoin = True
            return True
        return error.retriable

    async def _stay(self) -> None:
        """Heartbeat until a rejoin is wanted. Raises what a heartbeat is answered with."""
        while not self._wants_rejoin:
            self._wake.clear()
            try:
                async with asyncio.timeout(self._options.heartbeat_interval_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                await self._heartbeat()

    async def _heartbeat(self) -> None:
        question = HeartbeatRequest(
            group_id=self._options.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=self._options.group_instance_id,
        )
        answer = await self._coordinator.ask(question, HeartbeatResponse)
        self._coordinator.refuse(answer.error_code, "a heartbeat")

    async def _give_up_partitions(self) -> None:
        """Wait until the user comes back, at most `max_poll_interval_ms`, then have the partitions given up."""
        if self.state is not State.MEMBER:
            if self.state is State.OUT:
                await self._owner.idle.wait()
            self.state = State.JOINING
            return
        if not await self._user_is_back():
            await self.leave("max.poll.interval.ms is over")
            await self._owner.lost()
            self.state = State.OUT
            await self._owner.idle.wait()
        elif self._cooperative:
            wanted = set(self._topics())
            await self._owner.revoked([each for each in self._owner.owned() if each.topic not in wanted])
        else:
            await self._owner.revoked()
        self.state = State.JOINING

    async def _user_is_back(self) -> bool:
        """Whether the user polls again in time; the group is kept waiting meanwhile, and told that we live."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.max_poll_interval_ms / 1000
        while loop.time() < deadline:
            try:
                async with asyncio.timeout(self._options.heartbeat_interval_ms / 1000):
                    await self._owner.idle.wait()
                    return True
            except TimeoutError:
                pass
            try:
                await self._heartbeat()
            except KafkaError as error:
                if error.code is not ErrorCode.REBALANCE_IN_PROGRESS and not error.retriable:
                    raise
        return False

    # -- joining -----------------------------------------------------------------------------------

    async def _join(self) -> None:
        self._wants_rejoin = False
        topics = sorted(self._topics())
        self._cluster.watch(topics)
        answer = await self._ask_to_join(topics)
        self._member_id, self._generation_id = answer.member_id, answer.generation_id
        assignments: list[SyncGroupRequestAssignment] = []
        self._shared_out = None
        if answer.leader == answer.member_id and not answer.skip_assignment:
            assignments = await self._share_out(answer)
        partitions = await self._sync(answer, assignments)
        self._previous, self._previous_generation_id = partitions, answer.generation_id
        if taken := self._owner.owned().difference(partitions):
            # Only now may somebody else have them, who is given them by the next rebalance.
            await self._owner.revoked(taken)
            self._wants_rejoin = True
        await self._owner.assigned(partitions)
        self.state = State.MEMBER
        self._owner.stirred()

    async def _ask_to_join(self, topics: Sequence[str]) -> JoinGroupResponse:
        options = self._options
        protocols = [
            JoinGroupRequestProtocol(name=name, metadata=self._subscription(topics, assignor))
            for name, assignor in self._assignors.items()
        ]
        while True:
            question = JoinGroupRequest(
                group_id=options.group_id,
                session_timeout_ms=options.session_timeout_ms,
                rebalance_timeout_ms=options.max_poll_interval_ms,
                member_id=self._member_id,
                group_instance_id=options.group_instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=protocols,
            )
            limit_ms = options.max_poll_interval_ms + _JOIN_GRACE_MS
            answer = await self._coordinator.ask(question, JoinGroupResponse, timeout_ms=limit_ms)
            if ErrorCode.of(answer.error_code) is not ErrorCode.MEMBER_ID_REQUIRED:
                self._coordinator.refuse(answer.error_code, "joining")
                return answer
            self._member_id = answer.member_id

    def _subscription(self, topics: Sequence[str], assignor: Assignor) -> bytes:
        """What the leader is told of us, with what we did not give up."""
        subscription = wire.ConsumerProtocolSubscription(
            topics=list(topics),
            user_data=assignor.user_data(topics, self._previous, self._previous_generation_id),
            owned_partitions=_by_topic(sorted(self._owner.owned())),
            generation_id=self._generation_id,
            rack_id=self._options.client_rack,
        )
        return wire.encode_versioned(subscription, _SUBSCRIPTION_VERSION)

    async def _share_out(self, answer: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """As the leader: who gets what."""
        assignor = self._assignors.get(answer.protocol_name or "")
        if assignor is None:
            text = (
                f"group {self._options.group_id!r} has chosen a strategy that was not offered: {answer.protocol_name!r}"
            )
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
        members = [_member(each.member_id, each.group_instance_id, each.metadata) for each in answer.members]
        topics = {topic for member in members for topic in member.topics}
        self._cluster.watch(topics)
        await self._cluster.refresh()
        self._shared_out = self._partition_counts(topics)
        partitions = {topic: n for topic, n in self._shared_out.items() if n}
        assignment = assignor.assign_with_racks(members, partitions, self._replica_racks(partitions))
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_assignment(partitions))
            for member_id, partitions in assignment.items()
        ]

    async def _sync(
        self, joined: JoinGroupResponse, assignments: list[SyncGroupRequestAssignment]
    ) -> list[TopicPartition]:
        question = SyncGroupRequest(
            group_id=self._options.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        limit_ms = self._options.max_poll_interval_ms + _JOIN_GRACE_MS
        answer = await self._coordinator.ask(question, SyncGroupResponse, timeout_ms=limit_ms)
        self._coordinator.refuse(answer.error_code, "synchronising")
        if not answer.assignment:
            return []
        mine = wire.decode_versioned(wire.ConsumerProtocolAssignment, answer.assignment)
        return [TopicPartition(each.topic, number) for each in mine.assigned_partitions for number in each.partitions]

    def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        known = self._cluster.view.topics
        return {topic: len(known[topic].partitions) if topic in known else 0 for topic in topics}

    def _replica_racks(self, topics: Iterable[str]) -> Racks:
        """Where the replicas lie, of brokers that tell it and are known now (KIP-881)."""
        view = self._cluster.view
        racks = {node.node_id: node.rack for node in view.nodes.values() if node.rack}
        if not racks:
            return {}
        return {
            topic: [
                frozenset(racks[node] for node in info.replicas if node in racks)
                for info in view.topics[topic].partitions
            ]
            for topic in topics
        }

    def _partitions_changed(self) -> None:
        """New metadata: if we lead and the topics have other partitions than were shared out, the group must
        rebalance."""
        if self._shared_out is None or self.state is not State.MEMBER:
            return
        if self._partition_counts(self._shared_out) != self._shared_out:
            self.rejoin()

    # -- leaving -----------------------------------------------------------------------------------

    async def leave(self, reason: str) -> None:
        """Tell the group, once and without insisting: it would notice by itself. Static members stay (KIP-345)."""
        member_id, self._member_id, self._generation_id = self._member_id, "", -1
        self.state = State.ENDED
        if not member_id or self._options.group_instance_id is not None:
            return
        try:
            connection = await self._coordinator.connection()
            question = LeaveGroupRequest(group_id=self._options.group_id, member_id=member_id)
            if connection.version_for(LeaveGroupRequest) >= _FIRST_BATCH_LEAVE:
                identity = MemberIdentity(member_id=member_id, reason=reason)
                question = LeaveGroupRequest(group_id=self._options.group_id, members=[identity])
            await connection.request(question, LeaveGroupResponse)
        except KafkaError:
            pass  # the session time-out does the same, later


def _assignment(partitions: Iterable[TopicPartition]) -> bytes:
    return wire.encode_versioned(
        wire.ConsumerProtocolAssignment(assigned_partitions=_by_topic(partitions)), _ASSIGNMENT_VERSION
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[wire.TopicPartition]:
    topics: dict[str, wire.TopicPartition] = {}
    for topic, number in partitions:
        topics.setdefault(topic, wire.TopicPartition(topic=topic)).partitions.append(number)
    return list(topics.values())


def _member(member_id: str, group_instance_id: str | None, metadata: bytes) -> Member:
    subscription = wire.decode_versioned(wire.ConsumerProtocolSubscription, metadata)
    owned = tuple(
        TopicPartition(each.topic, number) for each in subscription.owned_partitions for number in each.partitions
    )
    return Member(
        member_id,
        tuple(subscription.topics),
        group_instance_id,
        owned,
        subscription.user_data,
        subscription.generation_id,
        subscription.rack_id,
    )
