"""A peer: requests to another broker, its death and its silence."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager

import pytest
from odradek.broker import Broker
from odradek.broker.replication import peer as peer_module
from odradek.broker.replication.peer import Peer, PeerLost
from odradek.broker.security.outgoing import BrokerLogin
from odradek.protocol import frame
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeResponse
from odradek.tests.support.waiting import until

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def other_side(answer: Answer, login: BrokerLogin | None = None) -> AsyncIterator[Peer]:
    """A peer of a server that treats each connection with `answer`."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    peer = Peer(host, port, "broker-1", login=login)
    try:
        yield peer
    finally:
        peer.close()
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def next_request(reader: asyncio.StreamReader) -> int:
    """Read a request, and return its correlation id."""
    size = int.from_bytes(await reader.readexactly(4), "big")
    header, _ = frame.decode_request_header(await reader.readexactly(size))
    return header.correlation_id


def response(correlation_id: int, host: str = "h") -> bytes:
    pieces = frame.encode_response(correlation_id, FindCoordinatorResponse(host=host), 3)
    return b"".join(bytes(piece) for piece in pieces)


async def ask(peer: Peer, timeout_s: float = 20) -> FindCoordinatorResponse:
    return await peer.request(FindCoordinatorRequest("g"), 3, FindCoordinatorResponse, timeout_s)


async def test_a_broker_answers_its_peer(broker: Broker) -> None:
    host, _, port = broker.address.rpartition(":")
    peer = Peer(host, int(port), "broker-1")
    for _ in range(2):
        answer = await peer.request(ApiVersionsRequest("odradek", "1"), 3, ApiVersionsResponse, 20)
        assert answer.api_keys
    peer.close()


async def test_a_large_response_takes_the_memory_of_what_has_arrived() -> None:
    """Memory of its whole size would be filled with zeros in one turn of the loop."""
    whole = response(1, "h" * 2 * peer_module.MAPPED_BYTES)
    rest = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await next_request(reader) == 1
        writer.write(whole[:5])
        await rest.wait()
        writer.write(whole[5:])

    async with other_side(answer) as peer:
        tracemalloc.start()
        try:
            asked = asyncio.ensure_future(ask(peer))
            await until(lambda: peer._wire is not None and peer._wire._has_size)
            assert tracemalloc.get_traced_memory()[1] < peer_module.MAPPED_BYTES
        finally:
            tracemalloc.stop()
        rest.set()
        assert (await asked).host == "h" * 2 * peer_module.MAPPED_BYTES


async def test_requests_take_turns_on_one_connection() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            number = await next_request(reader)
            writer.write(response(number, f"host-{number}"))

    async with other_side(answer) as peer:
        answers = await asyncio.gather(*(ask(peer) for _ in range(5)))
    assert [each.host for each in answers] == [f"host-{number}" for number in range(1, 6)]


async def test_a_response_in_pieces_is_put_together() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in response(await next_request(reader), "x" * 50):
            writer.write(bytes([byte]))
            await writer.drain()
        await reader.read()

    async with other_side(answer) as peer:
        assert (await ask(peer)).host == "x" * 50


class AtTheSecondTime:
    """A broker that answers on its second connection; the first one it closes, or leaves open."""

    def __init__(self, closes: bool = False) -> None:
        self.arrived = asyncio.Event()
        self._closes = closes
        self._connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        number = await next_request(reader)
        self.arrived.set()
        if self._connections > 1:
            writer.write(response(number, "second"))
        elif self._closes:
            return
        await reader.read()


async def test_it_connects_again_after_a_loss() -> None:
    async with other_side(AtTheSecondTime(closes=True)) as peer:
        with pytest.raises(PeerLost, match="closed the connection"):
            await ask(peer)
        assert (await ask(peer)).host == "second"


async def test_silence_ends_with_the_time_and_a_late_response_reaches_nobody() -> None:
    async with other_side(AtTheSecondTime()) as peer:
        with pytest.raises(PeerLost, match="did not answer FindCoordinator within"):
            await ask(peer, 0.05)
        assert (await ask(peer)).host == "second"


async def test_a_peer_that_does_not_listen_is_reached_by_the_first_request_after_it_does() -> None:
    closed = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(response(await next_request(reader), "back"))
        await reader.read()
        writer.close()
        await writer.wait_closed()
        closed.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    server.close()
    await server.wait_closed()
    peer = Peer(host, port, "broker-1")
    for _ in range(2):
        with pytest.raises(PeerLost, match="cannot connect"):
            await ask(peer)
    async with await asyncio.start_server(answer, host, port):
        assert (await ask(peer)).host == "back"
        peer.close()
        await closed.wait()


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"HTTP/1.1 400 Bad Request", "it is no Kafka broker"),
        (response(77), "answered request 77 in the place of 1"),
        (b"\0\0\0\x06" + b"\0\0\0\x01\0\x7f", "cannot be read"),
    ],
    ids=["another protocol", "another request", "another response"],
)
async def test_nonsense_ends_the_connection(raw: bytes, why: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await next_request(reader)
        writer.write(raw)
        assert await reader.read() == b""

    async with other_side(answer) as peer:
        with pytest.raises(PeerLost, match=why):
            await ask(peer)


async def test_a_close_ends_the_request_under_way_and_those_that_wait() -> None:
    arrived = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await next_request(reader)
        arrived.set()
        await reader.read()

    async with other_side(answer) as peer:
        asked = [asyncio.ensure_future(ask(peer)) for _ in range(3)]
        await arrived.wait()
        peer.close()
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in results] == [PeerLost] * 3
        with pytest.raises(PeerLost, match="closed by this broker"):
            await ask(peer)


async def test_a_cancelled_caller_leaves_no_response_for_the_next() -> None:
    answer = AtTheSecondTime()
    async with other_side(answer) as peer:
        asked = asyncio.ensure_future(ask(peer))
        await answer.arrived.wait()
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert (await ask(peer)).host == "second"


async def test_a_login_out_of_time_ends_its_connection() -> None:
    """Between two requests of one login nothing is under way, and the other broker waits for the rest."""
    hashed, ended = threading.Event(), asyncio.Event()

    def login() -> Generator[bytes, bytes, None]:
        yield b"first"
        hashed.wait(20)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for message in (SaslHandshakeResponse(), SaslAuthenticateResponse()):
            writer.writelines(bytes(each) for each in frame.encode_response(await next_request(reader), message, 1))
        assert await reader.read() == b""
        ended.set()

    async with other_side(answer, BrokerLogin("PLAIN", "admin", login)) as peer:
        with pytest.raises(PeerLost, match="did not answer FindCoordinator within"):
            await ask(peer, 0.1)
        hashed.set()
        await asyncio.wait_for(ended.wait(), 20)


async def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "MAX_WAITING", 2)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with other_side(answer) as peer:
        asked = [asyncio.ensure_future(ask(peer)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(PeerLost, match="2 requests wait"):
            await ask(peer)
        peer.close()
        await asyncio.gather(*asked, return_exceptions=True)
