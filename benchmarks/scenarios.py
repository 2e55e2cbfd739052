"""The scenarios: each takes a running broker and returns one figure. Clients are processes of their own."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from odradek.tests.support.clients.kafka_tools import config_command

from . import groups, transactions
from .brokers import Broker, Rate, of_broker
from .load import WARM_UP_S, in_own_process

KCAT = shutil.which("kcat")
JAVA = shutil.which("java")
# More than a codec looks back over.
DIFFERENT_LINES = 20_000


class Scenario(NamedTuple):
    """A figure with its unit. `goal` is the ratio to Kafka that it should reach.

    If less is better, `less` is set, and the ratio is turned round."""

    name: str
    unit: str
    measure: Callable[[Broker], float]
    goal: float | None = None
    less: bool = False
    needs: str | None = None
    # What its load warms in a broker when it runs uncounted before the measurement, the first time for
    # Broker.warm_up_s. Nothing for loads that would write gigabytes, nor for measurements of a start.
    warm: str = ""


@of_broker
def load(broker: Broker, name: str, in_flight: int, figure: str, seconds: float = 3.0, *, clean: bool = False) -> float:
    """Return the figure of one of the raw loads.

    `clean` writes everything to disk before: where some GB wait for it, the figure is that of the disk.
    """
    if clean:
        os.sync()
    options = "--in-flight", in_flight, "--seconds", seconds
    value = in_own_process("load", broker.address, name, *options)[figure]
    return Rate.of(value, value * (seconds + WARM_UP_S)) if figure.endswith("_per_s") else value


# librdkafka, by kcat: a file of lines to a topic and back.


def _lines(size: int, total_bytes: int) -> Path:
    """Return a file of lines of so many bytes, which is written once. Codecs make about half of its random digits."""
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"odradek-bench-lines-{size}-{total_bytes}"
    if not path.exists():
        lines = [random.Random(at).randbytes(size // 2).hex().ljust(size, "x") + "\n" for at in range(DIFFERENT_LINES)]
        path.write_text("".join(islice(cycle(lines), total_bytes // size)))
    return path


@of_broker
def kcat_produce(broker: Broker, size: int, total_bytes: int, codec: str = "none") -> float:
    """Return MB/s of librdkafka with acks=all, batches of 1 MB and 5 ms to gather them."""
    os.sync()  # as `load` does
    options = ["-X", "acks=all", "-X", "batch.size=1000000", "-X", "linger.ms=5", "-z", codec]
    file = str(_lines(size, total_bytes))
    return _kcat(broker, total_bytes, ["-P", "-t", _topic(f"kcat-{codec}", size), *options, "-l", file])


@of_broker
def kcat_consume(broker: Broker, size: int, total_bytes: int, codec: str = "none") -> float:
    """Return MB/s of librdkafka, unpacked, when it reads what `kcat_produce` wrote."""
    options = ["-o", "beginning", "-c", str(total_bytes // size), "-X", "fetch.message.max.bytes=4000000"]
    topic = ["-t", _topic(f"kcat-{codec}", size)]
    return _kcat(broker, total_bytes, ["-C", *topic, *options, "-X", "queued.min.messages=1000000"])


def _kcat(broker: Broker, total_bytes: int, arguments: list[str]) -> Rate:
    command = [KCAT or "kcat", "-q", "-b", broker.address, *arguments]
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return Rate.of(total_bytes / (time.perf_counter() - started) / 1e6, total_bytes / 1e6)


def _topic(kind: str, size: int) -> str:
    return f"{kind}-{size}"


# Java's own performance tools.


@of_broker
def java_produce(broker: Broker, size: int, records: int) -> float:
    """Return MB/s as ProducerPerformance prints them, with its defaults."""
    os.sync()  # as `load` does
    options = ["--record-size", str(size), "--throughput", "-1"]
    output = _performance("Producer", broker, size, records, options)
    per_s = float(output[-1].split("(")[1].split(" MB/sec")[0]) * 1.048576
    return Rate.of(per_s, records * size / 1e6)


@of_broker
def java_consume(broker: Broker, size: int, records: int) -> float:
    """Return MB/s as ConsumerPerformance prints them for what `java_produce` wrote."""
    output = _performance("Consumer", broker, size, records, ["--timeout", "30000"])
    header, values = [line.split(", ") for line in output[-2:]]
    row = dict(zip(header, values, strict=False))
    return Rate.of(float(row["fetch.MB.sec"]) * 1.048576, records * size / 1e6)


@of_broker
def java_share_consume(broker: Broker, size: int, records: int) -> float:
    """Return records/s as ShareConsumerPerformance prints them, for what `java_produce` wrote.

    It counts the begin of the group, too: the first assignment comes with the second heartbeat, some 5 s later.
    """
    address, group = ["--bootstrap-server", broker.address], f"share-{time.time_ns()}"
    configs = ["--alter", "--entity-type", "groups", "--entity-name", group]
    _java(config_command(), [*address, *configs, "--add-config", "share.auto.offset.reset=earliest"])
    output = _performance("ShareConsumer", broker, size, records, ["--timeout", "60000", "--group", group])
    return Rate.of(float(output[-1].split(", ")[4]), records)


def _performance(what: str, broker: Broker, size: int, records: int, options: list[str]) -> list[str]:
    """Return the lines that one of Java's tools prints of so many records."""
    arguments = ["--topic", _topic("java", size), "--num-records", str(records)]
    arguments += ["--bootstrap-server", broker.address, *options]
    return _java(f"org.apache.kafka.tools.{what}Performance", arguments).strip().splitlines()


