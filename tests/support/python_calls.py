"""Counts the calls of Python functions that the broker makes for one request: a cost that no busy machine changes.

The broker runs on a loop in this thread. A client in another thread sends requests in bursts, so that what is paid once
a burst (a read, a write, a turn of the loop) counts as it does under load. Functions written in C are not counted.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import uvloop
from odradek.broker import Broker, BrokerConfig
from odradek.tests.support.raw import Raw

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
                sys.setprofile(calls.note)
                try:
                    await asyncio.to_thread(_ask, client, frame, BURSTS)
                finally:
                    sys.setprofile(None)
                return calls

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


def _ask(client: socket.socket, request: bytes, bursts: int) -> None:
    """Send bursts, each after the responses to the one before."""
    responses = client.makefile("rb")
    for _ in range(bursts):
        client.sendall(request * BURST)
        for _ in range(BURST):
            size = int.from_bytes(responses.read(4))
            assert size and len(responses.read(size)) == size, "the broker closed the connection"
