"""How many live tails are open at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from odradek.broker import Broker
from odradek.client import Producer
from odradek.console import Console, ConsoleConfig
from odradek.tests.console.conftest import Browser

EVENTS = "/topics/t/tail/events"


@asynccontextmanager
async def tail(console: Console) -> AsyncIterator[bytes]:
    """Open a tail; yield what comes first behind the head of the response."""
    host, _, port = console.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"GET {EVENTS} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        async with asyncio.timeout(30):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head, head
            await reader.readline()  # the size of the chunk
            yield await reader.readline()
    finally:
        writer.transport.abort()


async def test_one_tail_more_than_the_bound_is_told_so(
    broker: Broker, config: ConsoleConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Producer(broker.address) as producer:
        await producer.send("t", b"value")
    monkeypatch.setattr("odradek.console.server.MAX_TAILS", 2)
    async with Console(config) as console, asyncio.timeout(60):
        browser = Browser(console.url)
        async with tail(console) as first, tail(console) as second:
            assert first == second == b"event: begun\n"
            refused = await browser.get(EVENTS)
            assert refused.status == 503 and "Too many tails are open" in refused.visible
        while (await browser.get("/topics/t/tail")).status != 200 or not await opens(console):
            await asyncio.sleep(0.05)


async def opens(console: Console) -> bool:
    try:
        async with tail(console) as first:
            return first == b"event: begun\n"
    except AssertionError:
        return False


async def test_of_many_that_come_at_once_no_more_open_than_the_bound(
    broker: Broker, config: ConsoleConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Producer(broker.address) as producer:
        await producer.send("t", b"value")
    monkeypatch.setattr("odradek.console.server.MAX_TAILS", 2)
    async with Console(config) as console:
        opened: list[bytes] = []
        done = asyncio.Event()

        async def one() -> None:
            try:
                async with tail(console) as first:
                    opened.append(first)
                    await done.wait()
            except AssertionError:
                opened.append(b"refused")

        tasks = [asyncio.create_task(one()) for _ in range(10)]
        async with asyncio.timeout(60):
            while len(opened) < len(tasks):
                await asyncio.sleep(0.05)
        done.set()
        await asyncio.gather(*tasks)
    assert opened.count(b"event: begun\n") == 2
    assert set(opened) <= {b"event: begun\n", b"event: failed\n", b"refused"}
