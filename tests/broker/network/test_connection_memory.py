"""The memory of requests that arrive and of responses that wait: bounded over all connections, nobody can keep it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from struct import pack

import pytest
from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.network.connection import Bounds, Connection, Listener, Pending
from odradek.broker.network.connection_limits import ConnectionLimits
from odradek.broker.network.connection_memory import STALLED_MS, ConnectionMemory
from odradek.broker.network.processor import Processor
from odradek.broker.network.receive_buffer import SCRATCH_BYTES
from odradek.broker.network.send_queue import EncodedResponse
from odradek.broker.timers import Timers
from odradek.protocol.apis import ApiKey
from odradek.storage.files import FileRange
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.waiting import until

MIB = 1024 * 1024
LIMIT = 4 * MIB
WAIT_S = 10
METADATA = pack(">h", ApiKey.METADATA)
# So much does not fit into the buffers of two sockets.
LARGE_BYTES = 16 * MIB


async def read_piece(piece: FileRange) -> bytes:
    return await asyncio.to_thread(piece.read)


class Server:
    """A processor with little memory, whose clock stands still. It answers with the size of a request."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.timers = Timers(self.clock)
        self.memory = ConnectionMemory(LIMIT, self.clock, self.timers)
        self.responses = ConnectionMemory(LIMIT, self.clock, self.timers)
        limits = ConnectionLimits(BrokerConfig())
        bounds = Bounds(100 * MIB, max_idle_ms=-1)
        self.processor = Processor(
            self.respond,
            read_piece,
            bounds,
            self.clock,
            self.timers,
            limits,
            self.memory,
            self.responses,
        )
        self.address = ("", 0)
        # The responses that were made for a Metadata.
        self.large = 0
        self._writers: list[asyncio.StreamWriter] = []

    def respond(self, _: Connection, frame: memoryview) -> EncodedResponse:
        """Return the size of a request, or as many bytes as a Metadata asks for."""
        if frame[:2] != METADATA:
            return [pack(">ii", 4, len(frame))]
        self.large += 1
        size = int.from_bytes(frame[4:8], "big")
        return [pack(">i", size), bytes(size)]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.address)
        self._writers.append(writer)
        return reader, writer

    async def stop(self) -> None:
        """Close every connection at both ends."""
        for writer in self._writers:
            writer.transport.abort()
        await self.processor.close(WAIT_S)
        self.timers.close()

    async def settle(self) -> None:
        """Return when everything sent before has been read, as far as there is room."""
        for _ in range(3):
            reader, writer = await self.connect()
            writer.write(pack(">i", 1) + b"x")
            await asyncio.wait_for(reader.readexactly(8), WAIT_S)
            writer.transport.abort()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    each = Server()
    listening = await asyncio.get_running_loop().create_server(
        lambda: Connection(each.processor, Listener("PLAINTEXT")), "127.0.0.1", 0
    )
    each.address = listening.sockets[0].getsockname()[:2]
    yield each
    listening.close()
    await each.stop()


async def test_frames_that_are_half_sent_hold_no_more_than_the_bound(server: Server) -> None:
    clients = [await server.connect() for _ in range(8)]
    for _, writer in clients:
        writer.write(pack(">i", 3 * MIB) + bytes(2 * MIB))
    await server.settle()
    assert server.memory.held_bytes <= LIMIT + len(clients) * SCRATCH_BYTES
    for _, writer in clients:
        writer.transport.abort()


async def test_the_longest_half_sent_frame_makes_room_for_others(server: Server) -> None:
    stalled_reader, stalled = await server.connect()
    stalled.write(pack(">i", 4 * MIB) + bytes(3 * MIB))
    while server.memory.held_bytes < 3 * MIB:
        await server.settle()
    reader, writer = await server.connect()
    writer.write(pack(">i", 2 * MIB) + bytes(2 * MIB))
    await server.settle()
    server.clock.advance(STALLED_MS)
    server.timers.fire_due()
    assert await asyncio.wait_for(reader.readexactly(8), WAIT_S) == pack(">ii", 4, 2 * MIB)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await asyncio.wait_for(stalled_reader.readexactly(1), WAIT_S)
    writer.transport.abort()


async def test_a_frame_waits_for_room_until_another_is_handled(server: Server) -> None:
    first_reader, first = await server.connect()
    first.write(pack(">i", 4 * MIB) + bytes(3 * MIB))
    while server.memory.held_bytes < 3 * MIB:
        await server.settle()
    second_reader, second = await server.connect()
    second.write(pack(">i", 3 * MIB) + bytes(3 * MIB))
    await server.settle()
    first.write(bytes(MIB))
    assert await asyncio.wait_for(first_reader.readexactly(8), WAIT_S) == pack(">ii", 4, 4 * MIB)
    server.timers.fire_due()
    assert await asyncio.wait_for(second_reader.readexactly(8), WAIT_S) == pack(">ii", 4, 3 * MIB)
    assert server.memory.held_bytes == 0
    first.transport.abort()
    second.transport.abort()


async def test_a_large_frame_counts_until_its_request_has_a_response(server: Server) -> None:
    waiting: list[asyncio.Future[EncodedResponse]] = []

    def dispatch(_: Connection, frame: memoryview) -> EncodedResponse | Pending:
        if len(frame) < MIB:
            return [pack(">ii", 4, len(frame))]
        waiting.append(asyncio.get_running_loop().create_future())
        return Pending(waiting[0])

    server.processor.dispatch = dispatch
    _, writer = await server.connect()
    writer.write(pack(">i", 5 * MIB) + bytes(5 * MIB))
    while not waiting:
        await server.settle()
    assert server.memory.held_bytes >= 5 * MIB
    waiting[0].set_result([pack(">ii", 4, 0)])
    await server.settle()
    assert server.memory.held_bytes == 0
    writer.transport.abort()


