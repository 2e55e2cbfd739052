"""The network: connections between simulated processes, as pairs of transports in memory.

Bytes come later, in pieces, in order. A way from one process to another can be cut, in one direction alone: what is
under way waits, as TCP's segments do, and comes when the way is whole again. A connection can break at any byte. When a
process is killed its connections are reset; after a power cut nobody hears of it until the machine is back.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, Protocol, cast

from .world import Loop, World

# What the kernels of both ends take before a write waits.
_KERNEL_BYTES = 128 * 1024
_HIGH_BYTES = 64 * 1024
_READ_BYTES = 256 * 1024
_EOF, _RESET = object(), object()
# What a socket says that its descriptor is: brokers count them.
_DESCRIPTOR = 100


class Host(Protocol):
    """A process, as the network sees it."""

    host: str
    is_alive: bool
    # Whether its machine runs.
    is_powered: bool
    context: Context

    @property
    def loop(self) -> Loop: ...


class AddressInUse(OSError):
    """Another process listens there, as EADDRINUSE says."""


class Network:
    """All connections of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._chance = world.random("network")
        self._servers: dict[tuple[str, int], Server] = {}
        self._ports = 40_000
        self._held: list[_Way] = []
        self._transports: list[Transport] = []
        # How many connections each host has lost or closed.
        self.ended: Counter[str] = Counter()
        # (from, to): the hosts between which nothing comes through.
        self.cuts: set[tuple[str, str]] = set()
        # How often a write breaks its connection.
        self.break_chance = 0.0
        self.slowness = 1.0
        # What everybody has sent, for the hash of a history.
        self.sent: Callable[[bytes], None] = lambda _: None

    def new_port(self) -> int:
        """Return a port that nobody has."""
        self._ports += 1
        return self._ports

    def delay_s(self) -> float:
        """Draw how long bytes are under way."""
        draw = self._chance.random()
        if draw > 0.995:
            return self._chance.uniform(0.01, 0.3) * self.slowness
        return (0.00005 + draw * 0.001) * self.slowness

    def is_cut(self, source: Host, target: Host) -> bool:
        """Return whether nothing comes from one process to the other."""
        return (source.host, target.host) in self.cuts or not target.is_powered

    def heal(self) -> None:
        """Let everything through that waits."""
        held, self._held = self._held, []
        for way in held:
            way.go_on()

    def hold(self, way: _Way) -> None:
        """Remember what waits."""
        self._held.append(way)

    def listen(self, process: Host, factory: Callable[[], Any], port: int | None, **options: Any) -> Server:
        """Return a server at a process's host."""
        place = process.host, port or self.new_port()
        taken = self._servers.get(place)
        if taken is not None and taken.is_there:
            raise AddressInUse(98, "address already in use")
        server = self._servers[place] = Server(process, factory, place, is_serving=options.get("start_serving", True))
        return server

    async def connect(self, process: Host, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        """Connect from a process, as `create_connection` does."""
        server = self._servers.get((host, int(port)))
        await asyncio.sleep(self.delay_s())
        if server is not None:
            # A SYN that gets no answer is sent again.
            while self.is_cut(process, server.process) or self.is_cut(server.process, process):
                await asyncio.sleep(0.2)
                server = self._servers[host, int(port)]
        if server is None or not server.accepts:
            raise ConnectionRefusedError(111, "connection refused")
        await asyncio.sleep(self.delay_s())
        if not server.accepts:
            raise ConnectionRefusedError(111, "connection refused")
        here, there = process.host, self.new_port()
        near = Transport(self, process, (here, there), server.place)
        far = Transport(self, server.process, server.place, (here, there))
        near.join(far)
        self._transports = [each for each in self._transports if not each.is_over]
        self._transports += [near, far]
        server.process.loop.call_soon(lambda: far.begin(server.factory()), context=server.process.context.copy())
        protocol = factory()
        near.begin(protocol)
        await asyncio.sleep(0)
        return near, protocol

    def transports_of(self, process: Host) -> list[Transport]:
        """Return the open connections of a process."""
        return [each for each in self._transports if each.process is process and not each.is_over]

    def drop_all(self, process: Host) -> None:
        """Reset the connections of a process that is gone."""
        for each in self.transports_of(process):
            each.vanish()

    def pieces(self, data: bytes) -> list[bytes]:
        """Cut what was written where the network may."""
        if len(data) < 2 or self._chance.random() > 0.1:
            return [data]
        at = self._chance.randrange(1, len(data))
        return [data[:at], data[at:]]

    def breaks(self) -> bool:
        """Draw whether a connection breaks now."""
        return self.break_chance > 0 and self._chance.random() < self.break_chance

    def part_of(self, data: bytes) -> bytes:
        """Return what comes through of data where a connection breaks."""
        return data[: self._chance.randrange(len(data) + 1)]


class Server(asyncio.AbstractServer):
    """A listening socket."""

    def __init__(self, process: Host, factory: Callable[[], Any], place: tuple[str, int], *, is_serving: bool) -> None:
        self.process, self.factory, self.place = process, factory, place
        self._is_serving = is_serving
        self._is_closed = False

    @property
    def is_there(self) -> bool:
        """Whether its process lives and has not closed it."""
        return not self._is_closed and self.process.is_alive

    @property
    def accepts(self) -> bool:
        """Whether it takes connections now."""
        return self._is_serving and self.is_there

    @property
    def sockets(self) -> list[_Socket]:
        return [] if self._is_closed else [_Socket(self.place, 0)]

    def close(self) -> None:
        self._is_closed = True

    def is_serving(self) -> bool:
        return self._is_serving

    async def start_serving(self) -> None:
        self._is_serving = True

    async def wait_closed(self) -> None:
        await asyncio.sleep(0)


class _Socket:
    """What programs ask a socket for."""

    def __init__(self, place: tuple[str, int], number: int) -> None:
        self._place, self._number = place, number

    def fileno(self) -> int:
        return self._number

    def getsockname(self) -> tuple[str, int]:
        return self._place

    def setsockopt(self, *_: Any) -> None:
        """Take an option, which changes nothing here."""


class _Way:
    """One direction of a connection."""

    def __init__(self, network: Network, source: Transport, target: Transport) -> None:
        self._network, self._source, self._target = network, source, target
        self._last_s = 0.0
        self._waiting: list[Any] = []

    def push(self, item: Any) -> None:
        """Send bytes, the end or a reset behind what was sent before."""
        world = self._network.world
        self._last_s = max(self._last_s, world.now_ns / 1e9 + self._network.delay_s())
        world.at(self._last_s, self.arrive, item)

    def arrive(self, item: Any) -> None:
        """Come in at the other end, unless the way is cut."""
        if self._waiting or self._network.is_cut(self._source.process, self._target.process):
            if not self._waiting:
                self._network.hold(self)
            self._waiting.append(item)
            return
        self._target.receive(item)

    def go_on(self) -> None:
        """Bring what waited."""
        waiting, self._waiting = self._waiting, []
        for item in waiting:
            self.push(item)


class Transport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: Network, process: Host, here: tuple[str, int], there: tuple[str, int]) -> None:
        super().__init__({"peername": there, "sockname": here, "socket": _Socket(here, _DESCRIPTOR)})
        self._network = network
        self.process = process
        self.is_over = False
        self._protocol: Any = None
        self._incoming: deque[Any] = deque()
        self._is_pumping = self._is_closing = self._is_paused = False
        self._unread_bytes = 0
        self._high, self._low = _HIGH_BYTES, _HIGH_BYTES // 4
        self._reads = True

    def join(self, other: Transport) -> None:
        """Make the two ends of a connection."""
        self.other, other.other = other, self
        self._way, other._way = _Way(self._network, self, other), _Way(self._network, other, self)

    def begin(self, protocol: Any) -> None:
        """Begin."""
        self._protocol = protocol
        self._reader = self.process.loop.reader(self._pump)
        protocol.connection_made(self)
        self._schedule_pump()

    # -- What programs call

    def is_closing(self) -> bool:
        return self._is_closing

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def write(self, data: Any) -> None:
        if self._is_closing or not data:
            return
        self._unread_bytes += len(data)
        data = bytes(data)
        self._network.sent(data)
        if self._network.breaks():
            self._way.push(self._network.part_of(data))
            self._break()
            return
        for piece in self._network.pieces(data):
            self._way.push(piece)
        if not self._is_paused and self.get_write_buffer_size() > self._high:
            self._is_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return max(0, self._unread_bytes - _KERNEL_BYTES)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True
        self._schedule_pump()

    def is_reading(self) -> bool:
        return self._reads

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._end_when_taken()

    def abort(self) -> None:
        if not self.is_over:
            self._is_closing = True
            self._way.push(_RESET)
            self._lose(None)

    # -- The way down

    def _end_when_taken(self) -> None:
        if not self.get_write_buffer_size():
            self._way.push(_EOF)
            self._lose(None)

    def _break(self) -> None:
        self._is_closing = True
        self._way.push(_RESET)
        self._lose(ConnectionResetError(104, "connection reset by peer"))

    def _lose(self, error: Exception | None) -> None:
        if not self.is_over:
            self.is_over = self._is_closing = True
            self._incoming.clear()
            self._network.ended[self.process.host] += 1
            self.process.loop.call_soon(self._tell_lost, error)

    def _tell_lost(self, error: Exception | None) -> None:
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    def vanish(self) -> None:
        """Leave with the process: the other end hears of it."""
        self.is_over = self._is_closing = True
        self._way.push(_RESET)

    # -- The way up

    def receive(self, item: Any) -> None:
        """Take what came in."""
        if not self.is_over:
            self._incoming.append(item)
            self._schedule_pump()
        elif isinstance(item, bytes) and not self.other.is_over:
            # As a kernel answers for a connection that it does not have.
            self._way.push(_RESET)

    def _schedule_pump(self) -> None:
        if self._reads and self._incoming and not self._is_pumping and self._protocol is not None:
            self._is_pumping = True
            self.process.loop.take(self._reader)

    def _pump(self) -> None:
        """Have the protocol read once, as one turn of a real loop does."""
        self._is_pumping = False
        if self.is_over or not self._reads or not self._incoming:
            return
        item = self._incoming.popleft()
        if item is _RESET:
            self._is_closing = True
            self._lose(ConnectionResetError(104, "connection reset by peer"))
            return
        if item is _EOF:
            if not self._protocol.eof_received():
                self.close()
            return
        self._read(item)
        self._schedule_pump()

    def _read(self, data: bytes) -> None:
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            room = cast("memoryview", self._protocol.get_buffer(-1))
            count = min(len(room), len(data))
            room[:count] = data[:count]
        else:
            count = min(len(data), _READ_BYTES)
        if count < len(data):
            self._incoming.appendleft(data[count:])
        self.other.taken(count)
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.buffer_updated(count)
        else:
            self._protocol.data_received(data[:count])

    def taken(self, count: int) -> None:
        """Take down that the other end has read so much."""
        self._unread_bytes -= count
        if self._is_closing and not self.is_over:
            self._end_when_taken()
        elif self._is_paused and self.get_write_buffer_size() <= self._low:
            self._is_paused = False
            self.process.loop.call_soon(self._resume)

    def _resume(self) -> None:
        if not self.is_over and not self._is_paused:
            self._protocol.resume_writing()
