"""Fuzzing: each of thousands of almost valid requests gets a response or closes its connection, and leaves no trace.

`ODRADEK_FUZZ=N` sends N from each seed, `ODRADEK_SEED=S` another seed: a failure names its seed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.network.routes import ALONE_ROUTES
from odradek.broker.topics import topic_names
from odradek.tests.support.brokers.connections import connections, requests_wait
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.documents.mutations import Imagination, framed, mutated, requests
from odradek.tests.support.waiting import until

WAIT_S = 30
COUNT = int(os.environ.get("ODRADEK_FUZZ", "300"))
SEED = int(os.environ.get("ODRADEK_SEED", "1"))
AT_A_TIME = 20
# On one connection, one behind the other: what the first ones leave is what the next ones meet.
REQUESTS_EACH = 3


async def send(broker: Broker, data: bytes) -> None:
    """Send the bytes and end of stream, and wait until the broker closes the connection."""
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
    """Return the config of a broker on which a random request cannot create thousands of files."""
    monkeypatch.setattr(topic_names, "MAX_PARTITIONS_PER_TOPIC", 4)
    return config


async def hold(broker: Broker, caplog: pytest.LogCaptureFixture, make: Callable[[], bytes]) -> None:
    """Send what `make` returns, beside a client that behaves: it is served, and the broker is left as it was."""
    caplog.set_level(logging.INFO)
    async with await Raw.connect(broker.address) as neighbour:
        await neighbour.create_topic("neighbour")
        before = asyncio.all_tasks()
        for turn in range(COUNT // AT_A_TIME):
            sent = [b"".join(framed(make()) for _ in range(REQUESTS_EACH)) for _ in range(AT_A_TIME)]
            await asyncio.gather(*(send(broker, data) for data in sent))
            troubles = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
            assert troubles == [], f"seed {SEED}, turn {turn}, one of {[data.hex() for data in sent]}"
            caplog.clear()
            assert (await neighbour.produce("neighbour", batch_of(b"%d" % turn))).base_offset == turn
        await until(lambda: len(connections(broker)) == 1)
        await until(lambda: asyncio.all_tasks() <= before)
        assert len(broker.services.purgatory) == 0
        assert not requests_wait(broker)
        assert (await neighbour.fetch("neighbour", 0)).high_watermark == COUNT // AT_A_TIME


async def test_changed_captures_get_an_answer_or_a_close(small: BrokerConfig, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(SEED)
    async with Broker(small) as broker:
        await hold(broker, caplog, lambda: mutated(chance))


async def test_requests_of_random_fields_get_an_answer_or_a_close(
    small: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    async with Broker(small) as broker:
        imagination = Imagination(SEED, [broker.topics.create("t", 3, {}).id])
        chance = imagination.chance

        def make() -> bytes:
            route = chance.choice(ALONE_ROUTES)
            return imagination.request(route.key, chance.choice(route.versions))

        await hold(broker, caplog, make)
        names = [topic.name for topic in broker.topics.all()]
    async with Broker(small) as again:
        assert [topic.name for topic in again.topics.all()] == names


async def test_every_captured_request_is_answered_without_trouble(
    small: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    async with Broker(small) as broker:
        everything = [framed(data) for data in requests()]
        for start in range(0, len(everything), AT_A_TIME):
            await asyncio.gather(*(send(broker, data) for data in everything[start : start + AT_A_TIME]))
        await until(lambda: not connections(broker))
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []
