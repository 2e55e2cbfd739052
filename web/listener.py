"""A listener for HTTP: its socket, the bound of its connections, and their end; and a service that has one.

The listener accepts connections itself: the event loop would tell of one with TLS only after its handshake, and neither
count it nor end it before.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from .connection import Answer, BodyMemory, Connection, Limits, LookAtHead, Refuse, plain_rejection
from .startable import Startable

_BACKLOG = 100
# For a client to shake hands, and for its answer to the end of TLS.
_HANDSHAKE_S = 10.0
_CLOSE_NOTIFY_S = 1.0
# After an error of the system (no descriptors) nothing is accepted for so long.
_REST_S = 1.0

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


class _Opened:
    """A connection that was accepted. It is counted until its socket is closed."""

    def __init__(self, accepted: socket.socket, address: str) -> None:
        self.socket = accepted
        self.address = address
        # None until its handshake has ended.
        self.writer: asyncio.StreamWriter | None = None
        self.task: asyncio.Task[None]

    @property
    def is_closing(self) -> bool:
        return self.task.cancelling() > 0 if self.writer is None else self.writer.is_closing()

    def abort(self) -> None:
        """Close, and send nothing more."""
        if self.writer is None:
            self.task.cancel()
        else:
            self.writer.transport.abort()


class Listener:
    """Listens from `start` to `stop`, and has `answer` answer each request."""

    def __init__(self, config: ListenerConfig, answer: Answer) -> None:
        self._config = config
        self._answer = answer
        self._memory = BodyMemory()
        self._server: asyncio.Server | None = None
        self._listening: list[socket.socket] = []
        # Every open connection, in the order of arrival.
        self._connections: dict[_Opened, None] = {}

    async def start(self) -> None:
        """Listen. Raises OSError where the address is not free."""
        config, loop = self._config, asyncio.get_running_loop()
        self._server = await loop.create_server(asyncio.Protocol, config.host or None, config.port, start_serving=False)
        for each in self._server.sockets:
            # The loop may know the descriptor of the server already.
            own = socket.socket(each.family, each.type, each.proto, fileno=socket.dup(each.fileno()))
            own.setblocking(False)
            own.listen(_BACKLOG)
            self._listening.append(own)
            loop.add_reader(own, self._accept, own)

    async def stop(self) -> None:
        """Accept no more connections, and end those that are there. Idempotent.

        A request under way may finish within `stop_s`; then its task is cancelled.
        """
        server, self._server = self._server, None
        if server is None:
            return
        for each in self._listening:
            asyncio.get_running_loop().remove_reader(each)
            each.close()
        self._listening.clear()
        server.close()
        for opened in self._connections:
            opened.abort()
        if self._connections:
            tasks = [each.task for each in self._connections]
            _, late = await asyncio.wait(tasks, timeout=self._config.stop_s)
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

    def _accept(self, listening: socket.socket) -> None:
        try:
            accepted, peer = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            self._rest(listening, error)
            return
        address = str(peer[0])
        if len(self._connections) >= self._config.max_connections and not self._make_way(address):
            _log.warning("a connection is closed: %d are open already", self._config.max_connections)
            accepted.close()
            return
        accepted.setblocking(False)
        opened = _Opened(accepted, address)
        self._connections[opened] = None
        opened.task = asyncio.ensure_future(self._serve(opened))
        # Not in the task, because one that is cancelled early never runs.
        opened.task.add_done_callback(lambda _: self._forget(opened))

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        """Accept nothing for a while: the system has no descriptor or no memory."""
        _log.error("no connection can be accepted: %s", error.strerror or error)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)

        def go_on() -> None:
            if listening in self._listening:
                loop.add_reader(listening, self._accept, listening)

        loop.call_later(_REST_S, go_on)

    def _forget(self, opened: _Opened) -> None:
        del self._connections[opened]
        opened.socket.close()

    async def _serve(self, opened: _Opened) -> None:
        config, loop = self._config, asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        times = {"ssl_handshake_timeout": _HANDSHAKE_S, "ssl_shutdown_timeout": _CLOSE_NOTIFY_S} if config.tls else {}
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, opened.socket, ssl=config.tls, **times)
        except OSError as error:
            _log.debug("%s: closed in the TLS handshake: %s", opened.address, error.strerror or error)
            return
        opened.writer = writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        more = config.refuse, config.look_at_head, opened.address
        await Connection(reader, writer, self._answer, config.limits, self._memory, *more).serve()
        with suppress(OSError):
            await writer.wait_closed()

    def _make_way(self, address: str) -> bool:
        """Close the oldest connection of the address that has the most, unless that is the asking one."""
        by_address: dict[str, list[_Opened]] = {}
        for each in self._connections:
            if not each.is_closing:
                by_address.setdefault(each.address, []).append(each)
        none: list[_Opened] = []
        heaviest = max(by_address.values(), key=len, default=none)
        if len(heaviest) <= len(by_address.get(address, ())) + 1:
            return False
        heaviest[0].abort()
        return True


class Service(Startable):
    """What listens for clients, from `start` to `stop` or in `async with`."""

    _listener: Listener

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


def stopped_by_signal() -> asyncio.Event:
    """Return an event that SIGTERM or SIGINT sets."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopped.set)
    return stopped
