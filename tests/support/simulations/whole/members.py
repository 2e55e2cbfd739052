"""The members of a group of a simulated cluster. They commit what they have read, and some of them too late.

At each epoch (the generation of a classic group) a partition has one owner, and nobody else's commit is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from odradek.client import Consumer, RebalanceListener, TopicPartition
from odradek.client.errors import CommitFailed
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.testing.simulation.cluster import Cluster

from .history import Commit, History, name_of
from .load import ATTEMPT_MS, IDLE_MS, PARTITIONS, PLAIN, Load
from .requests import Requests

GROUP = "group"
_COMMIT_VERSION = 9
_HEARTBEAT_VERSION = 1
_PATTERN_OPTIONS: dict[str, Any] = {"group_id": GROUP, "group_protocol": "consumer", "enable_auto_commit": False}
_Offsets = dict[TopicPartition, int]


class _Owner(RebalanceListener):
    """Takes down who has which partition at which epoch."""

    def __init__(
        self, history: History, consumer: Consumer[bytes, bytes], tell: Callable[[str], None], *, is_mixed: bool
    ) -> None:
        self._history, self._consumer, self._tell, self._is_mixed = history, consumer, tell, is_mixed
        # What it had at each epoch.
        self.had: dict[int, frozenset[TopicPartition]] = {}

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        try:
            at = self._consumer.group_metadata()
        except CommitFailed:
            # It has lost partitions, and does not know it yet.
            return
        self._history.counts["assignments"] += 1
        self.had[at.generation_id] = self._consumer.assignment()
        self._tell(f"has {sorted(each.partition for each in self._consumer.assignment())} at epoch {at.generation_id}")
        if self._is_mixed:
            # A group that is empty begins with other epochs when it becomes one of the other kind.
            return
        for place in self._consumer.assignment():
            key = (place.topic, place.partition), at.generation_id
            # A static member that comes back has what it had.
            own_id = at.group_instance_id or at.member_id
            owner = self._history.owners.setdefault(key, own_id)
            if owner != own_id:
                self._history.seen.append(f"{place} has two owners at epoch {at.generation_id}: {owner}, {own_id}")


class Member(Load):
    """A member of a group, which commits what it has read."""

    async def run(self) -> None:
        self.is_static = self.chance.random() < 0.3
        self.has_pattern = self.chance.random() < 0.3
        self._requests = Requests(self.addresses, self.name, self.chance)
        await self.until_over(self._consume)

    async def _consume(self) -> None:
        options: dict[str, Any] = {
            "request_timeout_ms": ATTEMPT_MS,
            "fetch_max_wait_ms": IDLE_MS,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
        }
        protocol = self.world.random("protocol").choice(("classic", "consumer", "mixed"))
        if protocol == "classic" or (protocol == "mixed" and self.chance.random() < 0.5):
            options |= {"group_protocol": "classic", "session_timeout_ms": 6_000, "heartbeat_interval_ms": 1_000}
        if self.is_static:
            options["group_instance_id"] = self.name
        kind = options.get("group_protocol", "consumer")
        self.world.tell(self.name, f"joins as a {'static ' if self.is_static else ''}member of the {kind} protocol")
        # The last commit of each epoch.
        before: dict[int, _Offsets] = {}
        async with Consumer(bootstrap_servers=self.addresses, group_id=GROUP, **options) as consumer:
            owner = _Owner(self.history, consumer, partial(self.world.tell, self.name), is_mixed=protocol == "mixed")
            if self.has_pattern:
                consumer.subscribe(pattern=PLAIN, listener=owner)
            else:
                consumer.subscribe(PLAIN, listener=owner)
            ends_s = self.world.now_s + self.chance.uniform(1, 12)
            while not self.is_over and self.world.now_s < ends_s:
                found = await consumer.getmany(timeout_ms=500)
                if found:
                    offsets = {place: records[-1].offset + 1 for place, records in found.items()}
                    await self._commit(consumer, offsets)
                    before[consumer.group_metadata().generation_id] = offsets
                if len(before) > 1 and self.chance.random() < 0.3:
                    await self._commit_late(consumer, before, is_classic=protocol == "classic")
                if protocol == "consumer" and self.chance.random() < 0.3:
                    await self._heartbeat_late(consumer, owner.had)
        self.world.tell(self.name, "has left the group")

    async def _commit(self, consumer: Consumer[bytes, bytes], offsets: _Offsets) -> None:
        began_s = self.world.now_s
        places = {(place.topic, place.partition): offset for place, offset in offsets.items()}
        self.history.wanted_commits.update(places.items())
        await consumer.commit(offsets)
        for place, offset in places.items():
            self.history.commits.append(Commit(self.name, place, offset, began_s, self.world.now_s))
            self.world.tell(self.name, f"offset {offset} of {name_of(place)} is committed")
        self.history.counts["commits"] += 1

    async def _commit_late(
        self, consumer: Consumer[bytes, bytes], before: dict[int, _Offsets], *, is_classic: bool
    ) -> None:
        """Commit as of an epoch that is over, as a thread does that has slept: it must be rejected.

        In a consumer group that holds for a partition that the member has no more.
        """
        at, epoch = consumer.group_metadata(), self.chance.choice(list(before))
        late = {
            (place.topic, place.partition): offset
            for place, offset in before[epoch].items()
            if is_classic or place not in consumer.assignment()
        }
        if not late or epoch >= at.generation_id:
            return
        self.history.wanted_commits.update(late.items())
        partitions = [
            OffsetCommitRequestPartition(place[1], offset, committed_metadata=None) for place, offset in late.items()
        ]
        request = OffsetCommitRequest(GROUP, epoch, at.member_id, at.group_instance_id)
        request.topics = [OffsetCommitRequestTopic(PLAIN, partitions=partitions)]
        coordinator = await self._requests.group_coordinator(GROUP)
        answer = await coordinator.request(request, OffsetCommitResponse, version=_COMMIT_VERSION)
        self.history.counts["late commits"] += 1
        for each in answer.topics[0].partitions:
            if each.error_code == ErrorCode.NONE:
                place = PLAIN, each.partition_index
                self.history.seen.append(
                    f"{name_of(place)}: a commit of epoch {epoch} was taken after epoch {at.generation_id}"
                )

    async def _heartbeat_late(
        self, consumer: Consumer[bytes, bytes], had: dict[int, frozenset[TopicPartition]]
    ) -> None:
        """Send the heartbeat of an epoch that is over, with partitions that the member has given up since.

        It comes late over a connection that hung. With several brokers one may answer that was the coordinator then.
        """
        at, has = consumer.group_metadata(), consumer.assignment()
        over = [epoch for epoch, places in had.items() if epoch < at.generation_id and not places <= has]
        if not over or "," in self.addresses:
            return
        epoch = self.chance.choice(over)
        numbers = sorted(each.partition for each in had[epoch])
        request = ConsumerGroupHeartbeatRequest(GROUP, at.member_id, epoch, at.group_instance_id)
        request.topic_partitions = [TopicPartitions(await self._requests.topic_id(PLAIN), numbers)]
        coordinator = await self._requests.group_coordinator(GROUP)
        answer = await coordinator.request(request, ConsumerGroupHeartbeatResponse, version=_HEARTBEAT_VERSION)
        self.history.counts["late heartbeats"] += 1
        if answer.error_code == ErrorCode.NONE:
            late = f"a heartbeat of {self.name} as of epoch {epoch}, with partitions {numbers}"
            why = f"{late}, is taken, though it has gone on to epoch {at.generation_id} and given some of them up"
            self.history.seen.append(why)


class _Losses(RebalanceListener):
    """Takes down which partitions a member gives up."""

    def __init__(self) -> None:
        self.places: set[TopicPartition] = set()

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.places |= partitions

    on_partitions_lost = on_partitions_revoked


async def _visit(addresses: str, has: set[TopicPartition]) -> None:
    """Be a member until the process is killed."""
    async with Consumer(bootstrap_servers=addresses, **_PATTERN_OPTIONS) as consumer:
        consumer.subscribe(pattern=PLAIN)
        while True:
            await consumer.getmany(timeout_ms=200)
            has.update(consumer.assignment())


async def check_group(cluster: Cluster) -> list[str]:
    """Have a second member come and die: those before have left their partitions, and the first one keeps its.

    The cluster must be whole.
    """
    losses, others = _Losses(), set[TopicPartition]()
    visitor = cluster.client("visitor")
    async with Consumer(bootstrap_servers=cluster.addresses, **_PATTERN_OPTIONS) as consumer:
        consumer.subscribe(pattern=PLAIN, listener=losses)
        visitor.start(_visit(cluster.addresses, others))
        while not (others and len(consumer.assignment()) == 1):
            await consumer.getmany(timeout_ms=200)
        visitor.kill()
        losses.places.clear()
        while len(consumer.assignment()) < PARTITIONS:
            await consumer.getmany(timeout_ms=500)
        lost = sorted(losses.places)
    return [f"a member of {GROUP} had to give up {lost} when another one died"] if lost else []
