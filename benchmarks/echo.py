"""The floor of every row with one request in flight: an echo, which waits for the same wakes and does nothing else.

    python -m benchmarks --only echo    the median time until a client has its request back
    python -m benchmarks.echo           serve the echo, and print its address

A client and a broker that wait for each other sleep in turn, so each request wakes a processor twice. No broker on
uvloop can answer sooner than this.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
from pathlib import Path
from typing import cast

import uvloop

from .brokers import Broker
from .scenarios import load


class Echo(asyncio.Protocol):
    """Sends back what it receives."""

    _transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


async def serve() -> None:
    """Serve on a free port until the process is killed."""
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"{host}:{port}", flush=True)
    await server.serve_forever()


class EchoProcess(Broker):
    """An echo in the place of a broker."""

    name = "echo"

    def start(self) -> float:
        self._process = subprocess.Popen([sys.executable, "-m", "benchmarks.echo"], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline().rpartition(":")[2])
        return 0.0


def measure(folder: Path, rounds: int) -> float:
    """Return the median time of an echo in us, of so many rounds."""
    with EchoProcess(folder) as echo:
        return statistics.median(load("echo", 1, "p50_us")(echo) for _ in range(rounds))


if __name__ == "__main__":
    uvloop.run(serve())
