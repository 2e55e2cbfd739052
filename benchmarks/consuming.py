"""CPU-seconds of a client per record: our ways to consume beside aiokafka's and confluent-kafka's.

    python -m odradek.benchmarks.consuming [RECORDS]

One topic of 100 B records in one partition, one broker, one process per way, its CPU time by `time.process_time`. Only
the ratios are to be trusted: they are of one run on one machine.

Bars: `getmany` against aiokafka's 1.2, `async for` 3; `batches` and `read_topic` against confluent's `consume` 6.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

WAYS = (
    "getmany",
    "async for",
    "batches: values",
    "batches: arrow",
    "read_topic",
    "aiokafka getmany",
    "aiokafka async for",
    "confluent consume",
)
AGAINST = {
    "getmany": "aiokafka getmany",
    "async for": "aiokafka async for",
    "batches: values": "confluent consume",
    "batches: arrow": "confluent consume",
    "read_topic": "confluent consume",
}


async def ours(way: str, address: str, count: int) -> None:
    """Read `count` records with our client."""
    from odradek.client import Consumer, read_topic

    if way == "read_topic":
        assert (await read_topic("t", bootstrap_servers=address)).num_rows == count
        return
    seen = 0
    async with Consumer("t", bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        if way == "getmany":
            while seen < count:
                for some in (await consumer.getmany(timeout_ms=1000)).values():
                    seen += len(some)
        elif way == "async for":
            async for _ in consumer:
                seen += 1
                if seen == count:
                    break
        else:
            async for columns in consumer.batches():
                seen += len(columns.values) if way.endswith("values") else columns.to_arrow().num_rows
                if seen == count:
                    break


async def aiokafkas(way: str, address: str, count: int) -> None:
    """Read `count` records with aiokafka."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import aiokafka
    consumer: Any = aiokafka.AIOKafkaConsumer("t", bootstrap_servers=address, auto_offset_reset="earliest")
    await consumer.start()
    seen = 0
    try:
        if way.endswith("getmany"):
            while seen < count:
                for some in (await consumer.getmany(timeout_ms=1000, max_records=500)).values():
                    seen += len(some)
        else:
            async for _ in consumer:
                seen += 1
                if seen == count:
                    break
    finally:
        await consumer.stop()


def confluents(address: str, count: int) -> None:
    """Read `count` records with confluent-kafka."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "bench", "check.crcs": True})
    consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
    seen = 0
    while seen < count:
        seen += len([message.value() for message in consumer.consume(500, 1.0)])
    consumer.close()


def measure(way: str, address: str, count: int, result: Any) -> None:
    """Send the CPU-seconds that reading takes, after a first short reading for what is loaded and compiled once."""
    import uvloop

    def read() -> None:
        if way.startswith("confluent"):
            confluents(address, count)
            return
        call: Callable[[str, str, int], Awaitable[None]] = aiokafkas if way.startswith("aiokafka") else ours

        async def run() -> None:
            await call(way, address, count)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())

    read()
    began = time.process_time()
    read()
    result.send(time.process_time() - began)


async def fill(address: str, count: int) -> None:
    """Write the records."""
    from odradek.client import Admin, NewTopic, Producer

    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topics([NewTopic("t", 1)])
        await producer.send_many("t", ((None, b"x" * 100) for _ in range(count)))


def serve(folder: str, address: Any, stop: Any) -> None:
    """Run a broker until `stop` is set."""
    from odradek.broker import Broker, BrokerConfig

    async def run() -> None:
        config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(folder,))
        async with Broker(config) as broker:
            address.send(broker.address)
            await asyncio.to_thread(stop.wait)

    asyncio.run(run())


def main() -> None:
    """Print a row for each way."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    stop = spawn.Event()
    with tempfile.TemporaryDirectory() as folder:
        broker = spawn.Process(target=serve, args=(folder, there, stop))
        broker.start()
        try:
            address = here.recv()
            asyncio.run(fill(address, count))
            spent: dict[str, float] = {}
            for way in WAYS:
                process = spawn.Process(target=measure, args=(way, address, count, there))
                process.start()
                process.join()
                if process.exitcode:
                    sys.exit(f"{way} failed")
                spent[way] = here.recv()
        finally:
            stop.set()
            broker.join()
    for way in WAYS:
        ratio = f"{spent[AGAINST[way]] / spent[way]:6.2f} x {AGAINST[way]}" if way in AGAINST else ""
        print(f"{way:20} {spent[way] / count * 1e6:8.3f} us a record   {ratio}")


if __name__ == "__main__":
    main()
