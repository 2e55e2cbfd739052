"""What a client sends until its TLS handshake is done: bounded, and given to OpenSSL in slices of the loop's turns.

OpenSSL takes a quarter of a millisecond for each certificate that a client shows, and cannot be interrupted. So the
bytes of one client are at most `MAX_HANDSHAKE_BYTES`, and those of many that come at the same time wait in the queue of
the keeper (turns.py). A client sends nothing more meanwhile.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import cast

from ..turns import Keeper
from .connection import Connection

# Some ten certificates of RSA, or fifty small ones, which take 12 ms. Kafka takes ten, of 32 KiB.
MAX_HANDSHAKE_BYTES = 16 * 1024
_CLOSE_NOTIFY_S = 1.0


class HandshakeTooLarge(Exception):
    """A client has sent too much, and its handshake is not done."""


class TlsHandshake(asyncio.BufferedProtocol):
    """Stands between a transport and the TLS of the loop until the handshake is done."""

    _transport: asyncio.Transport

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._buffer = memoryview(bytearray(MAX_HANDSHAKE_BYTES))
        # What has come, and what TLS has got of it.
        self._filled = self._taken = 0
        self._tls: asyncio.BufferedProtocol | None = None
        self._is_lost = False

    async def shake_hands(self, context: ssl.SSLContext, connection: Connection, time_s: float) -> None:
        """Shake hands and give the transport to a connection, unless the client has gone.

        Raises ssl.SSLError, OSError or HandshakeTooLarge.
        """
        transport, loop = self._transport, asyncio.get_running_loop()
        if transport.is_closing():
            return
        # The loop puts its TLS behind the transport at once, and lets it begin afterwards.
        loop.call_soon(self._enter)
        secure = await loop.start_tls(
            transport,
            connection,
            context,
            server_side=True,
            ssl_handshake_timeout=time_s,
            ssl_shutdown_timeout=_CLOSE_NOTIFY_S,
        )
        if self._is_lost and self._is_full:
            raise HandshakeTooLarge
        # Where it is only closing, the client may have closed behind its first requests, which are handled.
        if self._is_lost or secure is None:
            return
        assert self._tls is not None
        transport.set_protocol(self._tls)
        connection.connection_made(secure)

    @property
    def _is_full(self) -> bool:
        return self._filled == MAX_HANDSHAKE_BYTES

    def _enter(self) -> None:
        self._tls = cast("asyncio.BufferedProtocol", self._transport.get_protocol())
        self._transport.set_protocol(self)
        if self._is_full:
            self._transport.abort()
        elif self._filled:
            self._keeper.queue(self._step)

    def _step(self) -> None:
        """Give TLS what has come."""
        transport, tls = self._transport, self._tls
        assert tls is not None
        if transport.is_closing():
            return
        new = self._buffer[self._taken : self._filled]
        self._taken = self._filled
        memoryview(tls.get_buffer(len(new)))[: len(new)] = new
        tls.buffer_updated(len(new))
        # Behind `shake_hands`, which goes on first if this was the last step.
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        transport = self._transport
        if self._is_full and transport.get_protocol() is self:
            transport.abort()
        else:
            transport.resume_reading()

    # -- Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        self._transport.pause_reading()
        if self._tls is not None:
            self._keeper.queue(self._step)

    def eof_received(self) -> bool | None:
        return self._tls.eof_received() if self._tls is not None else None

    def pause_writing(self) -> None:
        if self._tls is not None:
            self._tls.pause_writing()

    def resume_writing(self) -> None:
        if self._tls is not None:
            self._tls.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        if self._tls is not None:
            self._tls.connection_lost(exc)
