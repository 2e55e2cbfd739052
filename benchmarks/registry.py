"""The schema registry: how long it takes to read 10,000 subjects at a start, and how many look-ups it answers a second.

    python -m odradek.benchmarks.registry

The client runs in a process of its own with raw requests over 8 connections; goals: 2 s and 2,000 a second.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time

from odradek.broker import Broker, BrokerConfig
from odradek.client import Producer
from odradek.registry import LogOptions, Registry, RegistryConfig
from odradek.registry.records import Content, Version, schema_record

SUBJECTS, LOOK_UPS, CONNECTIONS = 10_000, 20_000, 8


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(folder,))
        with Broker(config) as broker:
            options = RegistryConfig(LogOptions(broker.address), port=0)
            async with Registry(options):
                await _fill(broker.address)
            began = time.perf_counter()
            async with Registry(options) as registry:
                print(f"start with {SUBJECTS} subjects: {time.perf_counter() - began:.2f} s")
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    taken_s = await asyncio.to_thread(pool.apply, look_up, (registry.address,))
                print(f"look-ups by id: {LOOK_UPS / taken_s:,.0f} a second")


async def _fill(address: str) -> None:
    def text(number: int) -> str:
        return f'{{"type":"record","name":"R{number}","fields":[{{"name":"a","type":"int"}}]}}'

    versions = (Version(f"s{number}", 1, number, Content("AVRO", text(number))) for number in range(1, SUBJECTS + 1))
    async with Producer(address) as producer:
        await producer.send_many("_schemas", map(schema_record, versions), partition=0)


def look_up(address: str) -> float:
    """Look ids up over several connections, one request in flight on each. Return the seconds it took."""

    async def one(count: int) -> None:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for number in range(count):
            writer.write(b"GET /schemas/ids/%d HTTP/1.1\r\nhost: x\r\n\r\n" % (number % SUBJECTS + 1))
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
        writer.close()

    async def all_of_them() -> None:
        await asyncio.gather(*(one(LOOK_UPS // CONNECTIONS) for _ in range(CONNECTIONS)))

    began = time.perf_counter()
    asyncio.run(all_of_them())
    return time.perf_counter() - began


if __name__ == "__main__":
    asyncio.run(main())
