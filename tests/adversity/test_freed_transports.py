"""Closed connections with TLS are freed by their reference counts: the collector does not see what OpenSSL holds.

Each has some hundred KiB outside of Python's heap. Where connection and transport hold each other, a busy broker grows
by these until the collector comes, which may be after hours.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.replication.peer import Peer
from odradek.client.core.connection import Connection
from odradek.client.core.security import SecurityOptions
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.security.tls import Authority, connect, tls_config
from odradek.web.exchange import Request, Response
from odradek.web.listener import Listener, ListenerConfig

METADATA = MetadataRequest(topics=[])
TIMES = 3


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def secure(config: BrokerConfig, authority: Authority) -> AsyncIterator[Broker]:
    async with Broker(tls_config(config, authority)) as broker:
        yield broker


def transports() -> int:
    """Return how many transports with TLS this process holds."""
    return sum(type(each).__name__ == "SSLProtocol" for each in gc.get_objects())


async def leaves_nothing(one: Callable[[], Awaitable[None]]) -> None:
    """Do something that opens a connection and closes it: no transport of it stays, without the collector."""
    await one()
    gc.collect()
    before = transports()
    gc.disable()
    try:
        for _ in range(TIMES):
            await one()
        async with asyncio.timeout(10):
            while transports() > before:
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"{transports() - before} transports stay of {TIMES} connections")
    finally:
        gc.enable()


async def test_of_a_client_that_closes(secure: Broker, authority: Authority) -> None:
    async def one() -> None:
        async with await connect(secure.addresses[1], authority.context()) as raw:
            await raw.ask(ApiKey.METADATA, 12, METADATA)

    await leaves_nothing(one)


async def test_of_a_client_that_is_cut_off_in_the_middle_of_a_frame(secure: Broker, authority: Authority) -> None:
    async def one() -> None:
        async with await connect(secure.addresses[1], authority.context()) as raw:
            raw.send_bytes(b"\0\4\0\0" + bytes(100_000))
            raw._writer.transport.abort()

    await leaves_nothing(one)


async def test_of_a_client_that_the_broker_closes(secure: Broker, authority: Authority) -> None:
    async def one() -> None:
        async with await connect(secure.addresses[1], authority.context()) as raw:
            raw.send_bytes(b"\xff\xff\xff\xff")
            assert await raw.is_closed()

    await leaves_nothing(one)


async def test_of_a_handshake_that_fails(secure: Broker) -> None:
    async def one() -> None:
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            await connect(secure.addresses[1], ssl.create_default_context())

    await leaves_nothing(one)


async def test_of_our_own_client(secure: Broker, authority: Authority) -> None:
    host, _, port = secure.addresses[1].rpartition(":")
    security = SecurityOptions(security_protocol="SSL")

    async def one() -> None:
        opened = await Connection.open(host, int(port), client_id="t", security=security, tls=authority.context())
        await opened.close()

    await leaves_nothing(one)


async def test_of_a_connection_to_another_broker(secure: Broker, authority: Authority) -> None:
    host, _, port = secure.addresses[1].rpartition(":")

    class Trusting:
        async def context(self) -> ssl.SSLContext:
            return authority.context()

    async def one() -> None:
        peer = Peer(host, int(port), "broker-1", Trusting())  # pyright: ignore[reportArgumentType]
        await peer.request(METADATA, 12, MetadataResponse, 10)
        peer.close()

    await leaves_nothing(one)


async def test_of_a_listener_for_http(authority: Authority) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.store())

    async def answer(request: Request) -> Response:
        return Response(200, b"yes")

    listener = Listener(ListenerConfig(tls=context), answer)
    await listener.start()
    try:

        async def one() -> None:
            async with await Raw.connect(listener.address, ssl=authority.context()) as raw:
                raw._writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
                assert (await raw._reader.readline()).startswith(b"HTTP/1.1 200")

        await leaves_nothing(one)
    finally:
        await listener.stop()
