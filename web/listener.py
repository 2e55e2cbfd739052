"""A listener for HTTP: its socket, the bound of its connections, and their end; and a service that has one."""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, cast

from .connection import Answer, BodyMemory, Connection, Limits, LookAtHead, Refuse, plain_rejection

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """Where to listen, and how much is taken from clients."""

    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    # Each holds a task and some kilobytes.
    max_connections: int = 1_000
    limits: Limits = field(default_factory=Limits)
    # For requests under way when the listener stops.
    stop_s: float = 5.0
    refuse: Refuse = plain_rejection
    # What a request must pass before its body is read.
    look_at_head: LookAtHead | None = None


class Listener:
    """Listens from `start` to `stop`, and has `answer` answer each request."""

    def __init__(self, config: ListenerConfig, answer: Answer) -> None:
        self._config = config
        self._answer = answer
        self._memory = BodyMemory()
        self._server: asyncio.Server | None = None
        # Invariant: one for each open connection.
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def start(self) -> None:
        """Listen. Raises OSError where the address is not free."""
        config = self._config
        self._server = await asyncio.start_server(self._connected, config.host or None, config.port, ssl=config.tls)

    async def stop(self) -> None:
        """Accept no more connections, and end those that are there. Idempotent.

        A request under way may finish within `stop_s`; then its task is cancelled.
        """
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for writer in self._connections.values():
            writer.transport.abort()
        if self._connections:
            _, late = await asyncio.wait(self._connections, timeout=self._config.stop_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    @property
    def address(self) -> str:
        """HOST:PORT, with the port that was really taken."""
        assert self._server is not None, "it does not listen"
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"{'http' if self._config.tls is None else 'https'}://{self.address}"

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._server is None:
            # It was accepted before the stop.
            return writer.transport.abort()
        if len(self._connections) >= self._config.max_connections and not self._make_way(_address_of(writer)):
            _log.warning("a connection is closed: %d are open already", self._config.max_connections)
            return writer.close()
        self._connections[task] = writer
        try:
            config = self._config
            await Connection(
                reader,
                writer,
                self._answer,
                config.limits,
                self._memory,
                config.refuse,
                config.look_at_head,
                _address_of(writer),
            ).serve()
        finally:
            del self._connections[task]

    def _make_way(self, address: str) -> bool:
        """Close the oldest connection of the address that has the most, unless that is the asking one."""
        by_address: dict[str, list[asyncio.StreamWriter]] = {}
        for writer in self._connections.values():
            if not writer.is_closing():
                by_address.setdefault(_address_of(writer), []).append(writer)
        none: list[asyncio.StreamWriter] = []
        heaviest = max(by_address.values(), key=len, default=none)
        if len(heaviest) <= len(by_address.get(address, ())) + 1:
            return False
        heaviest[0].transport.abort()
        return True


class Service:
    """What listens for clients, from `start` to `stop` or in `async with`."""

    _listener: Listener

    async def start(self) -> None:
        """Listen."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Close. May be called again."""
        raise NotImplementedError

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
        return self._listener.address

    @property
    def url(self) -> str:
        """The address for clients."""
        return self._listener.url


def _address_of(writer: asyncio.StreamWriter) -> str:
    """Return the IP address of a client."""
    peer: object = writer.get_extra_info("peername")
    return str(cast("tuple[object, ...]", peer)[0]) if isinstance(peer, tuple) else ""


def stopped_by_signal() -> asyncio.Event:
    """Return an event that SIGTERM or SIGINT sets."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopped.set)
    return stopped
