"""A client of the classic protocol among those of a consumer group: it joins, syncs, leads, loses answers.

It is eager (it gives everything up before it joins again) or cooperative (it keeps what it has, and gives up what the
assignment takes from it). In a classic group it may be the leader, and then assigns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from odradek.broker.coordination.consumer.migration import assignment_bytes, places_of
from odradek.broker.coordination.modern.state import Place
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_versioned,
    encode_versioned,
)
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.tests.broker.coordination.classic.world import FakeContext, FakeTopics, World

GROUP = "g"
LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
# The group has members that share no protocol with this one, or none of the consumer protocol at the moment.
TRY_AGAIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


@dataclass
class ClassicClient:
    """One consumer of the classic protocol."""

    topics: list[str]
    is_eager: bool
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    has: set[Place] = field(default_factory=set[Place])
    # What the last assignment gives; what is in `has` besides is being given up.
    wanted: set[Place] = field(default_factory=set[Place])
    # The request that is under way, and its answer or the future of it.
    asked: str = ""
    answer: Any = None
    is_in: bool = False

    def act(self, world: World, *, is_lost: bool = False) -> None:
        """Take the answer in that has come, or send what is next."""
        if self.asked:
            self._hear(world, is_lost)
        elif not self.is_in:
            self._join(world)
        else:
            request = HeartbeatRequest(GROUP, self.generation, self.member_id, self.instance_id)
            self._ask("heartbeat", world.groups.heartbeat(FakeContext(4), request))
            self._hear(world, is_lost)

    def settle(self) -> None:
        """Give up what the last assignment took."""
        if self.has - self.wanted and not self.asked:
            self.has &= self.wanted
            self.is_in = False

    def forget_request(self) -> None:
        """The connection is cut: no answer comes any more."""
        if self.asked:
            self.asked, self.is_in = "", False

    def _join(self, world: World) -> None:
        if self.is_eager:
            self.has, self.wanted = set(), set()
        owned = [
            TopicPartition(topic.name, sorted(index for topic_id, index in self.has if topic_id == topic.id))
            for topic in world.topics.topics
        ]
        said = ConsumerProtocolSubscription(self.topics, None, [each for each in owned if each.partitions])
        protocols = [JoinGroupRequestProtocol("any", encode_versioned(said, 1))]
        request = JoinGroupRequest(GROUP, 45_000, 60_000, self.member_id, self.instance_id, "consumer", protocols)
        self._ask("join", world.groups.join(FakeContext(9), request))

    def _ask(self, what: str, answer: Any) -> None:
        self.asked, self.answer = what, answer

    def _hear(self, world: World, is_lost: bool) -> None:
        answer = self.answer
        if hasattr(answer, "done"):
            if not answer.done():
                return
            answer = answer.result()
        asked, self.asked = self.asked, ""
        if is_lost:
            self.is_in = False
        elif answer.error_code:
            self._fail(answer)
        elif asked == "join":
            self._sync(world, answer)
        elif asked == "sync":
            given = decode_versioned(ConsumerProtocolAssignment, answer.assignment).assigned_partitions
            self.wanted = places_of(given, world.topics)
            self.has |= self.wanted
            self.is_in = True

    def _fail(self, answer: Any) -> None:
        self.is_in = False
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error_code in LOST:
            self.member_id, self.generation, self.has, self.wanted = "", -1, set(), set()
        elif answer.error_code == ErrorCode.ILLEGAL_GENERATION:
            self.generation, self.has, self.wanted = -1, set(), set()
        else:
            assert answer.error_code in TRY_AGAIN, answer

    def _sync(self, world: World, answer: JoinGroupResponse) -> None:
        self.member_id, self.generation = answer.member_id, answer.generation_id
        given: list[SyncGroupRequestAssignment] = []
        if answer.leader == self.member_id:
            given = [SyncGroupRequestAssignment(*each) for each in lead(answer, world.topics)]
        request = SyncGroupRequest(GROUP, self.generation, self.member_id, self.instance_id, "consumer", "any", given)
        self._ask("sync", world.groups.sync(FakeContext(5), request))


def lead(answer: JoinGroupResponse, topics: FakeTopics) -> list[tuple[str, bytes]]:
    """Assign as a leader. Nobody gets what another one has not given up."""
    said = {each.member_id: decode_versioned(ConsumerProtocolSubscription, each.metadata) for each in answer.members}
    owners = {
        place: member_id for member_id, each in said.items() for place in places_of(each.owned_partitions, topics)
    }
    given: dict[str, set[Place]] = {member_id: set() for member_id in said}
    for topic in topics.topics:
        takers = [member_id for member_id, each in said.items() if topic.name in each.topics]
        for index in range(topic.partitions if takers else 0):
            taker = takers[index % len(takers)]
            if owners.get((topic.id, index), taker) == taker:
                given[taker].add((topic.id, index))
    return [(member_id, assignment_bytes(places, topics)) for member_id, places in given.items()]
