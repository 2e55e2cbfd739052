"""Measure producers beside each other: CPU-microseconds of the client per record, against the same broker.

    python -m benchmarks.producing
    python -m benchmarks.producing --records 50000 --rounds 1

A row is one way to send: our `send`, `send_many`, `send_values`, aiokafka's `send`, confluent-kafka's `produce`. Each
runs in a process of its own against one broker, with keys of 8 bytes (10,000 different ones), values of 100 bytes, six
partitions, acks=all and no compression. Starting up does not count. The figure is the best of the rounds, in user and
system time; confluent-kafka's includes its threads.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from .brokers import Odradek

KEYS = [b"%08d" % number for number in range(10_000)]
VALUE = b"x" * 100
PARTITIONS = 6
TOPIC = "producing"
IN_FLIGHT = 5_000


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        print(asyncio.run(WAYS[arguments.way](arguments.address, arguments.records)))
        return
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder:
        broker = Odradek(Path(folder))
        broker.start()
        try:
            asyncio.run(_create(broker.address))
            found = {way: _measure(way, broker.address, arguments.records, arguments.rounds) for way in WAYS}
        finally:
            broker.stop()
    print(report(found))


async def _create(address: str) -> None:
    from odradek.client import Admin, NewTopic

    async with Admin(address) as admin:
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS)])


def _measure(way: str, address: str, records: int, rounds: int) -> float:
    """Return microseconds a record, the best of the rounds."""
    command = [sys.executable, "-m", "benchmarks.producing", "--way", way]
    command += ["--address", address, "--records", str(records)]
    seconds = [float(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(rounds)]
    return min(seconds) * 1e6 / records


def report(found: dict[str, float]) -> str:
    """Return the rows, each beside what it is compared with."""
    lines = [f"{way:22} {microseconds:7.2f} us of CPU a record" for way, microseconds in found.items()]
    one, many = found["aiokafka send"] / found["send"], found["confluent produce"] / found["send_many"]
    lines.append(f"send against aiokafka's: {one:.2f} times as fast")
    lines.append(f"send_many against confluent-kafka's produce: {many:.2f} times as fast")
    return "\n".join(lines)


def cpu_s() -> float:
    """Return the CPU-seconds of this process, in user and system mode."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _send(address: str, records: int) -> float:
    from odradek.client import Producer

    async with Producer(address) as producer:
        await producer.send_and_wait(TOPIC, VALUE)
        before = cpu_s()
        sent: list[asyncio.Future[object]] = []
        for number in range(records):
            sent.append(await producer.send(TOPIC, VALUE, KEYS[number % len(KEYS)]))  # type: ignore[arg-type]
            if len(sent) == IN_FLIGHT:
                await asyncio.gather(*sent)
                sent.clear()
        await asyncio.gather(*sent)
        return cpu_s() - before


async def _send_many(address: str, records: int) -> float:
    from odradek.client import Producer

    async with Producer(address) as producer:
        await producer.send_and_wait(TOPIC, VALUE)
        before = cpu_s()
        await producer.send_many(TOPIC, ((KEYS[number % len(KEYS)], VALUE) for number in range(records)))
        return cpu_s() - before


async def _send_values(address: str, records: int) -> float:
    from odradek.client import Producer

    async with Producer(address) as producer:
        await producer.send_and_wait(TOPIC, VALUE)
        before = cpu_s()
        await producer.send_values(TOPIC, [VALUE] * records)
        return cpu_s() - before


async def _aiokafka(address: str, records: int) -> float:
    import aiokafka

    async with aiokafka.AIOKafkaProducer(bootstrap_servers=address, acks="all", enable_idempotence=True) as producer:
        await producer.send_and_wait(TOPIC, VALUE)
        before = cpu_s()
        sent: list[asyncio.Future[object]] = []
        for number in range(records):
            sent.append(await producer.send(TOPIC, VALUE, KEYS[number % len(KEYS)]))
            if len(sent) == IN_FLIGHT:
                await asyncio.gather(*sent)
                sent.clear()
        await asyncio.gather(*sent)
        return cpu_s() - before


async def _confluent(address: str, records: int) -> float:
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0})
    producer.produce(TOPIC, VALUE)
    producer.flush()
    before = cpu_s()
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, VALUE, KEYS[number % len(KEYS)])
                break
            except BufferError:
                producer.poll(0.01)
        if not number % 1000:
            producer.poll(0)
    producer.flush()
    return cpu_s() - before


WAYS: dict[str, Callable[[str, int], Awaitable[float]]] = {
    "send": _send,
    "send_many": _send_many,
    "send_values": _send_values,
    "aiokafka send": _aiokafka,
    "confluent produce": _confluent,
}

if __name__ == "__main__":
    main()
