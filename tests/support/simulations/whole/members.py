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
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

from .history import Commit, History
from .load import ATTEMPT_MS, PLAIN, Load
from .requests import Requests

GROUP = "group"
_COMMIT_VERSION = 9
_Offsets = dict[TopicPartition, int]


class _Owner(RebalanceListener):
    """Takes down who has which partition at which epoch."""

    def __init__(
        self, history: History, consumer: Consumer[bytes, bytes], tell: Callable[[str], None], *, is_mixed: bool
    ) -> None:
        self._history, self._consumer, self._tell, self._is_mixed = history, consumer, tell, is_mixed

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        try:
            at = self._consumer.group_metadata()
        except CommitFailed:
            # It has lost partitions, and does not know it yet.
            return
        self._history.counts["assignments"] += 1
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
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
        }
        protocol = self.world.random("protocol").choice(("classic", "consumer", "mixed"))
        if protocol == "classic" or (protocol == "mixed" and self.chance.random() < 0.5):
            options |= {"group_protocol": "classic", "session_timeout_ms": 6_000, "heartbeat_interval_ms": 1_000}
        if self.is_static:
            options["group_instance_id"] = self.name
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

    async def _commit(self, consumer: Consumer[bytes, bytes], offsets: _Offsets) -> None:
        began_s = self.world.now_s
        places = {(place.topic, place.partition): offset for place, offset in offsets.items()}
        self.history.wanted_commits.update(places.items())
        await consumer.commit(offsets)
        for place, offset in places.items():
            self.history.commits.append(Commit(self.name, place, offset, began_s, self.world.now_s))
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
                self.history.seen.append(f"{place}: a commit of epoch {epoch} was taken after epoch {at.generation_id}")
