"""Random histories of a fetch session, by seed: each response tells what the client does not know, and nothing else."""

from __future__ import annotations

import random
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.broker.handlers import fetch
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from odradek.tests.support.brokers.slices import end_slices_after
from odradek.tests.support.clients.raw import Raw, batch_of

PARTITIONS = 6
STEPS = 60


class History:
    """A client with a session over partitions of one topic, and what it has been told of each of them."""

    def __init__(self, broker: Broker, raw: Raw, seed: int) -> None:
        self.broker = broker
        self.raw = raw
        self.chance = random.Random(seed)
        self.name = f"t-{seed}"
        self.session_id = self.epoch = 0
        # By partition, in the order in which they are served: the offset that the session fetches from.
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        # By partition: (high watermark, log start offset); what the client knows of an error is nothing.
        self.known: dict[int, tuple[int, int]] = {}

    async def run(self) -> None:
        await self.raw.create_topic(self.name, PARTITIONS)
        for _ in range(3):
            await self.produce()
        await self.fetch(self.offsets)
        for _ in range(STEPS):
            others = [self.delete_records, self.create_again, self.change, self.go_on]
            await self.chance.choice([self.produce] * 3 + others)()
            if self.chance.random() < 0.6:
                await self.fetch({})

    async def produce(self) -> None:
        await self.raw.produce(self.name, batch_of(b"x", b"y"), self.chance.randrange(PARTITIONS))

    async def delete_records(self) -> None:
        await self.raw.delete_records(self.name, -1, self.chance.randrange(PARTITIONS))

    async def create_again(self) -> None:
        if self.chance.random() < 0.2:
            await self.raw.delete_topic(self.name)
            if self.chance.random() < 0.5:
                await self.fetch({})
            await self.raw.create_topic(self.name, PARTITIONS)

    async def change(self) -> None:
        """Forget a partition, or fetch one again that was forgotten."""
        index = self.chance.randrange(PARTITIONS)
        if index not in self.offsets:
            self.offsets[index] = 0
            await self.fetch({index: 0})
        elif len(self.offsets) > 1:
            del self.offsets[index]
            self.known.pop(index, None)
            await self.fetch({}, forget=[index])

    async def go_on(self) -> None:
        """Fetch some partitions from their ends on, or from further back."""
        some = [index for index in self.offsets if self.chance.random() < 0.7]
        back = self.chance.choice([0, 0, 2])
        changed = {index: max(self.state(index)[0] - back, 0) for index in some}
        self.offsets |= changed
        await self.fetch(changed)

    def state(self, index: int) -> tuple[int, int]:
        topic = self.broker.topics.get(self.name)
        assert topic is not None
        return topic.partitions[index].high_watermark, topic.partitions[index].log.log_start_offset

    def expected(self) -> set[int]:
        """Return the partitions of which the client does not know everything."""
        if self.broker.topics.get(self.name) is None:
            return set(self.offsets)
        now = {index: self.state(index) for index in self.offsets}
        return {
            index
            for index, (end, start) in now.items()
            if self.offsets[index] != end or self.known.get(index) != (end, start)
        }

    async def fetch(self, changed: dict[int, int], forget: list[int] | None = None) -> None:
        is_first = not self.session_id
        expected = set(self.offsets) if is_first else self.expected()
        wanted = [FetchPartition(index, fetch_offset=at, partition_max_bytes=1000) for index, at in changed.items()]
        request = FetchRequest(
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(self.name, partitions=wanted)] if wanted else [],
            forgotten_topics_data=[ForgottenTopic(self.name, partitions=forget)] if forget else [],
        )
        response: Any = await self.raw.ask(ApiKey.FETCH, 11, request)
        assert response.error_code == 0
        self.session_id, self.epoch = response.session_id, self.epoch + 1
        told = {each.partition_index: each for topic in response.responses for each in topic.partitions}
        assert list(told) == [index for index in self.offsets if index in expected]
        for index, data in told.items():
            self.known.pop(index, None)
            if data.records and not is_first:
                self.offsets[index] = self.offsets.pop(index)
            if data.error_code == ErrorCode.NONE:
                self.known[index] = data.high_watermark, data.log_start_offset


@pytest.mark.parametrize("remembered", [10_000, 2])
async def test_a_session_is_told_what_is_new_and_nothing_else(
    broker: Broker, raw: Raw, monkeypatch: pytest.MonkeyPatch, remembered: int
) -> None:
    monkeypatch.setattr("odradek.broker.purgatory.REMEMBERED_KEYS", remembered)
    for seed in range(10):
        try:
            await History(broker, raw, seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.parametrize("seed", range(6))
async def test_a_session_is_told_the_same_in_several_turns(
    broker: Broker, raw: Raw, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A walk over more partitions than a turn takes loses none that had nothing new before."""
    monkeypatch.setattr(fetch, "AT_ONCE", 2)
    monkeypatch.setattr(fetch, "_STEP", 1)
    end_slices_after(2)
    await History(broker, raw, seed).run()
