"""The limit of producer ids over all partitions: a new one past it gets an error, known ones write on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.topics.producer_limit import RECOUNT_MS, SILENT_MS
from odradek.protocol.errors import ErrorCode
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.waiting import until

LIMIT = 4


@pytest.fixture
def limited(config: BrokerConfig) -> BrokerConfig:
    return replace(config, connections_max_idle_ms=-1, max_producer_ids=LIMIT)


async def produce(raw: Raw, producer_id: int, sequence: int = 0, topic: str = "t") -> int:
    batch = batch_of(b"x", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    return (await raw.produce(topic, batch)).error_code


async def test_a_new_producer_id_past_the_limit_gets_an_error_and_known_ones_write_on(limited: BrokerConfig) -> None:
    async with Broker(limited) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        await raw.create_topic("u")
        assert [await produce(raw, number) for number in range(LIMIT - 1)] == [0] * (LIMIT - 1)
        # An id counts in each partition that remembers it.
        assert await produce(raw, 0, topic="u") == 0
        assert await produce(raw, 99) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert await produce(raw, 1, topic="u") == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert await produce(raw, 1, sequence=1) == 0
        assert (await raw.produce("t", batch_of(b"no producer id"))).error_code == 0


async def test_producers_that_were_silent_make_room(limited: BrokerConfig) -> None:
    clock = FakeClock()
    async with Broker(limited, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        for number in range(LIMIT):
            await produce(raw, number)
        clock.advance(SILENT_MS - 1)
        await produce(raw, 0, sequence=1)
        assert await produce(raw, 99) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        clock.advance(RECOUNT_MS)
        assert await produce(raw, 99) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        await until(lambda: not broker.services.background.producer_expiry.is_busy)
        clock.advance(RECOUNT_MS)
        assert await produce(raw, 99) == 0
        # The one that wrote in between is remembered: its batch is not appended twice.
        assert await produce(raw, 0, sequence=1) == 0
        topic = broker.topics.get("t")
        assert topic is not None
        assert sorted(number for number, _ in topic.partitions[0].log.producers.items()) == [0, 99]


async def test_the_limit_counts_what_a_start_found(limited: BrokerConfig) -> None:
    async with Broker(limited) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        for number in range(LIMIT):
            await produce(raw, number)
    async with Broker(limited) as broker, await Raw.connect(broker.address) as raw:
        assert await produce(raw, 99) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
