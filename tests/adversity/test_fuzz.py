"""Thousands of requests that are almost valid: each is answered or its connection closed, and nothing stays behind.

`ODRADEK_FUZZ=N` sends N from each seed, `ODRADEK_SEED=S` another seed: a failure names its seed.
"""

import asyncio
import logging
import os
import random
from collections.abc import Callable

import pytest
from odradek.broker import Broker, BrokerConfig, topics
from odradek.tests.support.mutations import framed, mutated, requests
from odradek.tests.support.raw import Raw, batch_of

WAIT_S = 30
COUNT = int(os.environ.get("ODRADEK_FUZZ", "600"))
SEED = int(os.environ.get("ODRADEK_SEED", "1"))
AT_A_TIME = 20


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not true():
            await asyncio.sleep(0.001)


async def send(broker: Broker, data: bytes) -> None:
    """Sends it, says that no more will come, and waits for the broker to close."""
    host, _, port = broker.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(data)
        writer.write_eof()
        async with asyncio.timeout(WAIT_S):
            while await reader.read(65536):
                pass
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()


@pytest.fixture
def small(config: BrokerConfig, monkeypatch: pytest.MonkeyPatch) -> BrokerConfig:
    """A broker that a random request cannot have make thousands of files."""
    monkeypatch.setattr(topics, "MAX_PARTITIONS_PER_TOPIC", 4)
    return config


async def test_almost_valid_requests(small: BrokerConfig, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(SEED)
    caplog.set_level(logging.INFO)
    async with Broker(small) as broker, await Raw.connect(broker.address) as neighbour:
        await neighbour.create_topic("neighbour")
        for name in ("wire-fetch", "wire-produce", "wire"):
            await neighbour.create_topic(name, partitions=2)
        before = asyncio.all_tasks()
        for round_ in range(COUNT // AT_A_TIME):
            frames = [mutated(chance) for _ in range(AT_A_TIME)]
            await asyncio.gather(*(send(broker, framed(data)) for data in frames))
            troubles = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
            assert troubles == [], f"seed {SEED}, round {round_}, one of {[data.hex() for data in frames]}"
            caplog.clear()
            assert (await neighbour.produce("neighbour", batch_of(b"%d" % round_))).base_offset == round_
        await until(lambda: sum(len(each.connections) for each in broker._processors) == 1)
        await until(lambda: asyncio.all_tasks() <= before | {asyncio.current_task()})
        assert len(broker.purgatory) == 0
        assert not any(each.tasks for each in broker._processors)
        answer = await neighbour.fetch("neighbour", 0)
        assert answer.high_watermark == COUNT // AT_A_TIME


async def test_every_captured_request_is_answered_without_trouble(
    small: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    async with Broker(small) as broker:
        everything = [framed(data) for data in requests()]
        for start in range(0, len(everything), AT_A_TIME):
            await asyncio.gather(*(send(broker, data) for data in everything[start : start + AT_A_TIME]))
        await until(lambda: not any(each.connections for each in broker._processors))
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []
