"""`odradek perf`: how fast a cluster takes and gives records from here, and how long a record is on its way.

Memory is bounded: latencies go into a histogram, and few chunks of records are in flight. On a terminal, a line on
standard error shows the last second. The result is a row on standard output.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from .connection_options import Decorator, connection_options, with_options
from .errors import CliError
from .names import TOPIC
from .notices import login_notice
from .offset_range import known_ones
from .output import print_rows, row_options
from .session import client_options, open_admin, run
from .values import OneOf, WholeNumber

if TYPE_CHECKING:
    from ..client import Consumer, Producer

_LATENCIES = ("p50", "p99", "p99_9", "max")
_SHOWN_EVERY_S = 1.0
_POLL_MS = 250
# Chunks of records that are on their way at a time.
_IN_FLIGHT = 8
_CHUNK_BYTES = 128 << 10
# A paced producer sends so often.
_PACES_PER_S = 50
_END_TO_END_WITHIN_S = 30.0


# Values are told apart by so many bits, which is to 3 %.
_BITS = 6


class LatencyHistogram:
    """Counts values in nanoseconds. A percentile is rounded up, so it is never too low."""

    def __init__(self) -> None:
        self.count = 0
        self.max_ns = 0
        # By their upper ends. Invariant: at most some 2,000 keys, as a value has 64 bits.
        self._buckets = Counter[int]()

    def add(self, value_ns: int, count: int = 1) -> None:
        """Count a value `count` times."""
        self._buckets[_rounded_up(value_ns)] += count
        self.count += count
        self.max_ns = max(self.max_ns, value_ns)

    def percentile_ms(self, percent: float) -> float | None:
        """Return the value in ms that `percent` of the values do not exceed, None if there are none."""
        if not self.count:
            return None
        wanted, seen = self.count * percent / 100, 0
        for value_ns, count in sorted(self._buckets.items()):
            seen += count
            if seen >= wanted:
                return min(value_ns, self.max_ns) / 1e6
        return self.max_ns / 1e6


def _rounded_up(value_ns: int) -> int:
    shift = max(value_ns.bit_length() - _BITS, 0)
    return (((value_ns >> shift) + 1) << shift) - 1


@click.group(short_help="Measure how fast records go in and out, and their latency.")
def command() -> None:
    """Measure how fast this machine produces and consumes, and how long a record is on its way.

    Times of records are in milliseconds: the median, the 99th and 99.9th percentile and the longest. CPU is that of the
    client.

    \b
    Examples:
      odradek perf produce flights --records 1000000 --size 100
      odradek perf consume flights
      odradek perf latency flights --records 1000
    """


@dataclass(slots=True)
class _Meter:
    """Counts records, and shows the rate of the last second on a terminal."""

    records: int = 0
    bytes: int = 0
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    began: float = field(default_factory=time.perf_counter)
    _cpu: float = field(default_factory=time.process_time)
    _shown_at: float = field(default_factory=time.perf_counter)
    _shown_records: int = 0
    _last: LatencyHistogram = field(default_factory=LatencyHistogram)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def add(self, records: int, size: int, latency_ns: int | None = None) -> None:
        self.records += records
        self.bytes += size
        if latency_ns is not None:
            self.latency.add(latency_ns, records)
            self._last.add(latency_ns, records)
        now = time.perf_counter()
        if sys.stderr.isatty() and now - self._shown_at >= _SHOWN_EVERY_S:
            rate = (self.records - self._shown_records) / (now - self._shown_at)
            times = "".join(f", {name} {_shown(value)} ms" for name, value in _percentiles(self._last).items())
            text = f"{self.records:,} records, {rate:,.0f}/s{times if self._last.count else ''}"
            click.echo(f"\r\033[K{text}", nl=False, err=True)
            self._shown_at, self._shown_records, self._last = now, self.records, LatencyHistogram()

    def rates(self) -> dict[str, Any]:
        """Return the result: rates over all, and the client's own CPU time."""
        if sys.stderr.isatty():
            click.echo("\r\033[K", nl=False, err=True)
        seconds, cpu = max(self.seconds, 1e-9), time.process_time() - self._cpu
        return {
            "records": self.records,
            "seconds": round(seconds, 3),
            "records_per_s": round(self.records / seconds),
            "mb_per_s": round(self.bytes / seconds / 1e6, 1),
            "cpu_us_per_record": round(cpu * 1e6 / max(self.records, 1), 2),
        }


