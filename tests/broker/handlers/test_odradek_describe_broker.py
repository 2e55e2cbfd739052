"""What a broker tells of itself: its clock, and the damage that it has found."""

from __future__ import annotations

from typing import Any

from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import OwnApiKey
from odradek.protocol.messages.odradek_describe_broker import MAX_NAMED, OdradekDescribeBrokerRequest
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.fakes.clock import FakeClock


async def describe(raw: Raw) -> Any:
    return await raw.ask(OwnApiKey.ODRADEK_DESCRIBE_BROKER, 0, OdradekDescribeBrokerRequest())


async def test_the_time_is_that_of_the_clock_of_the_broker(config: BrokerConfig) -> None:
    clock = FakeClock(1_234_567_890_123)
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        assert (await describe(raw)).time_ms == 1_234_567_890_123


async def test_all_damage_is_counted_and_the_first_partitions_are_named(raw: Raw, broker: Broker) -> None:
    await raw.create_topic("t", MAX_NAMED + 1)
    answer = await describe(raw)
    assert (answer.error_code, answer.damaged_places, answer.damaged) == (0, 0, [])
    topic = broker.topics.get("t")
    assert topic is not None
    for each in topic.partitions:
        each.log.segments[0].mark(0, "planted")
    answer = await describe(raw)
    assert answer.damaged_places == MAX_NAMED + 1 and len(answer.damaged) == MAX_NAMED
    assert (answer.damaged[0].topic, answer.damaged[0].partition, answer.damaged[0].places) == ("t", 0, 1)
