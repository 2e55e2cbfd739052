"""A client that behaves among many that do not, then a kill: acknowledged records are there."""

from __future__ import annotations

import asyncio
import contextlib
import random
from struct import pack

import pytest
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.records.batch import iter_headers
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.documents.mutations import framed, mutated

# It starts a process and looks at it from outside: which loop the test itself runs on says nothing about it.
pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])

FRAMES = 600
# A request takes a millisecond; a garbage collection, a slow disk and a busy machine are allowed for.
PATIENCE_S = 5


async def vandals(address: str, seed: int) -> None:
    """Send garbled requests, each on a connection of its own; leave some open, cut others."""
    chance = random.Random(seed)
    for _ in range(FRAMES // 3):
        async with await Raw.connect(address) as raw:
            data = framed(mutated(chance))
            raw.send_bytes(data[: chance.randrange(len(data))] if chance.random() < 0.2 else data)
            if chance.random() < 0.5:
                with contextlib.suppress(TimeoutError, ConnectionError):
                    async with asyncio.timeout(0.01):
                        await raw.is_closed()


async def hoarders(address: str, stack: contextlib.AsyncExitStack) -> None:
    """Open connections that announce large frames, or that send requests and never read, and keep them open."""
    wanted = [FetchTopic("load", partitions=[FetchPartition(0, partition_max_bytes=50 << 20)])]
    for index in range(60):
        raw = await stack.enter_async_context(await Raw.connect(address))
        if index % 2:
            raw.send_bytes(pack(">i", 100 << 20) + bytes(1000))
            continue
        raw._reader._transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(20):
            raw.send(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=0, max_bytes=50 << 20, topics=wanted))


async def behave(raw: Raw, until: asyncio.Future[object]) -> list[int]:
    """Produce one record after the other; return the acknowledged ones."""
    acknowledged: list[int] = []
    while not until.done():
        async with asyncio.timeout(PATIENCE_S):
            number = len(acknowledged)
            answer = await raw.produce("neighbour", batch_of(b"%d" % number))
            assert (answer.error_code, answer.base_offset) == (0, number)
            acknowledged.append(number)
    return acknowledged


async def test_nothing_acknowledged_is_lost_and_nobody_waits(process: BrokerProcess) -> None:
    process.start()
    async with contextlib.AsyncExitStack() as stack:
        raw = await stack.enter_async_context(await Raw.connect(process.address))
        await raw.create_topic("neighbour")
        await raw.create_topic("load")
        for _ in range(8):
            await raw.produce("load", batch_of(bytes(1_000_000)))
        await hoarders(process.address, stack)
        storm = asyncio.gather(*(vandals(process.address, seed) for seed in range(3)))
        acknowledged = await behave(raw, storm)
        await storm
    process.kill()
    assert "Traceback" not in process.log.read_text()
    process.start()
    async with await Raw.connect(process.address) as raw:
        answer = await raw.fetch("neighbour", 0, max_bytes=50 << 20, partition_max_bytes=50 << 20)
        offsets = [header.base_offset for _, header in iter_headers(bytes(answer.records))]
    assert len(acknowledged) > 50
    assert offsets == acknowledged
