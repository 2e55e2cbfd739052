"""The same random heartbeats of consumer and share groups to two brokers, by a seed: `compare` returns a difference.

Compared are error codes, their texts, and the epochs of members once nothing moves any more. Which partitions a member
gets is not: assignors may choose. Nor are epochs of share groups: they also grow as the states of partitions begin,
which takes its time. Each member says that it has what it was told. Members are static or not; requests are valid,
late, from the future, or of nobody. No two members ask for different assignors: where two have as many votes, the
epochs of Kafka 4.4.0 rise for ever.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field
from random import Random
from typing import Any

from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.tests.support.clients.raw import Raw

# The members, and the instance ids of those that are static: one may replace another.
MEMBERS = {"ann": None, "bob": None, "cat": "i1", "dan": "i1", "eve": "i2"}
TOPICS = ("t", "u")
# A new topic reaches Kafka's coordinators a moment later.
MOMENT_S = 0.5
# A round of heartbeats each; a group of five settles in fewer than ten.
ROUNDS = 100
MISSING = ErrorCode.GROUP_ID_NOT_FOUND
_EPOCH = re.compile(r"\(\d+\)")
INVALID: list[dict[str, Any]] = [
    {"group_id": ""},
    {"member_id": ""},
    {"member_epoch": -3},
    {"member_epoch": 0, "subscribed_topic_names": None},
    {"member_epoch": 0, "rebalance_timeout_ms": -1},
    {"member_epoch": 0, "topic_partitions": None},
    {"instance_id": ""},
    {"rack_id": ""},
    {"server_assignor": "unknown"},
    {"subscribed_topic_regex": "("},
]


@dataclass
class Side:
    """One of the two brokers. `owned` is what its members were told."""

    address: str
    name: str
    raw: Raw = field(init=False)
    epochs: dict[str, int] = field(default_factory=dict[str, int])
    owned: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])

    async def open(self) -> None:
        self.raw = await Raw.connect(self.address)
        for topic in TOPICS:
            await self.raw.create_topic(f"{self.name}-{topic}", 3)
        await asyncio.sleep(MOMENT_S)
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.name])
        describe = ConsumerGroupDescribeRequest([self.name])
        while (await self.raw.ask(ApiKey.FIND_COORDINATOR, 6, find)).coordinators[0].error_code:
            await asyncio.sleep(0.1)
        while (await self.raw.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe)).groups[0].error_code != MISSING:
            await asyncio.sleep(0.1)

    async def beat(self, member: str, fields: dict[str, Any]) -> Any:
        """Send a heartbeat of a consumer group; what `fields` do not say is as a member would have it."""
        given: dict[str, Any] = {"instance_id": MEMBERS[member]} | self._given(member, fields)
        if given["member_epoch"] == 0:
            names = [f"{self.name}-{TOPICS[0]}"]
            joining = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": names, "topic_partitions": []}
            given = joining | given
        else:
            given = {"topic_partitions": self.owned.get(member, [])} | given
        return await self.raw.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, ConsumerGroupHeartbeatRequest(**given))

    async def share_beat(self, member: str, fields: dict[str, Any]) -> Any:
        """Send a heartbeat of a share group."""
        given: dict[str, Any] = self._given(member, fields)
        if given["member_epoch"] == 0:
            given = {"subscribed_topic_names": [f"{self.name}-{TOPICS[0]}"]} | given
        return await self.raw.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, ShareGroupHeartbeatRequest(**given))

    def _given(self, member: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a heartbeat. `ahead` is how far its epoch is from the right one."""
        rest = dict(fields)
        epoch = rest.pop("member_epoch", self.epochs.get(member, 0) + rest.pop("ahead", 0))
        return {"group_id": self.name, "member_id": member, "member_epoch": epoch, **rest}

    def note(self, member: str, response: Any) -> None:
        """Be told where a member is."""
        if response.error_code:
            return
        if response.member_epoch <= 0:
            self.epochs.pop(member, None)
            self.owned.pop(member, None)
            return
        self.epochs[member] = response.member_epoch
        if response.assignment is not None:
            told = response.assignment.topic_partitions
            self.owned[member] = [TopicPartitions(each.topic_id, each.partitions) for each in told]


class Comparison:
    """One history. `is_share`: of a share group."""

    def __init__(self, seed: int, addresses: tuple[str, str], *, is_share: bool) -> None:
        self.chance = Random(seed)
        self.is_share = is_share
        self.history: list[Any] = []
        self.name = f"seed {seed}"
        name = f"m{seed}-{time.time_ns()}"
        self.sides = [Side(address, name) for address in addresses]

    async def run(self, steps: int) -> list[str]:
        """Return the first difference, or nothing."""
        for side in self.sides:
            await side.open()
        try:
            for step in range(steps):
                member, fields = self.chance.choice(list(MEMBERS)), self._fields()
                self.history.append((member, fields))
                difference = await self._beat(member, fields)
                if difference:
                    return [f"{self.name} step {step}: {self.history[-8:]}: {difference}"]
                is_settled = await self._settle()
                epochs = [side.epochs for side in self.sides]
                if not is_settled or (epochs[0] != epochs[1] and not self.is_share):
                    what = "epochs" if is_settled else "no end of changes"
                    return [f"{self.name} step {step}: {self.history[-8:]}: {what}\n  {epochs[0]}\n  {epochs[1]}"]
            return await self._described()
        finally:
            for side in self.sides:
                side.raw.close()

    def _fields(self) -> dict[str, Any]:
        """Return what is unusual in the next heartbeat."""
        chance, name = self.chance, self.sides[0].name
        topics = [f"{name}-{topic}" for topic in chance.sample(TOPICS, chance.randint(1, 2))]
        known = ("group_id", "member_id", "member_epoch", "rack_id", "subscribed_topic_names")
        invalid = [each for each in INVALID if not self.is_share or all(field in known for field in each)]
        usual: list[dict[str, Any]] = [
            {},
            {},
            {"member_epoch": 0},
            {"member_epoch": -1},
            {"ahead": chance.choice((1, 5) if self.is_share else (-2, -1, 1, 5))},
            {"subscribed_topic_names": topics},
            chance.choice(invalid),
        ]
        if not self.is_share:
            usual += [{"member_epoch": -2}, {"server_assignor": "range"}]
        return chance.choice(usual)

    async def _beat(self, member: str, fields: dict[str, Any]) -> str:
        answers: list[Any] = []
        for side in self.sides:
            response = await (side.share_beat if self.is_share else side.beat)(member, fields)
            if response.member_id == member:
                side.note(member, response)
            # When a member comes to a new epoch depends on the partitions that it has to give up.
            answers.append((response.error_code, self._told(response.error_message), min(response.member_epoch, 1)))
        return "" if answers[0] == answers[1] else f"\n  {answers[0]}\n  {answers[1]}"

    def _told(self, text: str | None) -> str | None:
        if text and text.startswith("SubscribedTopicRegex"):
            return text.partition(":")[0]  # what is wrong, each library of RE2 says in words of its own
        return _EPOCH.sub("(...)", text) if text and self.is_share else text

    def _epoch(self, response: Any) -> int:
        return min(response.member_epoch, 1) if self.is_share else response.member_epoch

    async def _settle(self) -> bool:
        """Have every member beat until nothing comes any more: how soon it does is not compared, only whether."""
        return all([await self._is_settled(side) for side in self.sides])

    async def _is_settled(self, side: Side) -> bool:
        quiet = 0
        for _ in range(ROUNDS):
            before = dict(side.epochs), dict(side.owned)
            for member in list(side.epochs):
                side.note(member, await (side.share_beat if self.is_share else side.beat)(member, {}))
            quiet = quiet + 1 if before == (side.epochs, side.owned) else 0
            if quiet == 2:
                return True
            await asyncio.sleep(0.02)
        return False

    async def _described(self) -> list[str]:
        """Compare the group as administrators see it."""
        shown: list[Any] = []
        for side in self.sides:
            if self.is_share:
                key, request = ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest([side.name])
            else:
                key, request = ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest([side.name])
            (group,) = (await side.raw.ask(key, 1, request)).groups
            members = sorted(
                (
                    each.member_id,
                    self._epoch(each),
                    sorted(each.subscribed_topic_names),
                    None if self.is_share else each.subscribed_topic_regex,
                )
                for each in group.members
            )
            epoch = 0 if self.is_share else group.group_epoch
            shown.append((group.error_code, group.error_message, group.group_state, epoch, members))
        return [] if shown[0] == shown[1] else [f"described\n  {shown[0]}\n  {shown[1]}"]


async def compare(seed: int, addresses: tuple[str, str], steps: int, *, is_share: bool) -> list[str]:
    """Return where the answers to one history differ."""
    return await Comparison(seed, addresses, is_share=is_share).run(steps)