def _percentiles(histogram: LatencyHistogram) -> dict[str, float | None]:
    found = [histogram.percentile_ms(percent) for percent in (50, 99, 99.9, 100)]
    return {name: None if value is None else round(value, 3) for name, value in zip(_LATENCIES, found, strict=True)}


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _print(row: dict[str, Any]) -> None:
    print_rows(tuple(row), [row])


def _sent(records: int, least_bytes: int) -> Decorator:
    """Return a decorator that gives a command --records and --size, for what it sends."""
    options = (
        click.option("--records", metavar="N", type=WholeNumber(1), default=records, show_default=True,
                     help="How many to send."),
        click.option("--size", metavar="BYTES", type=WholeNumber(least_bytes, 1 << 20), default=100, show_default=True,
                     help="The size of a value."),
    )  # fmt: skip
    return partial(with_options, options)


# -- Produce


@command.command(short_help="Send records as fast as possible, or at a rate.")
@click.argument("topic", type=TOPIC)
@_sent(100_000, 0)
@click.option("--rate", type=WholeNumber(min=1), metavar="N", help="Records a second.  [default: no limit]")
@click.option("--acks", type=OneOf(("all", "1")), default="all", show_default=True,
              help="Which replicas must have a record: all in sync, or the leader.")  # fmt: skip
@click.option(
    "--compression", type=OneOf(("none", "gzip", "snappy", "lz4", "zstd")), default="none", show_default=True,
    help="The codec of batches; the values do not compress well.",
)  # fmt: skip
@row_options
@connection_options("producer")
def produce(
    topic: str, records: int, size: int, rate: int | None, acks: str, compression: str, bootstrap_server: str
) -> None:
    """Send records to TOPIC, and print their rate and the time until they were acknowledged.

    \b
    Examples:
      odradek perf produce flights --records 1000000
      odradek perf produce flights --rate 1000 --size 1000 --json
    """
    options = {"acks": acks, "compression_type": compression, "enable_idempotence": acks == "all"}
    meter = run(_produce(topic, records, size, rate, options, bootstrap_server))
    _print(meter.rates() | _named(meter.latency))


def _named(histogram: LatencyHistogram) -> dict[str, float | None]:
    return {f"{name}_ms": value for name, value in _percentiles(histogram).items()}


