"""The client beside aiokafka and confluent-kafka: CPU-microseconds of each per record, against the same broker.

    make bench ARGS="--only clients"

Each way runs in a process of its own, in turn, and the best of the rounds counts, because whatever disturbs only adds
CPU time. Our ways run by the compiled kernel, without which nothing is promised but the same results. All asyncio
clients run on uvloop. Produced: keys of 8 bytes (10,000 different ones), values of 100 bytes, six partitions, acks=all,
no compression. confluent-kafka's time includes its threads.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from odradek.kernel import door

from . import report
from .brokers import Odradek

CONSUMED = 500_000
PRODUCED = 200_000
KEYS = [b"%08d" % number for number in range(10_000)]
VALUE = b"x" * 100
PARTITIONS = 6
PRODUCED_TOPIC = "producing"
IN_FLIGHT = 5_000
# So many sends, one after another, are timed for the median.
_ONE_BY_ONE = 2_000
CONSUMING = (
    "getmany",
    "async for",
    "batches: values",
    "batches: arrow",
    "read_topic",
    "aiokafka getmany",
    "aiokafka async for",
    "confluent consume",
)
CONSUMED_TOPIC = "consuming"


class Bar(NamedTuple):
    """A way of ours, what it is compared with, and how many times as cheap it should be."""

    ours: str
    theirs: str
    goal: float


BARS = (
    Bar("getmany", "aiokafka getmany", 3),
    Bar("async for", "aiokafka async for", 5),
    Bar("send", "aiokafka send", 2),
    Bar("send_many", "confluent produce", 1.5),
    Bar("batches: values", "confluent consume", 8),
    Bar("batches: arrow", "confluent consume", 8),
    Bar("read_topic", "confluent consume", 8),
    # At most 1.5 times the time of theirs.
    Bar("one send", "confluent one produce", 1 / 1.5),
)


def measure(folder: Path, rounds: int) -> str:
    """Return the table: a row for each bar."""
    best: dict[str, float] = {}
    with Odradek(folder) as broker:
        _run(["--fill", "--address", broker.address])
        for _ in range(rounds):
            for way in (*(bar.ours for bar in BARS), *sorted({bar.theirs for bar in BARS})):
                us = float(_run(["--way", way, "--address", broker.address]))
                best[way] = min(us, best.get(way, us))
                print(f"{way}  {us:.3f} us", file=sys.stderr)
    return f"Ours by {door.record_code()}.\n\n{table(best)}"


def table(best: dict[str, float]) -> str:
    """Return the rows in Markdown."""
    rows: list[list[str]] = []
    for bar in BARS:
        ours, theirs = best[bar.ours], best[bar.theirs]
        rows.append([bar.ours, f"{ours:,.3f}", bar.theirs, f"{theirs:,.3f}", f"{theirs / ours:.2f}", f"{bar.goal:.2g}"])
    note = f"The best of all rounds, of {CONSUMED:,} records consumed or {PRODUCED:,} produced, of 100 bytes. "
    note += "`one send` is the median time until a send at default options is acknowledged, in microseconds.\n"
    head = ["client", "us of CPU a record", "beside", "theirs", "times as cheap", "goal"]
    return f"## Clients\n\n{note}\n{report.table(head, rows)}"


def _run(arguments: list[str]) -> str:
    command = [sys.executable, "-m", "benchmarks.clients", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


async def _fill(address: str) -> None:
    from odradek.client import Admin, NewTopic, Producer

    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topics([NewTopic(PRODUCED_TOPIC, PARTITIONS), NewTopic(CONSUMED_TOPIC, 1)])
        await producer.send_many(CONSUMED_TOPIC, ((None, VALUE) for _ in range(CONSUMED)))


async def _measure_one(way: str, address: str) -> float:
    """Return the microseconds of one way: of CPU a record, or of time where it sends one by one."""
    if way in CONSUMING:
        return await _consume(way, address, CONSUMED) / CONSUMED * 1e6
    seconds = await PRODUCING[way](address, PRODUCED)
    return seconds * 1e6 if "one" in way.split() else seconds / PRODUCED * 1e6


# -- Ways to produce


# Sends so many records by a producer of asyncio, ours or aiokafka's.
Send = Callable[[Any, int], Awaitable[object]]


async def _send(producer: Any, records: int) -> None:
    sent: list[asyncio.Future[object]] = []
    for number in range(records):
        sent.append(await producer.send(PRODUCED_TOPIC, VALUE, KEYS[number % len(KEYS)]))
        if len(sent) == IN_FLIGHT:
            await asyncio.gather(*sent)
            sent.clear()
    await asyncio.gather(*sent)


async def _timed(producer: Any, send: Send, records: int) -> float:
    async with producer:
        await producer.send_and_wait(PRODUCED_TOPIC, VALUE)
        before = time.process_time()
        await send(producer, records)
        return time.process_time() - before


def _our_producer(send: Send) -> Callable[[str, int], Awaitable[float]]:
    from odradek.client import Producer

    return lambda address, records: _timed(Producer(address), send, records)


async def _aiokafka_producer(address: str, records: int) -> float:
    import aiokafka

    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=address, acks="all", enable_idempotence=True)
    return await _timed(producer, _send, records)


async def _confluent_producer(address: str, records: int) -> float:
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0})
    producer.produce(PRODUCED_TOPIC, VALUE)
    producer.flush()
    before = time.process_time()
    for number in range(records):
        while True:
            try:
                producer.produce(PRODUCED_TOPIC, VALUE, KEYS[number % len(KEYS)])
                break
            except BufferError:
                producer.poll(0.01)
        if not number % 1000:
            producer.poll(0)
    producer.flush()
    return time.process_time() - before


async def _send_one_by_one(address: str, records: int) -> float:
    """Return the median of the seconds from a send at default options to its acknowledgement."""
    from odradek.client import Producer

    took: list[float] = []
    async with Producer(address) as producer:
        for _ in range(_ONE_BY_ONE):
            before = time.perf_counter()
            await producer.send_and_wait(PRODUCED_TOPIC, VALUE)
            took.append(time.perf_counter() - before)
    return statistics.median(took)


async def _confluent_one_by_one(address: str, records: int) -> float:
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": address, "log_level": 0})
    took: list[float] = []
    for _ in range(_ONE_BY_ONE):
        before = time.perf_counter()
        producer.produce(PRODUCED_TOPIC, VALUE)
        producer.flush()
        took.append(time.perf_counter() - before)
    return statistics.median(took)


PRODUCING: dict[str, Callable[[str, int], Awaitable[float]]] = {
    "send": _our_producer(_send),
    "send_many": _our_producer(
        lambda producer, records: producer.send_many(
            PRODUCED_TOPIC, ((KEYS[at % len(KEYS)], VALUE) for at in range(records))
        )
    ),
    "aiokafka send": _aiokafka_producer,
    "confluent produce": _confluent_producer,
    "one send": _send_one_by_one,
    "confluent one produce": _confluent_one_by_one,
}


# -- Ways to consume


async def _our_consumer(way: str, address: str, count: int) -> None:
    """Read `count` records with our client."""
    from odradek.client import Consumer, read_topic

    if way == "read_topic":
        assert (await read_topic(CONSUMED_TOPIC, bootstrap_servers=address)).num_rows == count
        return
    seen = 0
    async with Consumer(CONSUMED_TOPIC, bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
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


async def _aiokafka_consumer(way: str, address: str, count: int) -> None:
    """Read `count` records with aiokafka."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import aiokafka
    consumer: Any = aiokafka.AIOKafkaConsumer(CONSUMED_TOPIC, bootstrap_servers=address, auto_offset_reset="earliest")
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


def _confluent_consumer(address: str, count: int) -> None:
    """Read `count` records with confluent-kafka."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "bench", "check.crcs": True})
    consumer.assign([confluent_kafka.TopicPartition(CONSUMED_TOPIC, 0, 0)])
    seen = 0
    while seen < count:
        seen += len([message.value() for message in consumer.consume(500, 1.0)])
    consumer.close()


async def _consume(way: str, address: str, count: int) -> float:
    """Return the CPU-seconds that reading takes, after a first reading for what is loaded and compiled once."""
    began = 0.0
    for _ in range(2):
        began = time.process_time()
        if way.startswith("confluent"):
            await asyncio.to_thread(_confluent_consumer, address, count)
        else:
            await (_aiokafka_consumer if way.startswith("aiokafka") else _our_consumer)(way, address, count)
    return time.process_time() - began


def main() -> None:
    """Run one way in this process and print its microseconds."""
    import uvloop

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way")
    parser.add_argument("--address", required=True)
    parser.add_argument("--fill", action="store_true", help="make the topics first")
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if arguments.fill:
            runner.run(_fill(arguments.address))
        else:
            print(runner.run(_measure_one(arguments.way, arguments.address)))


if __name__ == "__main__":
    main()
