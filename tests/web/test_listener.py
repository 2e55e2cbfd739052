"""A listener of HTTP: what becomes of connections around its stop."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from pathlib import Path

import pytest
from odradek.tests.support.security.certificates import Certificates
from odradek.web import connection
from odradek.web import listener as web_listener
from odradek.web.connection import Limits
from odradek.web.exchange import Request, Response
from odradek.web.listener import Listener, ListenerConfig, Service
from odradek.web.startable import StoppedEarly


async def test_a_client_whose_handshake_ends_after_the_stop_is_not_served(tmp_path: Path) -> None:
    async def answer(request: Request) -> Response:
        return Response(200)

    certificates = Certificates(tmp_path)
    listener = Listener(ListenerConfig(tls=certificates.server_context()), answer)
    await listener.start()
    host, port = listener.address.split(":")
    with socket.create_connection((host, int(port)), 10) as client:
        for _ in range(20):  # until it is accepted
            await asyncio.sleep(0)
        await listener.stop()
        assert listener.open_connections == 0
        assert await asyncio.to_thread(_ask, client, certificates.authority) == b""


async def test_handshakes_that_do_not_end_count_and_end_with_the_stop(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    listener = Listener(ListenerConfig(tls=certificates.server_context(), max_connections=3), _taken)
    await listener.start()
    try:
        # Nothing, half a ClientHello, and one that has begun.
        silent = [await _sent(listener.address, data) for data in (b"", b"\x16\x03\x01", b"\x16\x03\x01\x02")]
        async with asyncio.timeout(10):
            while listener.open_connections < 3:
                await asyncio.sleep(0)
        same, same_writer = await _sent(listener.address, b"")
        assert await _is_closed(same)
        other = socket.create_connection(listener.address.split(":"), 10, ("127.0.0.2", 0))
        assert (await asyncio.to_thread(_ask, other, certificates.authority)).startswith(b"HTTP/1.1 200")
        assert await _is_closed(silent[0][0])
        await listener.stop()
        assert listener.open_connections == 0 and await _is_closed(silent[1][0])
        for _, writer in (*silent, (same, same_writer)):
            writer.transport.abort()
    finally:
        await listener.stop()


async def test_handshakes_that_give_way_do_so_once(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    listener = Listener(ListenerConfig(tls=certificates.server_context(), max_connections=8), _taken)
    await listener.start()
    address = listener.address.split(":")
    clients: list[socket.socket] = []
    try:
        clients += [socket.create_connection(address, 10) for _ in range(8)]
        for _ in range(50):  # until all are accepted
            await asyncio.sleep(0)
        # All at once, so that each comes before the one that gives way has ended.
        clients += [socket.create_connection(address, 10, (f"127.0.0.{each}", 0)) for each in range(2, 8)]
        for _ in range(50):
            await asyncio.sleep(0)
        assert listener.open_connections == 8
    finally:
        await listener.stop()
        for each in clients:
            each.close()


async def test_a_system_without_descriptors_has_the_listener_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(ListenerConfig(), _taken)
    await listener.start()
    try:
        monkeypatch.setattr(web_listener, "_REST_S", 0.01)
        with monkeypatch.context() as without:
            without.setattr(socket.socket, "accept", _fails)
            reader, writer = await _sent(listener.address, _head(0))
            await asyncio.sleep(0.005)
        assert await _status(reader) == b"200"
        writer.transport.abort()
    finally:
        await listener.stop()


def _fails(_: socket.socket) -> None:
    raise OSError(errno.EMFILE, "too many open files")


def _ask(client: socket.socket, authority: Path) -> bytes:
    """Return what a request is answered with, nothing where the connection ends."""
    context = ssl.create_default_context(cafile=authority)
    try:
        with context.wrap_socket(client, server_hostname="localhost") as encrypted:
            encrypted.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            return encrypted.recv(100)
    except (ssl.SSLError, ConnectionError):
        return b""


async def _sent(
    address: str, data: bytes, source: str = "127.0.0.1"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(source, 0))
    writer.write(data)
    return reader, writer


async def _status(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(10):
        return (await reader.readline()).split(b" ")[1] if not reader.at_eof() else b""


async def _is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(10):
            return await reader.read() == b""
    except ConnectionResetError:
        return True


def _head(length: int) -> bytes:
    return b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % length


async def _taken(request: Request) -> Response:
    return Response(200, b"taken")


async def test_what_is_not_let_in_has_its_body_not_read() -> None:
    async def look_at_head(request: Request) -> Response | None:
        assert request.address == "127.0.0.1" and not request.body
        return Response(401, b"who are you?")

    listener = Listener(ListenerConfig(look_at_head=look_at_head), _taken)
    await listener.start()
    try:
        reader, writer = await _sent(listener.address, _head(1_000_000))
        assert await _status(reader) == b"401"
        assert listener._memory.used_bytes == 0
        writer.close()
    finally:
        await listener.stop()


async def test_half_bodies_of_one_address_leave_room_to_others() -> None:
    limits = Limits(body_bytes=1000, bodies_bytes=3000)
    listener = Listener(ListenerConfig(limits=limits), _taken)
    await listener.start()
    try:
        strangers = [await _sent(listener.address, _head(1000) + bytes(900)) for _ in range(3)]
        async with asyncio.timeout(10):
            while listener._memory.used_bytes < 2700:
                await asyncio.sleep(0)
        tasks = [each.task for each in listener._connections]
        refused, refused_writer = await _sent(listener.address, _head(900) + bytes(900))
        assert await _status(refused) == b"503"
        other, other_writer = await _sent(listener.address, _head(900) + bytes(900), "127.0.0.2")
        assert await _status(other) == b"200"
        for _, writer in (*strangers, (refused, refused_writer), (other, other_writer)):
            writer.transport.abort()
    finally:
        await listener.stop()
    assert all(each.exception() is None for each in tasks)
    assert listener._memory.used_bytes == 0 and not listener._memory._held


async def test_a_half_body_that_is_silent_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SILENT_S", -1.0)
    listener = Listener(ListenerConfig(limits=Limits(body_bytes=1000, bodies_bytes=1000)), _taken)
    await listener.start()
    try:
        _, silent = await _sent(listener.address, _head(1000) + bytes(900))
        async with asyncio.timeout(10):
            while not listener._memory.used_bytes:
                await asyncio.sleep(0)
        reader, writer = await _sent(listener.address, _head(900) + bytes(900))
        assert await _status(reader) == b"200"
        writer.close()
        silent.transport.abort()
    finally:
        await listener.stop()


async def test_a_body_that_is_being_answered_does_not_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client is not silent, but waits for the answer: a change that is under way has an outcome."""
    monkeypatch.setattr(connection, "SILENT_S", -1.0)
    may_answer = asyncio.Event()

    async def answer(request: Request) -> Response:
        await may_answer.wait()
        return Response(200, b"taken")

    listener = Listener(ListenerConfig(limits=Limits(body_bytes=1000, bodies_bytes=1000)), answer)
    await listener.start()
    try:
        first, first_writer = await _sent(listener.address, _head(900) + bytes(900))
        async with asyncio.timeout(10):
            while listener._memory.used_bytes < 900:
                await asyncio.sleep(0)
        reader, writer = await _sent(listener.address, _head(900) + bytes(900), "127.0.0.2")
        assert await _status(reader) == b"503"
        may_answer.set()
        assert await _status(first) == b"200"
        for each in (first_writer, writer):
            each.close()
    finally:
        await listener.stop()


