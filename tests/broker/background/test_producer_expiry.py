"""Producer expiry: partitions forget silent producers, even if nobody writes to the partition."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.turns import SLICE_NS, keeper
from odradek.storage.producers import ProducerStates
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.waiting import until

MINUTE_MS = 60_000


def producers_of(broker: Broker, name: str) -> ProducerStates:
    topic = broker.topics.get(name)
    assert topic is not None
    return topic.partitions[0].log.producers


async def pass_ms(broker: Broker, clock: FakeClock, time_ms: int) -> None:
    clock.advance(time_ms)
    broker.timers.fire_due()
    await until(lambda: not broker.services.background.producer_expiry.is_busy)


async def test_a_silent_producer_expires_without_any_request(config: BrokerConfig) -> None:
    clock = FakeClock()
    config = replace(
        config,
        connections_max_idle_ms=-1,
        producer_id_expiration_ms=1,
        producer_id_expiration_check_interval_ms=MINUTE_MS,
    )
    silent = batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=0)
    undecided = batch_of(b"x", producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        for name in ("t", "u", "empty"):
            await raw.create_topic(name)
        for name in ("t", "u"):
            await raw.produce(name, silent)
            topic = broker.topics.get(name)
            assert topic is not None
            topic.partitions[0].append_internal(bytearray(undecided))
        for passed_ms, known in ((MINUTE_MS - 1, {7, 8}), (1, {8}), (MINUTE_MS, {8})):
            await pass_ms(broker, clock, passed_ms)
            for name in ("t", "u"):
                # Whose transaction is open is not forgotten.
                assert {number for number, _ in producers_of(broker, name).items()} == known
        await raw.produce("u", silent)
        # The next round looks at what has come since.
        await pass_ms(broker, clock, MINUTE_MS)
        assert producers_of(broker, "u").get(7) is None


async def test_a_partition_that_is_deleted_during_a_round_does_no_harm(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    config = replace(config, connections_max_idle_ms=-1, producer_id_expiration_check_interval_ms=MINUTE_MS)
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 2)
        for number in range(2):
            batch = batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=0)
            await raw.produce("t", batch, partition=number)
        topic = broker.topics.get("t")
        assert topic is not None
        # Each slice ends behind its first step.
        monkeypatch.setattr(keeper(), "clock", count(1 << 60, SLICE_NS).__next__)
        broker.services.background.producer_expiry.make_room()
        assert broker.services.background.producer_expiry.is_busy
        broker.services.delete_topic(topic)
        await until(lambda: not broker.services.background.producer_expiry.is_busy)
