"""Many TLS handshakes at once, and what a plain client notices of them.

python -m benchmarks.handshakes HOST:PORT AUTHORITY     the handshakes alone; prints when each storm began and ended
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.metadata import MetadataRequest

from .brokers import Broker
from .load import Wire, request

AT_ONCE = 200
STORMS = 20
# Between two storms, in which the figures of a quiet broker are taken.
PAUSE_S = 0.3
# Between two requests of the plain client.
REQUEST_PAUSE_S = 0.001


class Noticed(NamedTuple):
    """What a plain client waited for its responses, and what the handshakes cost."""

    p99_ms: float
    worst_ms: float
    quiet_p99_ms: float
    storm_s: float
    # The broker's CPU time for a handshake, in microseconds.
    cpu_us: float


def measure(broker: Broker, authority: Path) -> Noticed:
    """Have storms of handshakes beside a client that sends one small request after the other without TLS."""
    wire = Wire(broker.address)
    data = request(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
    command = [sys.executable, "-m", "benchmarks.handshakes", broker.tls_address, str(authority)]
    # When each was sent, and how long it took.
    asked: list[tuple[float, float]] = []
    before_s = broker.cpu_s()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as storming:
        while storming.poll() is None:
            sent = time.perf_counter()
            wire.send(data)
            wire.receive()
            asked.append((sent, time.perf_counter() - sent))
            time.sleep(REQUEST_PAUSE_S)
        assert storming.stdout is not None
        storms: list[list[float]] = json.loads(storming.stdout.read())
    cpu_s = broker.cpu_s() - before_s - _cost_s(broker, wire, data, len(asked))
    return _noticed(asked, storms, cpu_s)


def _cost_s(broker: Broker, wire: Wire, data: bytes, count: int) -> float:
    """Return the broker's CPU time for so many requests of the plain client."""
    tried = min(count, 1000)
    before_s = broker.cpu_s()
    for _ in range(tried):
        wire.send(data)
        wire.receive()
        time.sleep(REQUEST_PAUSE_S)
    return (broker.cpu_s() - before_s) / tried * count


def _noticed(asked: list[tuple[float, float]], storms: list[list[float]], cpu_s: float) -> Noticed:
    beside = sorted(took for sent, took in asked if any(began <= sent <= ended for began, ended in storms))
    quiet = sorted(took for sent, took in asked if all(sent + took < began or ended < sent for began, ended in storms))
    lengths = sorted(ended - began for began, ended in storms)
    return Noticed(
        beside[len(beside) * 99 // 100] * 1000,
        beside[-1] * 1000,
        quiet[len(quiet) * 99 // 100] * 1000,
        lengths[len(lengths) // 2],
        cpu_s / len(storms) / AT_ONCE * 1e6,
    )


# In a process of its own.


async def _storm(host: str, port: int, context: ssl.SSLContext) -> None:
    async def shake_hands() -> None:
        _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
        writer.transport.abort()

    await asyncio.gather(*(shake_hands() for _ in range(AT_ONCE)))


async def _storms(address: str, authority: str) -> list[tuple[float, float]]:
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context(cafile=authority)
    times: list[tuple[float, float]] = []
    for _ in range(STORMS):
        await asyncio.sleep(PAUSE_S)
        began = time.perf_counter()
        await _storm(host, int(port), context)
        times.append((began, time.perf_counter()))
    await asyncio.sleep(PAUSE_S)
    return times


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_storms(sys.argv[1], sys.argv[2]))))
