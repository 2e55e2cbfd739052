"""Measure how fast Spark reads a topic through the source: rows a second of a query, on one machine with the broker.

    python benchmarks/spark_read.py --bootstrap 127.0.0.1:9092 [--rows 2000000] [--value-bytes 100] [--partitions 2]

Fills a topic through the raw protocol, unless there is one of that size. Then it reads the topic, first all columns and
then the value alone, and prints median and best of several runs after a warm one. "fetch and decode" is the work of the
tasks in one process without Spark. "Spark" writes the DataFrame to `noop`, which drops every row.

2026-11-21, two cores of an AMD EPYC shared with the broker and with other work (load 5 to 8), so the CPU seconds are
the better figure; M rows/s, best in brackets:

    rows of 8 B key and value           all columns     value only      CPU-s per M rows, all columns
    fetch and decode, 10 M of 100 B     10.0 (11.3)     11.2 (11.5)     0.06
    fetch and decode, 1 M of 1000 B     1.0 (1.4)       1.5 (1.6)       0.56
    Spark, local[2], 10 M of 100 B      1.4 (1.9)       1.8 (2.3)       0.16 Python + 0.40 JVM

A source that only repeats one ready-made Arrow batch costs Spark 0.06 Python + 0.37 JVM. Fetching, checking and
decoding add a quarter to the cost of any Python source; the rest is the JVM's way from Arrow to rows.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path

from odradek.client.arrow.brokers import Brokers
from odradek.client.arrow.connection import BlockingConnection
from odradek.client.arrow.fetch import OffsetRange
from odradek.client.record import LATEST, TopicPartition
from odradek.client.spark.columns import TYPES, Column
from odradek.client.spark.options import SourceOptions, parse_options
from odradek.client.spark.plan import plan
from odradek.client.spark.source import read_range
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record

IN_FLIGHT = 5
FIRST_TIMESTAMP_MS = int(time.time() * 1000)  # retention deletes what is old


def main() -> None:
    """Fill if need be, read, print."""
    arguments = parse_arguments()
    options = source_options(arguments)
    fill(arguments, options)
    rows = arguments.rows // arguments.partitions * arguments.partitions
    machine = platform.processor() or platform.machine()
    print(f"{date.today()}, {machine}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    shape = f"{arguments.value_bytes} B + 8 B key, {arguments.partitions} partitions, {arguments.codec}"
    print(f"{rows:,} rows of {shape}")
    if not arguments.no_fetch:
        for columns in (tuple(TYPES)[:7], ("value",)):
            report("fetch and decode", columns, rows, arguments.runs, lambda: fetch_all(options, columns))  # noqa: B023 - called at once
    if not arguments.no_spark:
        spark_runs(arguments, rows)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--batch-rows", type=int, default=1000)
    parser.add_argument("--codec", choices=[codec.name.lower() for codec in Compression], default="none")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--unix-socket", action="store_true", help="spark.python.unix.domain.socket.enabled")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the source")
    parser.add_argument("--json", action="store_true", help="values are JSON objects of about --value-bytes")
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--no-fetch", action="store_true")
    return parser.parse_args()


def topic_name(arguments: argparse.Namespace) -> str:
    shape = (arguments.rows, arguments.value_bytes, arguments.partitions, arguments.batch_rows, arguments.codec)
    return "spark-read-" + "-".join(map(str, shape)) + ("-json" if arguments.json else "")


def source_texts(arguments: argparse.Namespace) -> dict[str, str]:
    texts = dict(each.split("=", 1) for each in arguments.option)
    return {"kafka.bootstrap.servers": arguments.bootstrap, "subscribe": topic_name(arguments)} | texts


def source_options(arguments: argparse.Namespace) -> SourceOptions:
    return parse_options(source_texts(arguments))


# -- filling --


def fill(arguments: argparse.Namespace, options: SourceOptions) -> None:
    """Create the topic and produce to it, unless it is there and full."""
    brokers, topic = Brokers(options.client), topic_name(arguments)
    partitions = [TopicPartition(topic, number) for number in range(arguments.partitions)]
    with BlockingConnection(options.client.bootstrap[0], options.client) as connection:
        wanted = CreatableTopic(name=topic, num_partitions=arguments.partitions, replication_factor=1)
        answer = connection.request(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), CreateTopicsResponse)
        code = ErrorCode.of(answer.topics[0].error_code)
        if code is ErrorCode.TOPIC_ALREADY_EXISTS:
            return
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
    for partition in partitions:
        began = brokers.retry(lambda: brokers.offsets([partition], LATEST))  # noqa: B023 - called at once
        assert began[partition] == 0
        topic_id = brokers.view([topic]).topic_id(topic)
        with BlockingConnection(brokers.leader_of(partition, topic_id), options.client) as connection:
            produce(connection, partition, topic_id, batches(arguments))


def batches(arguments: argparse.Namespace) -> Iterator[bytes]:
    """Yield the batches of one partition. They repeat after a while; their offsets do not."""
    codec = Compression[arguments.codec.upper()]
    rows, size = arguments.rows // arguments.partitions, arguments.batch_rows
    value = bytes(32 + i % 95 for i in range(arguments.value_bytes))
    made = encode_batch(
        [Record(-1, FIRST_TIMESTAMP_MS + i, b"%08d" % i, value_of(arguments, value, i)) for i in range(size)],
        compression=codec,
    )
    for _ in range(rows // size):
        yield made
    if rows % size:
        yield encode_batch(
            [Record(-1, FIRST_TIMESTAMP_MS, b"%08d" % i, value_of(arguments, value, i)) for i in range(rows % size)],
            compression=codec,
        )


def value_of(arguments: argparse.Namespace, value: bytes, number: int) -> bytes:
    """Return the value of a record, which differs from its neighbours'."""
    if not arguments.json:
        return value[number % 90 :] + value[: number % 90]
    return b'{"id":%d,"name":"%s","at":%d.5}' % (number, b"n" * max(arguments.value_bytes - 36, 1), number)


