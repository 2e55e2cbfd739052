"""A listener of HTTP: what becomes of connections around its stop."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

from odradek.tests.support.certificates import Certificates
from odradek.web.exchange import Request, Response
from odradek.web.listener import Listener, ListenerConfig


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
        assert await asyncio.to_thread(_ask, client, certificates.authority) == b""


def _ask(client: socket.socket, authority: Path) -> bytes:
    """Return what a request is answered with, nothing where the connection ends."""
    context = ssl.create_default_context(cafile=authority)
    try:
        with context.wrap_socket(client, server_hostname="localhost") as encrypted:
            encrypted.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            return encrypted.recv(100)
    except (ssl.SSLError, ConnectionError):
        return b""
