"""What the reading side of a member of an old group does, apart from any broker and ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from odradek.client import TopicPartition
from odradek.client.consumer.streams import MAX_QUEUED
from odradek.client.zookeeper import reading
from odradek.client.zookeeper.reading import Reading
from odradek.client.zookeeper.registry import Subscription
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.waiting import until

TOO_MANY = 1000


class Stored:
    """Offsets in memory."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, int] = {}

    async def load(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: self.offsets[each] for each in partitions if each in self.offsets}

    async def store(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.offsets |= offsets


async def test_a_slow_stream_holds_up_none_but_its_own_and_what_was_consumed_is_committed() -> None:
    async with FakeCluster({"t": 2}) as cluster:
        for number in range(2):
            cluster.log("t", number).write(encode_batch([Record(-1, 7, None, b"%d" % each) for each in range(3000)]))
        stored, options = Stored(), {"auto_offset_reset": "earliest", "max_poll_records": 100}
        part = Reading([cluster.address], options, 60_000)
        await part.start(lambda _cluster: stored)
        part.subscribe(Subscription({"t": 2}))
        fast, slow = part.streams.all
        poll = asyncio.create_task(part.poll())
        assert await part.begin_part({TopicPartition("t", 0): 0, TopicPartition("t", 1): 1})
        async with asyncio.timeout(20):
            assert [(await anext(fast)).offset for _ in range(3000)] == list(range(3000))
            await until(lambda: len(slow.queue) >= MAX_QUEUED)
            assert len(slow.queue) < MAX_QUEUED + 100
            assert [(await anext(slow)).offset for _ in range(3000)] == list(range(3000))
        await part.end_part()
        assert stored.offsets == {TopicPartition("t", 0): 2999, TopicPartition("t", 1): 2999}
        poll.cancel()
        await part.stop()


class NotAllowed:
    """A consumer whose polls all fail, at once."""

    polls = 0

    def __init__(self, **_: Any) -> None: ...

    async def getmany(self, **_: Any) -> dict[Any, Any]:
        NotAllowed.polls += 1
        if NotAllowed.polls == TOO_MANY:
            pytest.fail("it polls again and again, and lets nobody else have a turn")
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t")


async def test_an_error_that_stays_is_no_loop_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "Consumer", NotAllowed)
    poll = asyncio.create_task(Reading([], {}, None).poll())
    for _ in range(10):
        await asyncio.sleep(0)
    assert NotAllowed.polls == 1
    assert not poll.done()
    poll.cancel()
    with pytest.raises(asyncio.CancelledError):
        await poll