@pytest.mark.parametrize("size", [100_000, MIB, 3 * MIB])
async def test_what_the_handler_of_a_waiting_request_keeps_counts_until_its_response(server: Server, size: int) -> None:
    kept: list[memoryview] = []
    waiting: list[asyncio.Future[EncodedResponse]] = []

    def dispatch(connection: Connection, frame: memoryview) -> EncodedResponse | Pending:
        if len(frame) < size:
            return [pack(">ii", 4, len(frame))]
        kept.append(connection.keep(frame))
        waiting.append(asyncio.get_running_loop().create_future())
        return Pending(waiting[-1])

    server.processor.dispatch = dispatch
    _, first = await server.connect()
    _, second = await server.connect()
    for number, writer in enumerate((first, second), 1):
        writer.write(pack(">i", size) + bytes([number]) * size)
        while len(waiting) < number and not server.memory._waiting:
            await server.settle()
        assert server.memory.held_bytes >= size * number or server.memory._waiting
    waiting[0].set_result([pack(">ii", 4, 0)])
    while len(waiting) < 2:
        await server.settle()
        server.timers.fire_due()
    assert server.memory.held_bytes >= size
    waiting[1].set_result([pack(">ii", 4, 0)])
    await server.settle()
    assert server.memory.held_bytes == 0
    assert [bytes(each) for each in kept] == [bytes([number]) * size for number in (1, 2)]
    for writer in (first, second):
        writer.transport.abort()


def metadata(size: int) -> bytes:
    """Return a request whose response has `size` bytes."""
    return pack(">i", 8) + METADATA + pack(">hi", 12, size)


async def full(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Fill the memory of responses by a client that does not read."""
    deaf = await server.connect()
    deaf[1].transport.pause_reading()  # type: ignore[attr-defined]
    deaf[1].write(metadata(LARGE_BYTES))
    await until(lambda: server.responses.is_full)
    return deaf


async def read(server: Server, reader: asyncio.StreamReader, size: int) -> bytes:
    """Return `size` bytes; the timers run meanwhile."""
    reading = asyncio.ensure_future(asyncio.wait_for(reader.readexactly(size), WAIT_S))
    while not reading.done():
        server.timers.fire_due()
        await asyncio.sleep(0)
    return reading.result()


async def test_while_responses_are_not_read_no_large_one_is_made(server: Server) -> None:
    deaf_reader, deaf = await full(server)
    clients = [await server.connect() for _ in range(5)]
    for _, writer in clients:
        writer.write(metadata(LARGE_BYTES))
    await server.settle()  # small requests are served
    assert server.large == 1
    assert LIMIT <= server.responses.held_bytes <= LIMIT + LARGE_BYTES
    deaf.transport.resume_reading()  # type: ignore[attr-defined]
    everyone = [deaf_reader, *(reader for reader, _ in clients)]
    found = await asyncio.gather(*(read(server, reader, 4 + LARGE_BYTES) for reader in everyone))
    assert {len(each) for each in found} == {4 + LARGE_BYTES}
    assert server.large == len(everyone)
    for _, writer in clients:
        writer.transport.abort()


async def test_the_longest_unread_response_makes_room_for_others(server: Server) -> None:
    deaf_reader, deaf = await full(server)
    reader, writer = await server.connect()
    writer.write(metadata(100))
    await server.settle()
    assert server.large == 1
    server.clock.advance(STALLED_MS)
    server.timers.fire_due()
    assert await read(server, reader, 104) == pack(">i", 100) + bytes(100)
    deaf.transport.resume_reading()  # type: ignore[attr-defined]
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await asyncio.wait_for(deaf_reader.readexactly(4 + LARGE_BYTES), WAIT_S)
    assert server.responses.held_bytes == 0
    writer.transport.abort()


async def test_a_client_that_reads_slowly_keeps_its_connection(server: Server) -> None:
    reader, slow = await full(server)
    other_reader, other = await server.connect()
    other.write(metadata(100))
    await server.settle()
    slow.transport.resume_reading()  # type: ignore[attr-defined]
    await read(server, reader, LARGE_BYTES // 2)
    slow.transport.pause_reading()  # type: ignore[attr-defined]
    server.clock.advance(STALLED_MS)
    server.timers.fire_due()
    slow.transport.resume_reading()  # type: ignore[attr-defined]
    await read(server, reader, 4 + LARGE_BYTES // 2)
    assert await read(server, other_reader, 104) == pack(">i", 100) + bytes(100)
    other.transport.abort()


async def test_frames_that_wait_for_each_other_all_arrive(server: Server) -> None:
    clients = [await server.connect() for _ in range(4)]
    for _, writer in clients:
        writer.write(pack(">i", 3 * MIB) + bytes(3 * MIB))
    await server.settle()
    assert server.memory._waiting
    answers = [asyncio.ensure_future(reader.readexactly(8)) for reader, _ in clients]
    # None of them is silent: the broker has stopped reading.
    async with asyncio.timeout(WAIT_S):
        while not all(each.done() for each in answers):
            server.clock.advance(STALLED_MS)
            server.timers.fire_due()
            await server.settle()
    assert [each.result() for each in answers] == [pack(">ii", 4, 3 * MIB)] * len(clients)
    for _, writer in clients:
        writer.transport.abort()
