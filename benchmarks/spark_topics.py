"""The topics that the Spark benchmarks read, and the CPU time of this process, its Python workers and the JVM."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from odradek.client import Admin, NewTopic, Producer, TopicPartition
from odradek.client.errors import ErrorCode, KafkaError
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record

IN_FLIGHT = 5
FIRST_TIMESTAMP_MS = int(time.time() * 1000)  # retention deletes what is old


def topic_name(arguments: argparse.Namespace) -> str:
    shape = (arguments.rows, arguments.value_bytes, arguments.partitions, arguments.batch_rows, arguments.codec)
    return "spark-read-" + "-".join(map(str, shape)) + ("-json" if arguments.json else "")


async def fill(arguments: argparse.Namespace) -> None:
    """Create the topic and produce to it, unless it is there and full."""
    topic = topic_name(arguments)
    async with Admin(arguments.bootstrap) as admin:
        try:
            await admin.create_topics([NewTopic(topic, arguments.partitions)])
        except KafkaError as error:
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                return
            raise
    async with Producer(arguments.bootstrap, acks=1, enable_idempotence=False) as producer:
        for number in range(arguments.partitions):
            sent: list[asyncio.Future[object]] = []
            for batch in batches(arguments):
                sent.append(await producer.send_batch(TopicPartition(topic, number), batch))  # type: ignore[arg-type]
                if len(sent) == IN_FLIGHT:
                    await asyncio.gather(*sent)
                    sent.clear()
            await asyncio.gather(*sent)


def batches(arguments: argparse.Namespace) -> Iterator[bytes]:
    """Yield the batches of one partition. They repeat after a while; their offsets do not."""
    rows, size = arguments.rows // arguments.partitions, arguments.batch_rows
    made = batch_of(arguments, size)
    for _ in range(rows // size):
        yield made
    if rows % size:
        yield batch_of(arguments, rows % size)


def batch_of(arguments: argparse.Namespace, size: int) -> bytes:
    value = bytes(32 + i % 95 for i in range(arguments.value_bytes))
    records = [Record(-1, FIRST_TIMESTAMP_MS + i, b"%08d" % i, value_of(arguments, value, i)) for i in range(size)]
    return encode_batch(records, compression=Compression[arguments.codec.upper()])


def value_of(arguments: argparse.Namespace, value: bytes, number: int) -> bytes:
    """Return the value of a record, which differs from its neighbours'."""
    if not arguments.json:
        return value[number % 90 :] + value[: number % 90]
    return b'{"id":%d,"name":"%s","at":%d.5}' % (number, b"n" * max(arguments.value_bytes - 36, 1), number)


def cpu_seconds() -> dict[str, float]:
    """Return the CPU seconds of this process and its children, by kind, so that other work does not count. Linux."""
    totals = {"Python": 0.0, "JVM": 0.0}
    for _, kind, seconds in descendants():
        totals[kind] += seconds
    return totals


def descendants() -> Iterator[tuple[int, str, float]]:
    """Yield the number, the kind and the CPU seconds of this process and of each below it. Linux."""
    children: dict[int, list[int]] = {}
    spent: dict[int, tuple[str, float]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            head, _, tail = entry.read_text().rpartition(")")
            fields = tail.split()
            number, _, name = head.partition(" (")
            children.setdefault(int(fields[1]), []).append(int(number))
            ticks = int(fields[11]) + int(fields[12])
            spent[int(number)] = ("JVM" if name == "java" else "Python", ticks / os.sysconf("SC_CLK_TCK"))
    waiting = [os.getpid()]
    while waiting:
        number = waiting.pop()
        waiting += children.get(number, [])
        yield number, *spent.get(number, ("Python", 0.0))
