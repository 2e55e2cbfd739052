"""A client for the HTTP endpoint of a broker: bytes out, and all that comes back until the end."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import h11

WAIT_S = 20


class Answer(NamedTuple):
    """A response."""

    status: int
    headers: dict[bytes, bytes]
    text: str


async def exchange(address: str, data: bytes) -> bytes:
    """Send bytes, and return what comes back until the other end closes."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    try:
        async with asyncio.timeout(WAIT_S):
            writer.write(data)
            await writer.drain()
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.transport.abort()


async def get(address: str, path: str, method: str = "GET", host: str = "localhost") -> Answer:
    """Send a request of a method, and return the response."""
    raw = await exchange(address, f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method=method, target=path, headers=[("Host", host)]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(raw)
    connection.receive_data(b"")
    head = connection.next_event()
    assert isinstance(head, h11.Response), raw
    body = b""
    while isinstance(event := connection.next_event(), h11.Data):
        body += event.data
    assert isinstance(event, h11.EndOfMessage), event
    return Answer(head.status_code, dict(head.headers), body.decode())
