"""A TCP proxy between a client and a broker, which stalls or cuts the connections when a test says so.

    async with Proxy(broker_port) as proxy:
        proxy.stall()   # takes no more bytes in either direction: a half-open socket
        proxy.resume()
        proxy.cut()     # aborts all connections

A client follows the addresses in Metadata, so a broker behind a proxy must advertise the proxy's port.
"""

from __future__ import annotations

import asyncio

_CHUNK_BYTES = 65_536


class Proxy:
    """Forwards connections to a port of this machine."""

    def __init__(self, port: int = 0) -> None:
        # A broker that advertises the proxy may start later: then its port comes later.
        self.target = port
        self.port = 0
        self._server: asyncio.Server | None = None
        self._flows = asyncio.Event()
        self._flows.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    def stall(self) -> None:
        """Forward nothing until `resume`."""
        self._flows.clear()

    def resume(self) -> None:
        """Forward again, waiting bytes first."""
        self._flows.set()

    def cut(self) -> None:
        """Abort all connections, to both sides."""
        for writer in self._writers:
            writer.transport.abort()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
            self._writers.add(back)
            await asyncio.gather(self._forward(reader, back), self._forward(there, writer))
        except (ConnectionError, asyncio.CancelledError):
            return  # one side has gone, or the test is over
        finally:
            self._tasks.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await self._flows.wait()
            chunk = await reader.read(_CHUNK_BYTES)
            await self._flows.wait()
            if not chunk:
                writer.transport.abort()
                return
            writer.write(chunk)
            await writer.drain()
