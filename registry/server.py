"""The registry: the log, the API and the socket it listens on, from start to stop.

async with Registry(RegistryConfig(LogOptions("127.0.0.1:9092"))) as registry:
    ...  # clients use registry.url
"""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
from base64 import b64encode
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from .api import Api
from .http_connection import BodyMemory, HttpConnection
from .schemas_log import WRITE_TIMEOUT_S, LogOptions, SchemasLog

_log = logging.getLogger(__name__)

DEFAULT_PORT = 8081
# Each holds a task and some kilobytes: more clients than this use a proxy.
MAX_CONNECTIONS = 1_000


@dataclass(frozen=True, slots=True)
class RegistryConfig:
    """Where the registry's log is, where it listens, and what clients must show."""

    log: LogOptions = field(default_factory=LogOptions)
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    # "name:password" that every client must send, none if anybody may come in.
    login: str | None = None
    tls: ssl.SSLContext | None = None


class Registry:
    """A schema registry in this event loop. Use `async with`, or `start()` and `stop()`."""

    def __init__(self, config: RegistryConfig) -> None:
        self._config = config
        self._log = SchemasLog(config.log)
        self._api = Api(self._log)
        self._memory = BodyMemory()
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        login = config.login
        self._authorization = None if login is None else b"Basic " + b64encode(login.encode())

    async def start(self) -> None:
        """Read the log, then listen. Raises KafkaError, RegistryError, OSError."""
        try:
            await self._log.start()
            config = self._config
            self._server = await asyncio.start_server(self._connected, config.host, config.port, ssl=config.tls)
        except BaseException:
            await self._log.stop()
            raise
        _log.info("listening on %s", self.url)

    async def stop(self) -> None:
        """Accept no more connections, end those that are there, finish the change under way, close the log."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for writer in self._connections.values():
            # Its task sees the end, or finishes its change first: to cancel it would leave the outcome open.
            writer.transport.abort()
        if self._connections:
            await asyncio.wait(self._connections, timeout=WRITE_TIMEOUT_S)
        await self._log.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def address(self) -> str:
        """HOST:PORT that it listens on."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"{'http' if self._config.tls is None else 'https'}://{self.address}"

    async def failed(self) -> None:
        """Wait until the log cannot be read any more. Raises the KafkaError."""
        await self._log.failed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= MAX_CONNECTIONS:
            _log.warning("a connection is closed: %d are open already", MAX_CONNECTIONS)
            return writer.close()
        self._connections[task] = writer
        try:
            await HttpConnection(reader, writer, self._api, self._memory, self._authorization).serve()
        finally:
            del self._connections[task]


async def serve(config: RegistryConfig, announce: Callable[[str], None]) -> None:
    """Run a registry until SIGTERM or SIGINT. Call `announce` with its URL when clients can connect.

    Raises KafkaError, RegistryError, OSError.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopped.set)
    waiting = asyncio.create_task(stopped.wait())
    registry = Registry(config)
    try:
        if await _is_first(registry.start(), waiting):
            announce(registry.url)
            await _is_first(registry.failed(), waiting)
    finally:
        waiting.cancel()
        await registry.stop()


async def _is_first(work: Coroutine[Any, Any, None], other: asyncio.Task[Any]) -> bool:
    """Tell whether `work` ends before the other does, which cancels it. Raises what it raises."""
    working = asyncio.create_task(work)
    await asyncio.wait({working, other}, return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        working.result()
        return True
    working.cancel()
    await asyncio.wait({working})
    return False