def _java(main: str, arguments: list[str]) -> str:
    command = [JAVA or "java", "-Xmx512m", "-cp", f"{os.environ['KAFKA_LIB']}/*", main, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{main} failed: {done.stdout[-500:]} {done.stderr[-500:]}")
    return done.stdout


# Life of a broker.


def idle_memory(broker: Broker) -> float:
    time.sleep(3)
    return broker.memory_mb()


def idle_cpu(broker: Broker) -> float:
    """Return the percentage of one core over ten seconds without a connection."""
    before = broker.cpu_s()
    time.sleep(10)
    return (broker.cpu_s() - before) * 10


def connections(broker: Broker) -> float:
    """Return the seconds to open 2,000 connections one after the other, all kept open."""
    started = time.perf_counter()
    opened = [socket.create_connection(("127.0.0.1", broker.port), timeout=60) for _ in range(2000)]
    elapsed = time.perf_counter() - started
    for each in opened:
        each.close()
    return elapsed


SCENARIOS = (
    Scenario("memory 3 s after start", "MB", idle_memory, less=True),
    Scenario("CPU when idle", "% of a core", idle_cpu, less=True),
    Scenario(
        "one record a request, 64 in flight",
        "requests/s",
        load("produce-one", 64, "requests_per_s"),
        3.0,
        warm="produce",
    ),
    Scenario(
        "one record a request, 1 in flight: p50",
        "us",
        load("produce-one", 1, "p50_us"),
        1.25,
        less=True,
        warm="produce",
    ),
    Scenario(
        "one record a request, 1 in flight: p99", "us", load("produce-one", 1, "p99_us"), less=True, warm="produce"
    ),
    Scenario("batches of 1 MB, 5 in flight", "MB/s", load("produce-1mb", 5, "sent_mb_per_s", 1.0, clean=True), 3.0),
    Scenario(
        "fetch of 1 MB pieces, walking", "MB/s", load("fetch-walk", 2, "answered_mb_per_s"), 1.3, warm="large fetch"
    ),
    Scenario("fetch of the same 1 MB", "MB/s", load("fetch-1mb", 2, "answered_mb_per_s"), 1.1, warm="large fetch"),
    Scenario(
        "one record a fetch, 1 in flight", "requests/s", load("fetch-one", 1, "requests_per_s"), 1.2, warm="fetch"
    ),
    Scenario(
        "one record a fetch, 64 in flight", "requests/s", load("fetch-one", 64, "requests_per_s"), 1.5, warm="fetch"
    ),
    Scenario(
        "one record to a waiting fetch",
        "records/s",
        load("parked-fetch", 1, "requests_per_s"),
        1.2,
        warm="parked fetch",
    ),
    Scenario("Metadata, 1 in flight: p50", "us", load("metadata", 1, "p50_us"), 1.25, less=True, warm="metadata"),
    Scenario("Metadata, 64 in flight", "requests/s", load("metadata", 64, "requests_per_s"), 4.0, warm="metadata"),
    Scenario("Heartbeat of a member, 1 in flight", "requests/s", groups.load("heartbeat-1"), 2.5, warm="heartbeat"),
    Scenario("Heartbeat of a member, 64 in flight", "requests/s", groups.load("heartbeat-64"), 4.0, warm="heartbeat"),
    Scenario(
        "p99 of a Heartbeat beside 1 MB produce (below 5)", "ms", groups.load("heartbeat-beside-produce"), less=True
    ),
    Scenario("a member's whole life in a group", "groups/s", groups.load("cycle"), 4.0, warm="groups"),
    Scenario("10 members agree on 40 partitions", "ms", groups.load("agree"), less=True, warm="groups"),
    Scenario("1,000 idle groups", "MB", groups.idle_groups, less=True),
    Scenario("transactions of 10 records, 50 producers", "1/s", transactions.load(50), 1.0, warm="transactions"),
    Scenario("transactions of 10 records, 1 producer", "1/s", transactions.load(1), 1.0, warm="transactions"),
    Scenario("librdkafka produces 1 KB", "MB/s", kcat_produce(1000, 1_000_000_000), 1.4, needs="kcat"),
    Scenario("librdkafka consumes 1 KB", "MB/s", kcat_consume(1000, 1_000_000_000), 1.1, needs="kcat"),
    *(
        scenario
        for codec in ("lz4", "zstd")
        for scenario in (
            Scenario(
                f"librdkafka produces 1 KB, {codec}", "MB/s", kcat_produce(1000, 500_000_000, codec), 1.4, needs="kcat"
            ),
            Scenario(
                f"librdkafka consumes 1 KB, {codec}", "MB/s", kcat_consume(1000, 500_000_000, codec), 1.1, needs="kcat"
            ),
        )
    ),
    Scenario("librdkafka produces 100 B", "MB/s", kcat_produce(100, 200_000_000), 1.4, needs="kcat"),
    Scenario("librdkafka consumes 100 B", "MB/s", kcat_consume(100, 200_000_000), 1.1, needs="kcat"),
    Scenario("Java produces 1 KB", "MB/s", java_produce(1000, 500_000), 1.4, needs="KAFKA_LIB"),
    Scenario("Java consumes 1 KB", "MB/s", java_consume(1000, 500_000), 1.1, needs="KAFKA_LIB"),
    Scenario("Java produces 100 B", "MB/s", java_produce(100, 3_000_000), 1.4, needs="KAFKA_LIB"),
    Scenario("Java consumes 100 B", "MB/s", java_consume(100, 3_000_000), 1.1, needs="KAFKA_LIB"),
    Scenario(
        "Java's share group consumes 100 B", "records/s", java_share_consume(100, 1_000_000), 1, needs="KAFKA_LIB"
    ),
    Scenario("2,000 connections opened", "s", connections, less=True),
    Scenario("memory after all of the above", "MB", Broker.memory_mb, less=True),
    # Last, because it restarts the broker, and Java then forgets its compiled code.
    Scenario("1 million offset commits read at start", "s", groups.replay, less=True),
)