async def _produce(
    topic: str, records: int, size: int, rate: int | None, options: dict[str, Any], bootstrap_server: str
) -> _Meter:
    from ..client import Producer

    chosen = client_options("producer", **options)
    chunk = max(1, _CHUNK_BYTES // (size + 8)) if rate is None else max(1, rate // _PACES_PER_S)
    # Different values, made before the clock runs.
    values = [os.urandom(size) for _ in range(min(chunk, records))]
    async with Producer(bootstrap_server, **chosen) as producer, login_notice():
        await producer.partitions_for(topic)
        meter = _Meter()
        await _send_chunks(producer, topic, values, records, rate, meter)
    return meter


async def _send_chunks(
    producer: Producer, topic: str, values: list[bytes], records: int, rate: int | None, meter: _Meter
) -> None:
    room = asyncio.Semaphore(_IN_FLIGHT)
    size = len(values[0])

    async def send(count: int) -> None:
        try:
            began = time.perf_counter_ns()
            await producer.send_values(topic, values[:count])
            meter.add(count, count * size, time.perf_counter_ns() - began)
        finally:
            room.release()

    try:
        async with asyncio.TaskGroup() as tasks:
            sent = 0
            while sent < records:
                await room.acquire()
                if rate is not None:
                    await asyncio.sleep(max(sent / rate - meter.seconds, 0))
                count = min(len(values), records - sent)
                tasks.create_task(send(count))
                sent += count
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None  # the others are of the same cause


# -- Consume


@command.command(short_help="Read records as fast as possible.")
@click.argument("topic", type=TOPIC)
@click.option(
    "--records", type=WholeNumber(min=1), metavar="N", help="End after so many.  [default: all that are there now]"
)
@row_options
@connection_options("admin", "consumer")
def consume(topic: str, records: int | None, bootstrap_server: str) -> None:
    """Read the records of TOPIC from the start, and print their rate. They are decoded and thrown away.

    \b
    Examples:
      odradek perf consume flights
      odradek perf consume flights --records 1000000 --json
    """
    meter = run(_consume(topic, records, bootstrap_server))
    _print(meter.rates())


async def _consume(topic: str, limit: int | None, bootstrap_server: str) -> _Meter:
    async with await _consumer(topic, bootstrap_server) as consumer:
        partitions = consumer.assignment()
        ends = await consumer.end_offsets(partitions)
        for each, start in (await consumer.beginning_offsets(partitions)).items():
            consumer.seek(each, start)
        meter = _Meter()
        while limit is None or meter.records < limit:
            if limit is None and all([await consumer.position(each) >= ends[each] for each in partitions]):
                break
            for found in (await consumer.getmany(timeout_ms=_POLL_MS, max_records=2000)).values():
                meter.add(len(found), sum(len(each.key or b"") + len(each.value or b"") for each in found))
    return meter


async def _consumer(topic: str, bootstrap_server: str) -> Consumer:
    """Return a consumer of all partitions, not started. UnknownTopic at once if there is no such topic."""
    from ..client import Consumer, TopicPartition

    async with open_admin(bootstrap_server) as admin:
        info = (await admin.describe_topics(topic))[topic].partitions
    options = client_options("consumer")
    consumer = Consumer(bootstrap_servers=bootstrap_server, **options)
    led = {TopicPartition(topic, each.partition) for each in info if each.leader >= 0}
    consumer.assign(known_ones([TopicPartition(topic, each.partition) for each in info], led, "not read"))
    return consumer


# -- Latency


@command.command(short_help="Send one record at a time, and wait until it is read.")
@click.argument("topic", type=TOPIC)
@_sent(1000, 16)
@row_options
@connection_options("admin", "consumer", "producer")
def latency(topic: str, records: int, size: int, bootstrap_server: str) -> None:
    """Send one record after the other to TOPIC. Print how long the acknowledgements took, and how long until a consumer
    had the record: from end to end.

    \b
    Examples:
      odradek perf latency flights
      odradek perf latency flights --records 10000 --json
    """
    meter, acknowledged = run(_latency(topic, records, size, bootstrap_server))
    acks = {f"ack_{name}": value for name, value in _named(acknowledged).items()}
    _print(meter.rates() | _named(meter.latency) | acks)


async def _latency(topic: str, records: int, size: int, bootstrap_server: str) -> tuple[_Meter, LatencyHistogram]:
    from ..client import Producer

    acknowledged = LatencyHistogram()
    chosen = client_options("producer", linger_ms=0)
    producer = Producer(bootstrap_server, **chosen)
    async with await _consumer(topic, bootstrap_server) as consumer, producer, login_notice():
        for each, end in (await consumer.end_offsets(consumer.assignment())).items():
            consumer.seek(each, end)
        await consumer.getmany()
        await producer.partitions_for(topic)
        meter = _Meter()
        for _ in range(records):
            value = os.urandom(size)
            began = time.perf_counter_ns()
            future = await producer.send(topic, value)
            future.add_done_callback(lambda _, at=began: acknowledged.add(time.perf_counter_ns() - at))
            await _read(consumer, value)
            meter.add(1, size, time.perf_counter_ns() - began)
            await future
    return meter, acknowledged


async def _read(consumer: Consumer, value: bytes) -> None:
    """Wait until a record with this value comes; others may write to the topic, too."""
    deadline = time.monotonic() + _END_TO_END_WITHIN_S
    while time.monotonic() < deadline:
        for found in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
            if any(each.value == value for each in found):
                return
    raise CliError(f"a record that was sent did not come back within {_END_TO_END_WITHIN_S:g} s")