async def test_connections_of_one_address_leave_others_a_way_in() -> None:
    listener = Listener(ListenerConfig(max_connections=3), _taken)
    await listener.start()
    try:
        idle = [await _sent(listener.address, b"") for _ in range(3)]
        async with asyncio.timeout(10):
            while listener.open_connections < 3:
                await asyncio.sleep(0)
        same, same_writer = await _sent(listener.address, _head(0))
        assert await _is_closed(same)
        other, other_writer = await _sent(listener.address, _head(0), "127.0.0.2")
        assert await _status(other) == b"200"
        assert await _is_closed(idle[0][0])
        for _, writer in (*idle, (same, same_writer), (other, other_writer)):
            writer.transport.abort()
    finally:
        await listener.stop()


class Slow(Service):
    """A service that reads for a while before it listens."""

    def __init__(self) -> None:
        self._listener = Listener(ListenerConfig(), _taken)

    async def _open(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        await self._listener.start()

    async def _close(self) -> None:
        await self._listener.stop()


@pytest.mark.parametrize("turns", range(4))
async def test_a_stop_ends_the_start_of_a_service(turns: int) -> None:
    service = Slow()
    starting = asyncio.create_task(service.start())
    for _ in range(turns):
        await asyncio.sleep(0)
    await service.stop()
    if turns:
        with pytest.raises(StoppedEarly):
            await starting
    else:
        # It had not begun.
        await starting
        await service.stop()
    with pytest.raises(AssertionError, match="it does not listen"):
        _ = service.address


class Closing(Slow):
    """One that takes its time to close what it has opened."""

    def __init__(self) -> None:
        super().__init__()
        self.closes, self.may_close = asyncio.Event(), asyncio.Event()
        self.is_closed = False

    async def _open(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.closes.set()
            await self.may_close.wait()
            self.is_closed = True


async def test_a_second_stop_leaves_a_start_the_time_to_close() -> None:
    service = Closing()
    starting = asyncio.create_task(service.start())
    for _ in range(3):
        await asyncio.sleep(0)
    stops = [asyncio.create_task(service.stop())]
    await service.closes.wait()
    stops.append(asyncio.create_task(service.stop()))
    await asyncio.sleep(0)
    service.may_close.set()
    await asyncio.gather(*stops)
    with pytest.raises(StoppedEarly):
        await starting
    assert service.is_closed
