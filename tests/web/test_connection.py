"""One connection of HTTP, without a socket: what a client sends at once is there before the first turn."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import Any, cast

from odradek.web.connection import BodyMemory, Connection, Limits
from odradek.web.exchange import Request, Response

COUNT = 500


class _Writer:
    """Takes everything at once."""

    def __init__(self) -> None:
        self.transport = self
        self.written = bytearray()

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None: ...

    def close(self) -> None: ...


async def _serve(sent: bytes, bodies: list[bytes]) -> tuple[bytes, int]:
    """Serve what a client has sent. Return the answers, and how many turns others had meanwhile."""

    async def answer(request: Request) -> Response:
        bodies.append(request.body)
        return Response(200, b"taken")

    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    reader, writer = asyncio.StreamReader(), _Writer()
    reader.feed_data(sent)
    reader.feed_eof()
    counting = asyncio.create_task(count())
    await Connection(reader, cast("Any", writer), answer, Limits(), BodyMemory()).serve()
    counting.cancel()
    return bytes(writer.written), turns


async def test_requests_that_come_together_leave_turns_to_others() -> None:
    answers, turns = await _serve(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * COUNT, [])
    assert answers.count(b"HTTP/1.1 200") == COUNT
    assert turns >= COUNT - 1


async def test_chunks_that_come_together_leave_turns_to_others() -> None:
    bodies: list[bytes] = []
    _, turns = await _serve(_chunked(COUNT), bodies)
    assert bodies == [b"ab" * COUNT]
    assert turns >= COUNT - 1


def _chunked(count: int) -> bytes:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"2\r\nab\r\n" * count + b"0\r\n\r\n"


async def test_small_chunks_take_the_memory_of_their_bytes() -> None:
    count = 5_000
    sent, bodies = _chunked(count), list[bytes]()
    tracemalloc.start()
    try:
        await _serve(sent, bodies)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(bodies[0]) == 2 * count
    # The bytes as they came, and twice the body; a list of the chunks was some 40 bytes for each.
    assert peak < len(sent) + 10 * count


async def test_a_request_tells_that_its_client_has_gone() -> None:
    seen = asyncio.Event()

    async def answer(request: Request) -> Response:
        assert not request.is_gone()
        seen.set()
        while not request.is_gone():
            await asyncio.sleep(0.01)
        gone.set()
        return Response(200)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Connection(reader, writer, answer, Limits(), BodyMemory()).serve()

    gone = asyncio.Event()
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server, asyncio.timeout(20):
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await seen.wait()
        writer.close()
        await gone.wait()
