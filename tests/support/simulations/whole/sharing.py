"""A share group of a simulated cluster: each record is delivered, to one member at a time, and accepted once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from odradek.client import Admin, ShareConsumer, TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import read_share_group_state_summary as summary_api
from odradek.protocol.messages import write_share_group_state as write_api
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from odradek.testing.simulation.world import World

from .history import History, Hold, Place, name_of
from .judge import Log
from .load import ATTEMPT_MS, PARTITIONS, PLAIN, Load
from .requests import Requests

SHARED = "shared"
LOCK_MS = "5000"
_STATE_VERSION = _HEARTBEAT_VERSION = 1
# Twice the time for which a record is locked for a member that has gone.
_DRAINED_S = 30.0
_MOST_POLLED = 20
# When a member has had a record for so long, and not much longer, it has the lock, whatever is still under way.
_SURELY_LOCKED_S = (1.0, 4.0)


async def begin(admin: Admin) -> None:
    """Have the group begin with the first record: without offsets it would begin with the next one."""
    await admin.alter_share_group_offsets(SHARED, {TopicPartition(PLAIN, index): 0 for index in range(PARTITIONS)})


class ShareMember(Load):
    """A member that accepts most of its records, and releases the others."""

    # Returns what a lock of a member hangs on: where that has changed, the lock may be gone.
    state_of: Callable[[Place, str], object] = staticmethod(lambda place, member: object())

    async def run(self) -> None:
        # How soon it hears of a new leader that the old one does not know of.
        self._age_ms = self.chance.choice((1_000, 300_000))
        await self.until_over(self._consume)

    async def _consume(self) -> None:
        options: dict[str, Any] = {"share_acknowledgement_mode": "explicit", "max_poll_records": _MOST_POLLED}
        options |= {"request_timeout_ms": ATTEMPT_MS, "metadata_max_age_ms": self._age_ms}
        async with ShareConsumer(PLAIN, bootstrap_servers=self.addresses, group_id=SHARED, **options) as consumer:
            ends_s = self.world.now_s + self.chance.uniform(3, 20)
            # What it had when an attempt failed is no longer its own.
            self._let_go()
            # Since when each partition may have been asked: each leader is, by itself.
            self._began_s, self._free_s = self.world.now_s, dict[Place, float]()
            while not self.is_over and self.world.now_s < ends_s:
                accepted: list[tuple[Place, int]] = []
                found = await consumer.getmany(timeout_ms=500)
                asked_s = min((self._asked_s(each) for each in found), default=0.0)
                for place, records in found.items():
                    for each in records:
                        key = (place.topic, place.partition), each.offset
                        self.history.delivered.add(key)
                        if self.chance.random() < 0.1:
                            consumer.release(each)
                        else:
                            consumer.accept(each)
                            accepted.append(key)
                            self._hold(key)
                # Some work takes nearly as long as a lock holds.
                is_long = accepted and self.chance.random() < 0.4
                await asyncio.sleep(self.chance.uniform(1, 4) if is_long else self.chance.expovariate(self.rate))
                self._let_go()
                if 0 < sum(map(len, found.values())) < _MOST_POLLED:
                    # All that it has got is done: what comes next is locked from now on at the earliest.
                    self._free_s |= dict.fromkeys(((each.topic, each.partition) for each in found), self.world.now_s)
                await consumer.commit()
                self._note(accepted, is_locked=self.world.now_s - asked_s < int(LOCK_MS) / 1000)

    def _hold(self, key: tuple[Place, int]) -> None:
        """Take down that it works on a record: nobody else does."""
        place, now_s, other = key[0], self.world.now_s, self.history.held.get(key)
        least_s, most_s = _SURELY_LOCKED_S
        is_locked = other is not None and least_s < now_s - other.since_s < most_s
        if other is not None and is_locked and other.while_same == self.state_of(place, other.member):
            why = f"offset {key[1]} of a share group is given to {self.name}, and {other.member} has it"
            self.history.seen.append(f"{name_of(place)}: {why} since {other.since_s:.3f} s")
        if now_s - self._free_s.get(place, self._began_s) < least_s:
            self.history.held[key] = Hold(self.name, now_s, self.state_of(place, self.name))
        else:
            # The lock may be nearly over: it was got with others, or with what waited until acknowledgements were kept.
            self.history.held.pop(key, None)

    def _asked_s(self, place: TopicPartition) -> float:
        return self._free_s.get((place.topic, place.partition), self._began_s)

    def _let_go(self) -> None:
        held = self.history.held
        for key in [key for key, each in held.items() if each.member == self.name]:
            del held[key]

    def _note(self, accepted: list[tuple[Place, int]], *, is_locked: bool) -> None:
        """Take down what was accepted. What comes too late, before the group's start, is ignored, as in Kafka."""
        self.history.counts["accepted"] += len(accepted)
        for key in accepted:
            if is_locked and key in self.history.accepted:
                self.history.seen.append(f"{name_of(key[0])}: offset {key[1]} of a share group was accepted twice")
            self.history.accepted.add(key)


