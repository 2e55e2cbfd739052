"""Membership by the consumer protocol (KIP-848): the coordinator assigns, and one heartbeat carries everything.

    STABLE --an assignment without some of its partitions--> it revokes them, and says so in a heartbeat
    STABLE --an assignment with more partitions--> it takes them

(`membership.py` has the other arrows.) The coordinator gives a partition to another member only when this one has said
that it does not own it any more. So polls go on returning records of the partitions that stay, and nobody waits for
anybody but the members that have to give something up.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ...protocol.errors import ErrorCode, KafkaError
from ..assignors import NO_GENERATION
from ..core.clock import monotonic_ms, wait_for
from ..core.committed_offsets import Generation
from ..errors import ClientError
from ..record import TopicPartition
from .consumer_protocol import JOIN_EPOCH, MemberHeartbeats, Place
from .membership import Membership, MemberState

_log = logging.getLogger(__name__)

# The group has ended this member, or has forgotten itself: join again with the same id.
_FENCED = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}
# The group takes no new member of the consumer protocol. Kafka 4.3 fails while a member of a classic group has joined
# and has not synced. A static member that was killed is there until its session ends, and only one of the classic
# protocol takes its place before. One topic that is denied denies a subscription as a whole, and only members of the
# classic protocol read the others.
_PROTOCOL_REJECTED = {
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
}
# A member without partitions asks for some this often at first: with the coordinator's interval (5 s) one that joins
# would get them up to 5 s after they are free. Twenty times are longer than others need to hear of it.
_SOON_MS = 500
_SOON_BEATS = 20


class ConsumerMembership(Membership):
    """A member of a group whose coordinator assigns."""

    def __post_init__(self) -> None:
        self._heartbeats = MemberHeartbeats(self._coordinator, self._options)
        # What the coordinator wants this member to have.
        self._target: frozenset[Place] = frozenset()
        # What it has or takes, with the ids of the topics.
        self._owned: dict[TopicPartition, bytes] = {}
        self._takes = False
        # Heartbeats since the join.
        self._beats = 0
        # When the last assignment came, None once the member has it.
        self._began_ms: float | None = None

    @property
    def generation(self) -> Generation:
        """The member's identity for commits: its epoch, once it has joined."""
        instance_id = self._options.group_instance_id
        if self._heartbeats.epoch == JOIN_EPOCH:
            return Generation(NO_GENERATION, "", instance_id)
        return Generation(self._heartbeats.epoch, self._heartbeats.member_id, instance_id)

    @property
    def is_refused(self) -> bool:
        """Whether the group has not taken the member for its protocol's sake: it may take one of another."""
        error = self.error
        if error is None or isinstance(error, ClientError):  # such as a listener's, with a code that brokers give, too
            return False
        return self._heartbeats.epoch == JOIN_EPOCH and error.code in _PROTOCOL_REJECTED

    @property
    def rebalancing(self) -> bool:
        """Whether the member has not joined, or has not come to its assignment."""
        return self.state is not MemberState.STABLE or self._began_ms is not None

    @property
    def pauses_polls(self) -> bool:
        """Whether polls must not return records now: partitions that are given up are held one by one."""
        return self.state is MemberState.ENDED

    @property
    def _interval_ms(self) -> float:
        soon = not self._target and self._beats < _SOON_BEATS
        return min(self._heartbeats.interval_ms, _SOON_MS) if soon else self._heartbeats.interval_ms

    def request_rejoin(self) -> None:
        self._wake.set()

    def may_commit_again(self, generation: Generation, error: KafkaError) -> bool:
        """Whether a commit that was rejected may succeed: a heartbeat brings the epoch that the coordinator has."""
        if error.code is ErrorCode.STALE_MEMBER_EPOCH and self.state is MemberState.STABLE:
            self.request_rejoin()
            return True
        return super().may_commit_again(generation, error)

    # -- Steps

    async def _step(self) -> None:
        """Join or heartbeat, come to the assignment, and wait for the next heartbeat. Raises KafkaError."""
        if self.state is MemberState.UNJOINED:
            await self._polls.asked.wait()
            self.state = MemberState.JOINING
        self._wake.clear()
        await self._beat()
        self._succeeded()
        if self.state is MemberState.JOINING:
            self.state = MemberState.STABLE
            _log.info("group %r: %s has joined", self._options.group_id, self._heartbeats.member_id)
        await self._reconcile()
        if self.state is not MemberState.STABLE:
            return
        self._rejections = 0
        if not await wait_for(self._wake, self._heartbeat_pause_ms()) and self._is_stalled():
            await self._leave_stalled()

    async def _recovers(self, error: KafkaError) -> bool:
        # A coordinator that has been rolled back, or moved to an older broker, knows no consumer protocol any more.
        gone = error.code in _FENCED or error.code is ErrorCode.UNSUPPORTED_VERSION
        if not gone or self._heartbeats.epoch == JOIN_EPOCH:
            return False
        self._forget()
        await self._lose()
        await self._rejected()
        return True

    def _is_denied(self, error: KafkaError) -> bool:
        """Whether the member goes on, as Java's does, until it may describe its topics, or subscribes others."""
        stays = self._heartbeats.epoch != JOIN_EPOCH or self._options.group_protocol != "auto"
        return error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED and stays

    def _may_pass(self, error: KafkaError) -> bool:
        return super()._may_pass(error) or self._is_denied(error)

    def _forget(self) -> None:
        """Begin as a member without partitions."""
        self._heartbeats.forget_epoch()
        self._target, self._owned, self._takes, self._beats, self._began_ms = frozenset(), {}, False, 0, None

    async def _beat(self) -> None:
        self._counts.heartbeats += 1
        self._beats += 1
        try:
            target = await self._heartbeats.send(self._wanted(), self._owned)
        except KafkaError as error:
            if self._is_denied(error):
                self._hindrance = error
                self._signals.poll.set()
            raise
        self._hindrance = None
        if target is not None and target != self._target:
            self._target = target
            self._began_ms = self._began_ms or monotonic_ms()

    # -- The assignment

    async def _reconcile(self) -> None:
        """Come to the assignment, which may change meanwhile: give up what is not in it, then take what is new."""
        while self.state is MemberState.STABLE:
            wanted = await self._named_target()
            gone = {partition for partition, topic_id in self._owned.items() if wanted.get(partition) != topic_id}
            if gone:
                await self._give_up_some(frozenset(gone))
            elif self._takes or wanted.keys() - self._owned.keys():
                # A heartbeat over a new connection says all: what it left out would be given to another member at once.
                self._owned, self._takes = wanted, True
                await self._heartbeat_while(self._assignee.assign(sorted(wanted)))
                self._takes = False
            else:
                break
            if self.state is MemberState.STABLE:
                await self._beat()  # the coordinator waits for the word that this is done
        if self._began_ms is not None and self.state is MemberState.STABLE:
            self._count_rebalance(self._began_ms)
            self._began_ms = None
            self._take_part(len(self._owned), "epoch")

    async def _named_target(self) -> dict[TopicPartition, bytes]:
        """Return the assignment with the names of topics, apart from topics that the metadata do not know yet."""
        if not {topic_id for topic_id, _ in self._target} <= self._names().keys():
            await self._heartbeat_while(self._cluster.refresh())
        names = self._names()
        return {
            TopicPartition(names[topic_id], number): topic_id for topic_id, number in self._target if topic_id in names
        }

    def _names(self) -> Mapping[bytes, str]:
        """Return topic ids with names. What this member owns keeps its name while the metadata lack the topic."""
        owned = {topic_id: partition.topic for partition, topic_id in self._owned.items()}
        return owned | dict(self._cluster.view.topic_names)

    async def _give_up_some(self, gone: frozenset[TopicPartition]) -> None:
        await self._give_up(gone)
        if self.state is MemberState.STABLE:  # the user has not stalled
            self._owned = {partition: topic_id for partition, topic_id in self._owned.items() if partition not in gone}

    # -- Leave

    async def give_up_all(self) -> None:
        # An answer that is missing may have had a new epoch, which the commit needs.
        unsure = self._heartbeats.unsure and self.state is MemberState.STABLE
        if unsure and (fenced := await self._heartbeat_error()) is not None:
            raise fenced
        await super().give_up_all()

    async def _leave_group(self, reason: str) -> None:
        joined = self._heartbeats.unsure or self._heartbeats.epoch != JOIN_EPOCH
        self._forget()
        if joined:
            await self._heartbeats.leave()
