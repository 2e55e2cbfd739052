"""Connections and processors over real sockets, with a dispatch that the test writes: framing, order, bounds."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import random
import socket
import termios
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from struct import pack, unpack_from
from typing import Any

import pytest
from odradek.broker.clock import Clock
from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.network.connection import Bounds, CloseConnection, Connection, Listener, Pending
from odradek.broker.network.connection_limits import ConnectionLimits
from odradek.broker.network.connection_memory import ConnectionMemory
from odradek.broker.network.processor import Processor
from odradek.broker.network.receive_buffer import SCRATCH_BYTES
from odradek.broker.network.send_queue import EncodedResponse, SendQueue
from odradek.broker.timers import Timers
from odradek.storage.files import DISK, Disk, File, FileRange
from odradek.tests.support.brokers.slices import end_slices_after
from odradek.tests.support.waiting import until

WAIT_S = 10
BOUNDS = Bounds(max_request_bytes=8 * 1024 * 1024, max_idle_ms=-1)
NO_LIMITS = ConnectionLimits(BrokerConfig())
PLAINTEXT = Listener("PLAINTEXT")


async def read_piece(piece: FileRange) -> bytes:
    return await asyncio.to_thread(piece.read)


class Server:
    """A listening processor whose dispatch is `answer`."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.answer: Callable[[bytes], EncodedResponse | Pending] = lambda frame: [frame_of(frame)]
        self.timers = Timers(Clock())
        memory = ConnectionMemory(-1, Clock(), self.timers)
        self.processor = Processor(self._dispatch, read_piece, BOUNDS, Clock(), self.timers, NO_LIMITS, memory, memory)
        self.address = ("", 0)
        self.listening: Any = None

    def _dispatch(self, connection: Connection, frame: memoryview) -> EncodedResponse | Pending:
        data = bytes(frame)
        self.seen.append(data)
        return self.answer(data)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.address)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    each = Server()
    listening = await asyncio.get_running_loop().create_server(
        lambda: Connection(each.processor, PLAINTEXT), "127.0.0.1", 0
    )
    each.listening = listening.sockets[0]
    each.address = listening.sockets[0].getsockname()[:2]
    yield each
    listening.close()
    await each.processor.close(1)
    each.timers.close()
    await listening.wait_closed()


def frame_of(data: bytes) -> bytes:
    return pack(">i", len(data)) + data