class FormerLeader(Load):
    """Sends writes of a leader that leads no more, as they come late over a connection that hung. Nobody takes them."""

    async def run(self) -> None:
        self._requests = Requests(self.addresses, self.name, self.chance)
        await self.until_over(self._write)

    async def _write(self) -> None:
        await asyncio.sleep(self.chance.expovariate(self.rate))
        index, topic_id = self.chance.randrange(PARTITIONS), await self._requests.topic_id(PLAIN)
        broker = await self._requests.any()
        asked = summary_api.ReadStateSummaryData(topic_id, [summary_api.PartitionData(index)])
        request = summary_api.ReadShareGroupStateSummaryRequest(SHARED, [asked])
        found = await broker.request(request, summary_api.ReadShareGroupStateSummaryResponse, version=_STATE_VERSION)
        state = found.results[0].partitions[0]
        if state.error_code or not state.leader_epoch:
            return
        late = write_api.PartitionData(index, state.state_epoch, state.leader_epoch - 1, state.start_offset)
        write = write_api.WriteShareGroupStateRequest(SHARED, [write_api.WriteStateData(topic_id, [late])])
        answer = await broker.request(write, write_api.WriteShareGroupStateResponse, version=_STATE_VERSION)
        self.history.counts["late writes of a share leader"] += 1
        if answer.results[0].partitions[0].error_code == ErrorCode.NONE:
            why = f"a write of leader epoch {late.leader_epoch} was taken after epoch {state.leader_epoch}"
            self.history.seen.append(f"{PLAIN}-{index} of a share group: {why}")


class Namesakes(Load):
    """Two services that begin with one group id at the same time, for groups of two kinds. One of them gets it."""

    _number = 0

    async def run(self) -> None:
        self._of_share, self._of_consumer = (Requests(self.addresses, self.name, self.chance) for _ in range(2))
        await self.until_over(self._begin)

    async def _begin(self) -> None:
        self._number += 1
        group = f"{self.name}{self._number}"
        share = ShareGroupHeartbeatRequest(group, "sharer", 0, subscribed_topic_names=[PLAIN])
        consumer = ConsumerGroupHeartbeatRequest(group, "consumer", 0, rebalance_timeout_ms=60_000, topic_partitions=[])
        consumer.subscribed_topic_names = [PLAIN]
        one, other = await self._of_share.group_coordinator(group), await self._of_consumer.group_coordinator(group)
        answers = await asyncio.gather(
            one.request(share, ShareGroupHeartbeatResponse, version=_HEARTBEAT_VERSION),
            other.request(consumer, ConsumerGroupHeartbeatResponse, version=_HEARTBEAT_VERSION),
        )
        self.history.counts["namesakes"] += 1
        if not any(each.error_code for each in answers):
            self.history.seen.append(f"group {group} has members of two kinds")
        await asyncio.sleep(self.chance.expovariate(0.5))


async def check_sharing(
    world: World, history: History, addresses: str, logs: Mapping[Place, Log]
) -> AsyncIterator[str]:
    """Take what is left in the group, and check that nothing was passed over."""
    wanted = {(place, offset) for place, log in logs.items() if place[0] == PLAIN for offset, _ in log}
    ends_s = world.now_s + _DRAINED_S
    async with ShareConsumer(PLAIN, bootstrap_servers=addresses, group_id=SHARED) as consumer:
        while not wanted <= history.delivered and world.now_s < ends_s:
            for place, records in (await consumer.getmany(timeout_ms=500)).items():
                for each in records:
                    key = (place.topic, place.partition), each.offset
                    if key in history.accepted:
                        yield f"{name_of(key[0])}: offset {key[1]} was accepted, and is delivered again"
                    history.delivered.add(key)
    lost = sorted(wanted - history.delivered)
    if lost:
        yield f"{len(lost)} records were never delivered to the share group, the first is {lost[0]}"
