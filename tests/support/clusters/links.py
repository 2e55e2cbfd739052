"""The wires of a cluster of processes: a proxy between every pair of brokers, and between each broker and ZooKeeper.

A gate stands in front of each broker's listener for other brokers. It reads from the first request's client id which
broker has connected, so that each pair has rules of its own; ZooKeeper has a gate for each broker. Rules are set from
the test's thread, the bytes flow in a thread of their own.

    with Links() as links:
        port = links.gate(2, target_port)        # broker 2 advertises this port
        links.cut(1, 2)                          # nothing passes between them, connections are aborted
        links.hold(1, 2)                         # one way: bytes from 1 to 2 wait, those from 2 to 1 pass
        links.delay(0.05)                        # every chunk is late
        links.heal()
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

ZOOKEEPER = 0
_CHUNK_BYTES = 65_536
_SENDER = re.compile(rb"(?:broker|odradek-controller)-(\d+)")
# The client id of a request header: after size, key, version and correlation id.
_HEADER_BYTES = 14
_WAIT_S = 10


@dataclass(eq=False)
class _Connection:
    """One connection through a gate, between `source`, which has connected, and `target`."""

    source: int
    target: int
    writers: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter])

    def abort(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


class Links:
    """The gates of one cluster and their rules."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._servers: list[asyncio.Server] = []
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        # Pairs between which nothing passes, either way round.
        self._cut: set[frozenset[int]] = set()
        # (from, to) whose bytes wait.
        self._held: set[tuple[int, int]] = set()
        self._delay_s = 0.0
        self._changed = asyncio.Event()

    def __enter__(self) -> Links:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_WAIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_WAIT_S)
        self._loop.close()

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def gate(self, target: int, port: int, source: int | None = None) -> int:
        """Open a gate to a port of this machine, and return its own; `source` None: as the client id says."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await self._serve(reader, writer, target, port, source)

        async def start() -> int:
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            self._servers.append(server)
            return server.sockets[0].getsockname()[1]

        return asyncio.run_coroutine_threadsafe(start(), self._loop).result(_WAIT_S)

    # -- Rules

    def cut(self, one: int, other: int) -> None:
        """Abort all connections between two, and every new one."""
        self._do(lambda: self._cut.add(frozenset((one, other))))

    def hold(self, source: int, target: int) -> None:
        """Let bytes from `source` to `target` wait."""
        self._do(lambda: self._held.add((source, target)))

    def delay(self, seconds: float) -> None:
        """Let every chunk of bytes wait for so long."""

        def change() -> None:
            self._delay_s = seconds

        self._do(change)

    def drop(self, node: int) -> None:
        """Abort the connections of a broker once; new ones are served."""
        self._do(lambda: self._abort(lambda each: node in (each.source, each.target)))

    def heal(self) -> None:
        """Forget every rule. Bytes that waited pass."""

        def change() -> None:
            self._cut.clear()
            self._held.clear()
            self._delay_s = 0.0

        self._do(change)

    def _do(self, change: Callable[[], object]) -> None:
        done = threading.Event()

        def run() -> None:
            change()
            self._abort(lambda each: frozenset((each.source, each.target)) in self._cut)
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(_WAIT_S)

    def _abort(self, which: Callable[[_Connection], bool]) -> None:
        for each in filter(which, list(self._connections)):
            each.abort()

    # -- Bytes

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int, port: int, source: int | None
    ) -> None:
        connection: _Connection | None = None
        try:
            first = b""
            while source is None:
                chunk = await reader.read(_CHUNK_BYTES)
                if not chunk:
                    return
                first += chunk
                source = _sender(first)
            connection = _Connection(source, target, [writer])
            if frozenset((source, target)) in self._cut:
                return
            there, back = await asyncio.open_connection("127.0.0.1", port)
            connection.writers.append(back)
            self._connections.add(connection)
            ways = self._forward(reader, back, (source, target), first), self._forward(there, writer, (target, source))
            await asyncio.gather(*ways)
        except (ConnectionError, asyncio.CancelledError):
            return  # one side has gone, or the test is over
        finally:
            writer.transport.abort()
            if connection is not None:
                connection.abort()
                self._connections.discard(connection)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: tuple[int, int], first: bytes = b""
    ) -> None:
        chunk = first or await reader.read(_CHUNK_BYTES)
        while chunk:
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            while way in self._held:
                await self._changed.wait()
            writer.write(chunk)
            await writer.drain()
            chunk = await reader.read(_CHUNK_BYTES)
        raise ConnectionResetError


def _sender(data: bytes) -> int | None:
    """Return the broker that a first request comes from, None while it has not arrived; raise for a stranger."""
    size = int.from_bytes(data[12:14], "big") if len(data) >= _HEADER_BYTES else -1
    if size < 0 or len(data) < _HEADER_BYTES + size:
        return None
    found = _SENDER.match(data, _HEADER_BYTES, _HEADER_BYTES + size)
    if found is None:
        raise ConnectionResetError(f"{data[_HEADER_BYTES:][:size]!r} is no broker's client id")
    return int(found[1])
