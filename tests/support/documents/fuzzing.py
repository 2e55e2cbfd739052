"""Fuzzing of the decoders and of the connection, from a corpus of requests in `tests/adversity/corpus`.

A file holds one request without its length, in hex. Hypothesis changes the files; what fails is kept beside them as
`found-*.hex`, so that every later run tries it first.
"""

from __future__ import annotations

import asyncio
from functools import cache
from hashlib import sha256
from pathlib import Path
from struct import pack
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import strategies as st
from odradek.broker.clock import Clock
from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.network.connection import Bounds, CloseConnection, Connection, Listener
from odradek.broker.network.connection_limits import ConnectionLimits
from odradek.broker.network.connection_memory import ConnectionMemory
from odradek.broker.network.processor import Processor
from odradek.broker.timers import Timers
from odradek.protocol import frame
from odradek.protocol.apis import message, request_class
from odradek.protocol.codec import decoder
from odradek.protocol.errors import DecodeError
from odradek.tests.support.documents.mutations import EXTREMES, imagined

CORPUS = Path(__file__).parents[2] / "adversity" / "corpus"
MAX_VALUES = 2_000
MAX_REQUEST_BYTES = 1 << 20


@cache
def corpus() -> list[bytes]:
    """Return every kept request, those that failed once first, and requests of the APIs that no file has."""
    files = sorted(CORPUS.glob("*.hex"), key=lambda path: (not path.name.startswith("found-"), path.name))
    kept = [bytes.fromhex(path.read_text()) for path in files]
    return [*kept, *imagined(kept)]


def keep(data: bytes) -> Path:
    """Add a request that failed to the corpus."""
    path = CORPUS / f"found-{sha256(data).hexdigest()[:12]}.hex"
    path.write_text(data.hex() + "\n")
    return path


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Return a request of the corpus with a few changes behind its API key and version."""
    data = bytearray(draw(st.sampled_from(corpus())))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(min(4, len(data)), len(data)))
        change = draw(st.one_of(st.sampled_from(EXTREMES), st.binary(min_size=1, max_size=8)))
        match draw(st.sampled_from(("insert", "replace", "cut", "remove"))):
            case "insert":
                data[at:at] = change
            case "replace":
                data[at : at + len(change)] = change
            case "cut":
                del data[at:]
            case _:
                del data[at : at + len(change)]
    return bytes(data)


def decode(data: bytes) -> None:
    """Decode a request as the dispatcher does: into a value, or with a DecodeError."""
    try:
        header, offset = frame.decode_request_header(data)
        if request_class(header.api_key) is None:
            return
        cls = message(header.api_key, "request")
        if header.api_version in cls.VERSIONS:
            _, end = decoder(cls, header.api_version)(data, offset, MAX_VALUES)
            assert offset <= end <= len(data)
    except DecodeError:
        pass


class _Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, pieces: list[bytes]) -> None:
        self.written += b"".join(pieces)

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else SimpleNamespace(fileno=lambda: 0)

    def set_write_buffer_limits(self, **_: int) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


def _respond(_: Connection, data: memoryview) -> list[Any]:
    """Answer with the size and the bytes of a request; one that cannot be read closes the connection."""
    try:
        decode(bytes(data))
        if len(data) % 7 == 3:
            raise CloseConnection("some requests have no response")
    except DecodeError as error:
        raise CloseConnection(str(error)) from error
    return [pack(">i", len(data)), bytes(data[:8])]


async def exchange(stream: bytes, chunks: list[int]) -> tuple[bytes, bool]:
    """Return (what a connection writes, whether it has closed) for bytes that arrive in chunks of these sizes."""
    clock = Clock()
    timers = Timers(clock)
    memory = ConnectionMemory(4 * MAX_REQUEST_BYTES, clock, timers)
    bounds, limits = Bounds(MAX_REQUEST_BYTES, max_idle_ms=-1), ConnectionLimits(BrokerConfig())

    async def read_piece(_: object) -> bytes:
        raise AssertionError("no response holds a range of a file")

    processor = Processor(_respond, read_piece, bounds, clock, timers, limits, memory, memory)
    connection, wire = Connection(processor, Listener("PLAINTEXT")), _Wire()
    connection.connection_made(cast("asyncio.Transport", wire))
    sizes = iter(chunks)
    at = 0
    while at < len(stream) and not wire.is_closed:
        room = connection.get_buffer(-1)
        size = min(next(sizes, len(stream)), len(room), len(stream) - at)
        room[:size] = stream[at : at + size]
        connection.buffer_updated(size)
        at += size
        await asyncio.sleep(0)
    connection.connection_lost(None)
    assert memory.held_bytes == 0
    timers.close()
    return bytes(wire.written), wire.is_closed
