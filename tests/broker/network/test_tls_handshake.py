"""What clients send until their TLS handshakes are done: in slices of the loop's turns, and bounded."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.network.tls_handshake import TlsHandshake
from odradek.broker.turns import Keeper
from odradek.protocol import frame
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.tests.support.brokers.connections import connections
from odradek.tests.support.brokers.slices import end_slices_after
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.security.strangers import chain_context
from odradek.tests.support.security.tls import Authority, tls_config
from odradek.tests.support.waiting import until

CLIENTS = 6
METADATA = b"".join(map(bytes, frame.encode_request(ApiKey.METADATA, 12, 1, "c", MetadataRequest(topics=[]))))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


class Client:
    """A client of TLS that sends what the test says."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext) -> None:
        self._reader, self._writer = reader, writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")

    async def shake_hands(self) -> None:
        """Shake hands up to the last flight of the client, which is not sent."""
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                self.tls.do_handshake()
                return
            self.send()
            await self._receive()

    def send(self) -> None:
        self._writer.write(self._outgoing.read())

    async def read(self) -> bytes:
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                return self.tls.read()
            await self._receive()

    async def _receive(self) -> None:
        received = await asyncio.wait_for(self._reader.read(65536), 10)
        if not received:
            raise EOFError
        self._incoming.write(received)


@contextlib.asynccontextmanager
async def client_of(broker: Broker, context: ssl.SSLContext) -> AsyncGenerator[Client]:
    host, _, port = broker.addresses[1].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Client(reader, writer, context)
    finally:
        writer.transport.abort()


def turns_of_handshakes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the turns of the loop in which a server takes a step of a handshake; it grows."""
    turn, steps, do_handshake = 0, list[int](), ssl.SSLObject.do_handshake
    loop = asyncio.get_running_loop()

    def count() -> None:
        nonlocal turn
        turn += 1
        loop.call_soon(count)

    def noted(tls: ssl.SSLObject) -> None:
        if tls.server_side:
            steps.append(turn)
        do_handshake(tls)

    monkeypatch.setattr(ssl.SSLObject, "do_handshake", noted)
    count()
    return steps


async def test_handshakes_that_come_together_take_turns(
    config: BrokerConfig, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Broker(tls_config(config, authority, ssl_client_auth="required")) as broker:
        own, stack = authority.context(authority.ca.issue_cert("alice@example.com")), contextlib.AsyncExitStack()
        async with stack:
            clients = [await stack.enter_async_context(client_of(broker, own)) for _ in range(CLIENTS)]
            await take_turns(clients, monkeypatch)


async def take_turns(clients: list[Client], monkeypatch: pytest.MonkeyPatch) -> None:
    for each in clients:
        await each.shake_hands()
        each.tls.write(METADATA)
    end_slices_after(steps=1)
    steps = turns_of_handshakes(monkeypatch)
    for each in clients:
        each.send()
    for each in clients:
        assert await each.read()
    assert Counter(steps).most_common(1)[0][1] == 1


async def test_requests_behind_the_last_flight_are_served(config: BrokerConfig, authority: Authority) -> None:
    """Many more bytes than those of a handshake."""
    broker = Broker(tls_config(config, authority))
    async with broker, client_of(broker, authority.context()) as client:
        await client.shake_hands()
        client.tls.write(METADATA * 1_000)
        client.send()
        assert await client.read()


async def test_what_a_client_sends_with_its_last_flight_before_it_closes_is_handled(
    config: BrokerConfig, authority: Authority
) -> None:
    """The broker's first write fails, in the turn in which the handshake is done."""
    async with Broker(tls_config(config, authority)) as broker:
        async with await Raw.connect(broker.addresses[0]) as raw:
            await raw.create_topic("t")
        async with client_of(broker, authority.context()) as client:
            await client.shake_hands()
            data = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch_of(b"v"))])
            request = ProduceRequest(acks=0, timeout_ms=1_000, topic_data=[data])
            client.tls.write(b"".join(map(bytes, frame.encode_request(ApiKey.PRODUCE, 9, 1, "c", request))) * 20)
            with contextlib.suppress(ssl.SSLWantReadError):
                client.tls.unwrap()
            client.send()
        topic = broker.topics.get("t")
        assert topic is not None
        await until(lambda: topic.partitions[0].log.log_end_offset == 20 and not connections(broker))


@pytest.mark.parametrize("certificates", [10, 80])
async def test_a_client_may_show_ten_certificates(
    config: BrokerConfig, authority: Authority, certificates: int, caplog: pytest.LogCaptureFixture
) -> None:
    """OpenSSL takes a chain of 100 KiB, and the loop for 20 to 80 ms."""
    broker = Broker(tls_config(config, authority, ssl_client_auth="required"))
    async with broker, client_of(broker, chain_context(authority, certificates)) as client:
        await client.shake_hands()
        client.tls.write(METADATA)
        client.send()
        result: Any = None
        with contextlib.suppress(EOFError, OSError):
            result = await client.read()
    assert bool(result) == (certificates == 10)
    assert ("a TLS handshake of more than 16384 bytes" in caplog.text) == (certificates == 80)


async def test_a_hello_that_is_too_large_closes(config: BrokerConfig, authority: Authority) -> None:
    async with Broker(tls_config(config, authority)) as broker, await Raw.connect(broker.addresses[1]) as raw:
        raw.send_bytes(b"\x16\x03\x01\x40\x00\x01\x00\xff\xff\x03\x03" + bytes(50_000))
        assert await raw.is_closed()


async def test_a_client_that_has_gone_holds_no_handshake() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    handshake = TlsHandshake(Keeper())
    transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: handshake, ours)
    theirs.close()
    await until(transport.is_closing)
    connection: Any = None
    await asyncio.wait_for(handshake.shake_hands(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), connection, 3600), 10)
