"""Counts the calls of Python functions, and the turns of the loop, that the broker takes for one request.

These are costs that no busy machine changes.

The broker runs on a loop in this thread. A client in another thread sends requests in bursts, so that what is paid once
a burst (a read, a write, a turn of the loop) counts as it does under load. Functions written in C are not counted.
"""

from __future__ import annotations

import asyncio
import gc
import selectors
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvloop
from odradek.broker import Broker, BrokerConfig
from odradek.broker.turns import keeper
from odradek.tests.support.clients.raw import Raw

BURST = 32
# Enough that what happens once a second or once an index entry weighs nothing.
BURSTS = 20
_WAIT_S = 60

Prepare = Callable[[Broker, Raw], "asyncio.Future[bytes]"]


class Calls:
    """The functions that were called, with the number of calls."""

    def __init__(self, requests: int) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._requests = requests

    @property
    def per_request(self) -> float:
        return self.counts.total() / self._requests

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Count an event of sys.setprofile."""
        if event == "call":
            code = frame.f_code
            self.counts[code.co_filename, code.co_qualname] += 1

    def table(self) -> str:
        """Return a line for each function: its calls a request, its name, its file."""
        lines = [f"{self.per_request:8.2f}  calls a request, of these:"]
        for (file, name), count in self.counts.most_common():
            if count * 20 >= self._requests:
                lines.append(f"{count / self._requests:8.2f}  {name} ({'/'.join(Path(file).parts[-2:])})")
        return "\n".join(lines)


def count_calls(config: BrokerConfig, prepare: Callable[[Broker, Raw], object]) -> Calls:
    """Return the calls for the request that `prepare` (a coroutine function) returns as a frame, sent in bursts."""

    async def run() -> Calls:
        async with Broker(config) as broker:
            async with await Raw.connect(broker.address) as raw:
                frame: bytes = await prepare(broker, raw)  # type: ignore[misc]
            host, _, port = broker.address.rpartition(":")
            with socket.create_connection((host, int(port)), timeout=_WAIT_S) as client:
                await asyncio.to_thread(_ask, client, frame, 2)  # warm: codecs are compiled, the file is open
                calls = Calls(BURST * BURSTS)
                with _noting(calls):
                    await asyncio.to_thread(_ask, client, frame, BURSTS)
                return calls

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


def count_client(config: BrokerConfig, client: Callable[[str, range], None], rounds: int) -> Calls:
    """Return the calls for one round of a client, which gets the broker's address and runs in a thread of its own."""

    async def run() -> Calls:
        async with Broker(config) as broker:
            await asyncio.to_thread(client, broker.address, range(2))  # warm
            calls = Calls(rounds)
            with _noting(calls):
                await asyncio.to_thread(client, broker.address, range(2, 2 + rounds))
            return calls

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


@contextmanager
def _noting(calls: Calls) -> Iterator[None]:
    """Count the calls within. The collector rests: it would call the finalizers of other tests' objects.

    The clock of slices stands: on a busy machine they end early, and then work waits for its turn, which is more calls.
    """
    gc.disable()
    slices = keeper()
    clock, slices.clock = slices.clock, lambda: 0
    sys.setprofile(calls.note)
    try:
        yield
    finally:
        sys.setprofile(None)
        slices.clock = clock
        gc.enable()


def _ask(client: socket.socket, request: bytes, bursts: int) -> None:
    """Send bursts, each after the responses to the one before."""
    for _ in range(bursts):
        client.sendall(request * BURST)
        for _ in range(BURST):
            _receive(client)


def _receive(client: socket.socket) -> None:
    """Take one response."""
    size = int.from_bytes(client.recv(4, socket.MSG_WAITALL))
    assert size and len(client.recv(size, socket.MSG_WAITALL)) == size, "the broker closed the connection"


# A fetch at an offset, and a produce of one record.
Parting = tuple[Callable[[int], bytes], bytes]


class _CountingSelector(selectors.DefaultSelector):
    turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.turns += 1
        return super().select(timeout)


def count_parked(config: BrokerConfig, prepare: Callable[[Raw], object]) -> tuple[Calls, float]:
    """Return the calls, and the turns of the loop, for one record that reaches a fetch that waits for it.

    `prepare` (a coroutine function) returns what asks for an offset of an empty partition, and a frame that adds a
    record. The calls are those on uvloop, on which a broker runs; the turns can be counted on asyncio's loop only.
    """

    async def run(calls: Calls, selector: _CountingSelector) -> float:
        async with Broker(config) as broker:
            async with await Raw.connect(broker.address) as raw:
                fetch, produce = await prepare(raw)  # type: ignore[misc]
                end = broker.topics.partitions()[0].high_watermark
            host, _, port = broker.address.rpartition(":")
            place = host, int(port)
            with (
                socket.create_connection(place, timeout=_WAIT_S) as consumer,
                socket.create_connection(place, timeout=_WAIT_S) as producer,
            ):

                def pass_on(rounds: range) -> None:
                    for number in rounds:
                        consumer.sendall(fetch(end + number))
                        _wait_until_parked(broker)
                        producer.sendall(produce)
                        _receive(producer)
                        _receive(consumer)

                await asyncio.to_thread(pass_on, range(2))
                before = selector.turns
                with _noting(calls):
                    await asyncio.to_thread(pass_on, range(2, 2 + BURST))
                return (selector.turns - before) / BURST

    calls, selector = Calls(BURST), _CountingSelector()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(calls, selector))
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        return calls, runner.run(run(Calls(BURST), selector))


def _wait_until_parked(broker: Broker) -> None:
    deadline_s = time.monotonic() + _WAIT_S
    while not len(broker.services.purgatory):
        assert time.monotonic() < deadline_s, "the fetch does not wait"
        time.sleep(0)