def received_bytes(descriptor: int) -> int:
    """Return how many bytes the system has received for a socket and nobody has read."""
    return unpack_from("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))[0]


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(WAIT_S):
        size = unpack_from(">i", await reader.readexactly(4))[0]
        return await reader.readexactly(size)


async def closed(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(WAIT_S):
        try:
            return await reader.read(1) == b""
        except ConnectionResetError:
            return True


@contextlib.asynccontextmanager
async def client(server: Server) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await server.connect()
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@pytest.mark.parametrize("size", [1, 100, ConnectionMemory.uncounted_bytes, SCRATCH_BYTES + 1, 3_000_000])
async def test_a_frame_arrives_whole_whatever_its_size(server: Server, size: int) -> None:
    async with client(server) as (reader, writer):
        for letter in (b"a", b"b", b"c"):
            writer.write(frame_of(letter * size))
        for letter in (b"a", b"b", b"c"):
            assert await read_frame(reader) == letter * size


async def test_a_frame_may_come_byte_by_byte(server: Server) -> None:
    async with client(server) as (reader, writer):
        for byte in frame_of(b"hello") + frame_of(b"again"):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        assert await read_frame(reader) == b"hello"
        assert await read_frame(reader) == b"again"


async def test_large_and_small_frames_mixed_keep_their_order(server: Server) -> None:
    sizes = [10, 700_000, 1, 300_000, 65_532, 65_533, 5, 262_140, 262_141, 9]
    sent = [bytes([index]) * size for index, size in enumerate(sizes)]
    async with client(server) as (reader, writer):
        writer.write(b"".join(map(frame_of, sent)))
        for data in sent:
            assert await read_frame(reader) == data


async def test_many_requests_at_once_are_answered_in_order(server: Server) -> None:
    async with client(server) as (reader, writer):
        writer.write(b"".join(frame_of(b"%d" % index) for index in range(5000)))
        for index in range(5000):
            assert await read_frame(reader) == b"%d" % index


async def test_a_request_that_waits_holds_back_the_next_but_nobody_else(server: Server) -> None:
    waiting: asyncio.Future[EncodedResponse] = asyncio.get_running_loop().create_future()
    server.answer = lambda frame: Pending(waiting) if frame == b"wait" else [frame_of(frame)]
    async with client(server) as (reader, writer), client(server) as (other_reader, other_writer):
        writer.write(frame_of(b"wait") + frame_of(b"next") + frame_of(b"x" * 100_000))
        await until(lambda: b"wait" in server.seen)
        other_writer.write(frame_of(b"other"))
        assert await read_frame(other_reader) == b"other"
        assert b"next" not in server.seen
        waiting.set_result([frame_of(b"at last")])
        assert await read_frame(reader) == b"at last"
        assert await read_frame(reader) == b"next"
        assert await read_frame(reader) == b"x" * 100_000


async def test_a_request_without_an_answer_does_not_block_later_ones(server: Server) -> None:
    server.answer = lambda frame: None if frame == b"acks=0" else [frame_of(frame)]
    async with client(server) as (reader, writer):
        writer.write(frame_of(b"acks=0") * 3 + frame_of(b"after"))
        assert await read_frame(reader) == b"after"


@pytest.mark.parametrize("size", [-1, 0, BOUNDS.max_request_bytes + 1, 2**31 - 1, -(2**31)])
async def test_a_length_out_of_range_closes_with_a_line_in_the_log(
    server: Server, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with client(server) as (reader, writer):
            writer.write(frame_of(b"before") + pack(">i", size))
            assert await read_frame(reader) == b"before"
            assert await closed(reader)
    assert f"a frame of {size} bytes" in caplog.text
    assert "127.0.0.1:" in caplog.text


@pytest.mark.parametrize(("start", "hint"), [(b"\x16\x03\x01\x00", "TLS"), (b"GET / HTTP", "HTTP")])
async def test_a_client_of_another_protocol_is_named(
    server: Server, start: bytes, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with client(server) as (reader, writer):
            writer.write(start)
            assert await closed(reader)
    assert hint in caplog.text


async def test_a_request_that_dispatch_cannot_answer_closes_only_its_connection(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(frame: bytes) -> EncodedResponse:
        if frame == b"bad":
            raise CloseConnection("not a request")
        return [frame_of(frame)]

    server.answer = answer
    with caplog.at_level(logging.WARNING):
        async with client(server) as (reader, writer), client(server) as (other_reader, other_writer):
            writer.write(frame_of(b"good") + frame_of(b"bad") + frame_of(b"never seen"))
            assert await read_frame(reader) == b"good"
            assert await closed(reader)
            other_writer.write(frame_of(b"still here"))
            assert await read_frame(other_reader) == b"still here"
    assert "not a request" in caplog.text
    assert b"never seen" not in server.seen


async def test_an_announced_length_costs_no_memory_before_its_bytes(server: Server) -> None:
    async with contextlib.AsyncExitStack() as stack:
        tracemalloc.start()
        stack.callback(tracemalloc.stop)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(50):
            _, writer = await stack.enter_async_context(client(server))
            writer.write(pack(">i", BOUNDS.max_request_bytes) + b"x" * 10)
        await until(lambda: sum(each._received.data is not None for each in server.processor.connections) == 50)
        assert tracemalloc.get_traced_memory()[0] - before < 50 * (ConnectionMemory.uncounted_bytes + 100_000)


async def test_answers_to_a_client_that_does_not_read_are_bounded(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"d" * 4_000_000)
    whole = FileRange(DISK.open(path), 0, 4_000_000)
    server.answer = lambda frame: [pack(">i", 4_000_000), whole]
    async with client(server) as (reader, writer):
        raw: socket.socket = writer.get_extra_info("socket")
        assert raw is not None
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(frame_of(b"fetch") * 40)
        await until(lambda: any(each._responses.paused for each in server.processor.connections))
        for _ in range(50):
            await asyncio.sleep(0.001)
        connection = next(iter(server.processor.connections))
        buffered = connection._transport.get_write_buffer_size()  # type: ignore[union-attr]
        assert buffered < 3_000_000
        answered_before = len(server.seen)
        assert answered_before < 20
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(40):
            assert len(await read_frame(reader)) == 4_000_000
    assert len(server.seen) == 40


async def test_file_ranges_and_bytes_are_sent_in_their_order(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(range(256)) * 8192)
    file = DISK.open(path)
    pieces = [b"head", FileRange(file, 256, 1_500_000), b"middle", FileRange(file, 0, 10), b"tail"]
    body = b"head" + path.read_bytes()[256 : 256 + 1_500_000] + b"middle" + bytes(range(10)) + b"tail"
    server.answer = lambda frame: [pack(">i", len(body)), *pieces]
    async with client(server) as (reader, writer):
        writer.write(frame_of(b"one") + frame_of(b"two"))
        assert await read_frame(reader) == body
        assert await read_frame(reader) == body


class PartlyColdDisk(Disk):
    """A disk of whose pages the page cache gives some. It counts what threads read."""

    def __init__(self, given: float) -> None:
        self.chance = random.Random(0)
        self.given = given
        self.read_bytes = 0

    def read_nowait(self, file: File, size: int, position: int) -> bytearray | None:
        return super().read_nowait(file, size, position) if self.chance.random() < self.given else None

    def read(self, file: File, size: int, position: int) -> bytes:
        assert threading.current_thread() is not threading.main_thread()
        self.read_bytes += size
        return super().read(file, size, position)


@pytest.mark.parametrize("given", [0, 0.5, 1])
@pytest.mark.parametrize("sizes", [[3 << 20], [100_000] * 20, [64 << 10, 10, 1 << 20, 5_000_000]])
async def test_large_ranges_arrive_whole_however_slowly_the_client_reads(
    server: Server, tmp_path: Path, sizes: list[int], given: float
) -> None:
    """What the page cache does not give at once is read in a thread, also where all of it is on its way there."""
    path, disk = tmp_path / "data", PartlyColdDisk(given)
    path.write_bytes(random.Random(0).randbytes(6 << 20))
    file = disk.open(path)
    data = path.read_bytes()
    pieces: list[bytes | FileRange] = []
    for number, size in enumerate(sizes):
        pieces += [b"%d" % number, FileRange(file, number * 7, size, disk)]
    body = b"".join(data[each.position :][: each.size] if isinstance(each, FileRange) else each for each in pieces)
    server.answer = lambda frame: [pack(">i", len(body)), *pieces]
    async with client(server) as (reader, writer):
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(frame_of(b"fetch") * 6)
        await until(lambda: any(each._responses.paused for each in server.processor.connections))
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(6):
            assert await read_frame(reader) == body
    if not given:
        assert disk.read_bytes == 6 * sum(sizes)
    elif given < 1:
        assert 0 < disk.read_bytes < 6 * sum(sizes)


async def test_a_file_that_is_cut_below_a_response_closes_the_connection(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * 300_000)
    piece = FileRange(DISK.open(path), 0, 300_000)
    os.truncate(path, 200_000)
    server.answer = lambda frame: [pack(">i", 300_000), piece]
    async with client(server) as (reader, writer):
        writer.write(frame_of(b"fetch"))
        async with asyncio.timeout(WAIT_S):
            assert len(await reader.read()) <= 200_004


async def test_cold_data_is_read_in_a_thread_and_keeps_its_place(server: Server, tmp_path: Path) -> None:
    class Cold(Disk):
        def read_nowait(self, file: File, size: int, position: int) -> bytearray | None:
            return None

    path = tmp_path / "data"
    path.write_bytes(b"cold data!")
    cold = FileRange(DISK.open(path), 0, 10, Cold())
    server.answer = lambda frame: [pack(">i", 14), cold, b"tail"] if frame == b"cold" else [frame_of(frame)]
    async with client(server) as (reader, writer):
        writer.write(frame_of(b"cold") + frame_of(b"next") + frame_of(b"cold"))
        assert await read_frame(reader) == b"cold data!tail"
        assert await read_frame(reader) == b"next"
        assert await read_frame(reader) == b"cold data!tail"


async def test_requests_that_arrive_together_are_handled_as_long_as_the_slice_lasts(server: Server) -> None:
    turn, turns = 0, list[int]()

    def next_turn() -> None:
        nonlocal turn
        turn += 1
        if len(turns) < 10:
            asyncio.get_running_loop().call_soon(next_turn)

    def answer(data: bytes) -> EncodedResponse:
        turns.append(turn)
        return [frame_of(b"")]

    async with client(server) as (reader, writer):
        server.answer = answer
        end_slices_after(3)
        next_turn()
        writer.write(frame_of(b"busy") * 10)
        for _ in range(10):
            await read_frame(reader)
    assert max(map(turns.count, turns)) <= 4
    assert turns == sorted(turns)


async def test_a_busy_connection_leaves_others_their_turn(server: Server) -> None:
    end_slices_after(64)
    async with client(server) as (reader, writer), client(server) as (other_reader, other_writer):
        writer.write(frame_of(b"busy") * 20_000)
        other_writer.write(frame_of(b"other"))
        assert await read_frame(other_reader) == b"other"
        first = server.seen.index(b"other")
        for _ in range(20_000):
            await read_frame(reader)
        assert first < 15_000


async def test_a_large_response_is_sent_as_long_as_the_slice_lasts(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    yields: list[SendQueue] = []
    go_on = SendQueue._go_on
    monkeypatch.setattr(SendQueue, "_go_on", lambda queue: (yields.append(queue), go_on(queue)))
    size = 300_000
    server.answer = lambda frame: [pack(">i", 5 * size), *[bytes(size)] * 5]
    async with client(server) as (reader, writer):
        end_slices_after(1)
        writer.write(frame_of(b"much"))
        assert len(await read_frame(reader)) == 5 * size
    assert len(yields) >= 3


@pytest.mark.asyncio(loop_factories=["uvloop"])
async def test_a_client_that_sends_much_leaves_others_their_turn(server: Server) -> None:
    """uvloop reads on, 32 times in one turn, as long as each read fills its buffer."""
    loop, turn, turns = asyncio.get_running_loop(), 0, list[int]()
    frame, queued = frame_of(bytes(5_000)), 50
    server.processor.scratch = memoryview(bytearray(8_000))
    # Connections inherit it.
    server.listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 200_000)

    def next_turn() -> None:
        nonlocal turn
        turn += 1
        if len(turns) < queued:
            loop.call_soon(next_turn)

    def answer(data: bytes) -> EncodedResponse:
        (peer,) = server.processor.connections
        while not turns and received_bytes(peer.descriptor) < 30 * len(frame):
            time.sleep(0.001)
        turns.append(turn)
        return [frame_of(b"")]

    def talk() -> None:
        with socket.create_connection(server.address, WAIT_S) as peer:
            peer.sendall(frame * queued)
            while len(turns) < queued:
                peer.recv(1_000)

    server.answer = answer
    next_turn()
    await asyncio.to_thread(talk)
    assert max(map(turns.count, turns)) <= ConnectionMemory.uncounted_bytes // len(frame) + 3


async def test_a_request_that_waits_is_dropped_with_its_client(server: Server) -> None:
    waiting: asyncio.Future[EncodedResponse] = asyncio.get_running_loop().create_future()
    server.answer = lambda frame: Pending(waiting)
    _, writer = await server.connect()
    writer.write(frame_of(b"wait"))
    await until(lambda: bool(server.seen))
    writer.transport.abort()
    await until(waiting.cancelled)
    assert not server.processor.connections


@pytest.mark.parametrize("first_waits", [True, False])
async def test_what_came_before_a_close_is_handled_up_to_the_first_request_with_a_response(
    server: Server, first_waits: bool
) -> None:
    end_slices_after(2)
    waiting: asyncio.Future[EncodedResponse] = asyncio.get_running_loop().create_future()
    answers: dict[bytes, EncodedResponse | Pending] = {
        b"first": Pending(waiting, goes_on=True) if first_waits else None,
        b"answered": [frame_of(b"nobody reads it")],
    }
    server.answer = answers.get
    _, writer = await server.connect()
    none = [b"none"] * 9
    for each in (b"first", *none, b"answered", b"not handled"):
        writer.write(frame_of(each))
    writer.close()
    await until(lambda: bool(server.seen))
    if first_waits:
        for _ in range(20):
            await asyncio.sleep(0)
        waiting.set_result(None)
    await until(lambda: not server.processor.connections)
    assert server.seen == [b"first", *none, b"answered"]
    assert not server.processor.waiting


async def test_a_request_that_goes_on_for_a_while_without_its_client_ends_where_it_waits_for_something(
    server: Server,
) -> None:
    first: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    waiting: asyncio.Future[EncodedResponse] = asyncio.get_running_loop().create_future()
    server.answer = lambda frame: Pending(first, lambda done: Pending(waiting), goes_on=True)
    _, writer = await server.connect()
    writer.write(frame_of(b"wait"))
    await until(lambda: bool(server.seen))
    writer.transport.abort()
    for _ in range(9):
        await asyncio.sleep(0)
    assert server.processor.connections
    first.set_result(None)
    await until(waiting.cancelled)
    assert not server.processor.connections


async def test_closing_waits_for_answers_under_way(server: Server) -> None:
    waiting: asyncio.Future[EncodedResponse] = asyncio.get_running_loop().create_future()
    server.answer = lambda frame: Pending(waiting)
    async with client(server) as (reader, writer):
        writer.write(frame_of(b"wait"))
        await until(lambda: bool(server.seen))
        server.processor.stop_reading()
        stopping = asyncio.ensure_future(server.processor.close(WAIT_S))
        waiting.set_result([frame_of(b"the answer")])
        assert await read_frame(reader) == b"the answer"
        assert await closed(reader)
        await stopping


async def test_closing_does_not_wait_for_ever(server: Server) -> None:
    server.answer = lambda frame: Pending(asyncio.get_running_loop().create_future())
    async with client(server) as (reader, writer):
        writer.write(frame_of(b"wait"))
        await until(lambda: bool(server.seen))
        await server.processor.close(0.01)
        assert await closed(reader)


async def test_an_idle_connection_is_closed() -> None:
    clock = Clock()
    timers = Timers(clock)
    memory = ConnectionMemory(-1, clock, timers)
    bounds = Bounds(1000, max_idle_ms=20)
    processor = Processor(lambda connection, frame: None, read_piece, bounds, clock, timers, NO_LIMITS, memory, memory)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Connection(processor, PLAINTEXT), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname()[:2])
    assert await closed(reader)
    writer.close()
    listening.close()
    timers.close()


async def test_a_muted_connection_is_answered_at_once_and_its_next_request_waits(server: Server) -> None:
    order: list[bytes] = []

    def answer(frame: bytes) -> EncodedResponse:
        order.append(frame)
        if frame == b"first":
            next(iter(server.processor.connections)).mute(60_000)
        return [frame_of(frame)]

    server.answer = answer
    async with client(server) as (reader, writer):
        writer.write(frame_of(b"first") + frame_of(b"second"))
        assert await read_frame(reader) == b"first"
        assert order == [b"first"]
        server.processor.waiting.pop().cancel()
        assert await closed(reader)


async def test_a_connection_goes_on_after_it_was_muted(server: Server) -> None:
    def answer(frame: bytes) -> EncodedResponse:
        if frame == b"first":
            next(iter(server.processor.connections)).mute(1)
        return [frame_of(frame)]

    server.answer = answer
    async with client(server) as (reader, writer):
        writer.write(frame_of(b"first") + frame_of(b"second"))
        assert await read_frame(reader) == b"first"
        assert await read_frame(reader) == b"second"