def produce(connection: BlockingConnection, to: TopicPartition, topic_id: bytes, data: Iterator[bytes]) -> None:
    """Send the batches, a few requests in flight."""
    under_way = 0
    for batch in data:
        partition = PartitionProduceData(index=to.partition, records=memoryview(batch))
        topic = TopicProduceData(name=to.topic, topic_id=topic_id, partition_data=[partition])
        connection.send(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic]), ProduceResponse)
        under_way += 1
        if under_way == IN_FLIGHT:
            check(connection.receive(ProduceResponse))
            under_way -= 1
    for _ in range(under_way):
        check(connection.receive(ProduceResponse))


def check(answer: ProduceResponse) -> None:
    code = ErrorCode.of(answer.responses[0].partition_responses[0].error_code)
    if code is not ErrorCode.NONE:
        raise KafkaError(code)


# -- reading --


def report(what: str, columns: tuple[str, ...], rows: int, runs: int, run: Callable[[], int]) -> None:
    """Measure `run`, which returns its number of rows, after a warm run."""
    seconds: list[float] = []
    spent: dict[str, float] = {}
    for number in range(runs + 1):
        if number == 1:
            spent = cpu_seconds()
        began = time.perf_counter()
        seen = run()
        if seen != rows:
            sys.exit(f"{what}: {seen} rows instead of {rows}")
        if number:
            seconds.append(time.perf_counter() - began)
    best, median = rows / min(seconds) / 1e6, rows / statistics.median(seconds) / 1e6
    print(f"{what:18} {'value only' if columns == ('value',) else f'{len(columns)} columns':10}", end=" ")
    used = " + ".join(f"{(cpu_seconds()[name] - spent[name]) / runs / rows * 1e6:.3f} {name}" for name in spent)
    print(f"{median:6.2f} M rows/s (best {best:.2f}); CPU-s per M rows: {used}", flush=True)


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


def fetch_all(options: SourceOptions, columns: tuple[str, ...]) -> int:
    """Fetch and decode in this process, one partition after the other, with no Spark."""
    wanted = [Column(name) for name in columns]
    ranges: list[OffsetRange] = plan(options, Brokers(options.client))
    return sum(batch.num_rows for found in ranges for batch in read_range(found, options, wanted))


def spark_runs(arguments: argparse.Namespace, rows: int) -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{arguments.cores}]").config("spark.ui.enabled", "false")
    builder = (
        builder.config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.log.level", "ERROR")
    )
    builder = builder.config("spark.python.unix.domain.socket.enabled", str(arguments.unix_socket).lower())
    spark = builder.getOrCreate()

    def run(columns: tuple[str, ...]) -> int:
        schema = ", ".join(f"{name} {TYPES[name]}" for name in columns)
        frame = spark.read.format("odradek").schema(schema).options(**source_texts(arguments)).load()
        if columns not in counted:
            counted[columns] = frame.count()
        frame.write.format("noop").mode("overwrite").save()  # takes every row with all its columns and drops it
        return counted[columns]

    counted: dict[tuple[str, ...], int] = {}
    for columns in (tuple(TYPES)[:7], ("value",)):
        report("Spark", columns, rows, arguments.runs, lambda: run(columns))  # noqa: B023 - called at once
    spark.stop()


if __name__ == "__main__":
    main()
