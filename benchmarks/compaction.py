"""Measure the cleaner: its speed, and how much it and a cold reader slow down a producer.

    python -m benchmarks.compaction 127.0.0.1:9092 speed
    python -m benchmarks.compaction 127.0.0.1:9092 slowdown --data DIR

`speed` prints MB/s: it fills a topic, starts compaction, and waits until only the last records of the keys are left.
`slowdown` measures a producer with one small record in flight, in turns: alone, and beside a cleaning and a reader
whose data are not cached. It prints the 99th percentiles in microseconds and their ratio; the goal is at most 2. It
works with any Kafka broker on this machine that has its data in DIR.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record

from .brokers import Broker
from .load import Wire, check_produced, create_topic, fetched, in_own_process, produce, produce_again, produce_batch

# The log that is cleaned: every key has been written so often, in records of some 200 bytes, 500 a batch.
ROUNDS = 10
KEYS = 80_000
BATCH_RECORDS = 500
VALUE_BYTES = 180
SEGMENT_BYTES = 16 << 20
COLD_BYTES = 256 << 20
# A consumer that uses the records reads no faster. Without this limit the figure would show how fast the two cores
# copy, and nothing of the broker.
COLD_BYTES_PER_S = 100e6
# In turns, so that a machine that gets slower slows down both.
TURNS = 3
QUIET_S = 3.0
SLICE_S = 0.25
CLEANED_WITHIN_S = 300.0
COMPACTED = {"cleanup.policy": "delete", "retention.ms": "-1", "min.cleanable.dirty.ratio": "0.01"}

_TOPIC, _BROKER = 2, 4


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("what", choices=["speed", "slowdown", "read-cold"])
    parser.add_argument("--data", type=Path, help="the broker's data directory")
    parser.add_argument("--topic", default="", help="what read-cold reads, again and again")
    arguments = parser.parse_args()
    if arguments.what == "speed":
        print(json.dumps({"mb_per_s": speed(arguments.address)}))
    elif arguments.data is None:
        parser.error("--data is needed")
    elif arguments.what == "slowdown":
        print(json.dumps(slowdown(arguments.address, arguments.data)))
    else:
        read_cold(arguments.address, arguments.topic, arguments.data)


def speed_of(broker: Broker) -> float:
    """Return MB/s, as a scenario."""
    return in_own_process("compaction", broker.address, "speed")["mb_per_s"]


def slowdown_of(broker: Broker) -> float:
    """Return the busy 99th percentile divided by the quiet one, as a scenario."""
    return in_own_process("compaction", broker.address, "slowdown", "--data", broker.folder / "data")["ratio"]


# The cleaner alone.


def speed(address: str) -> float:
    """Return MB/s of a cleaning of a log in which each key was written ROUNDS times."""
    wire = Wire(address)
    _hurry(wire)
    before = _fill(wire, topic := f"cleaned-{time.time_ns()}")
    started = time.perf_counter()
    _compact(wire, topic)
    while not _is_clean(wire, topic, before):
        time.sleep(0.01)
        _check_time(started)
    return before / (time.perf_counter() - started) / 1e6


# Beside a producer.


def slowdown(address: str, data_dir: Path) -> dict[str, float]:
    """Return the 99th percentiles of a produce in microseconds, quiet and busy, and their ratio."""
    wire, admin = Wire(address), Wire(address)
    _hurry(admin)
    (one,) = produce_again(wire, f"quiet-{time.time_ns()}", 1, 100)
    _fill_cold(admin, cold := f"cold-{time.time_ns()}")
    quiet: list[float] = []
    busy: list[float] = []
    for _ in range(TURNS):
        before = _fill(admin, topic := f"cleaned-{time.time_ns()}")
        os.sync()  # earlier writes must not disturb either figure
        _produce_for(wire, one, QUIET_S / 10)
        quiet.append(_p99(_produce_for(wire, one, QUIET_S)))
        with _cold_reader(address, cold, data_dir):
            _compact(admin, topic)
            busy.append(_p99(_produce_until(wire, one, lambda: _is_clean(admin, topic, before))))  # noqa: B023
    figures = {"quiet_us": statistics.median(quiet), "busy_us": statistics.median(busy)}
    return figures | {"ratio": figures["busy_us"] / figures["quiet_us"]}


def _produce_until(wire: Wire, data: bytes, is_over: Callable[[], bool]) -> list[float]:
    started = time.perf_counter()
    times: list[float] = []
    while not is_over():
        times += _produce_for(wire, data, SLICE_S)
        _check_time(started)
    if len(times) < 1000:
        raise SystemExit(f"the cleaning was over after {len(times)} requests: too few to say anything")
    return times


def _produce_for(wire: Wire, data: bytes, seconds: float) -> list[float]:
    """Return the microseconds of each request, one in flight."""
    times: list[float] = []
    started = now = time.perf_counter()
    while now - started < seconds:
        wire.send(data)
        wire.receive()
        before, now = now, time.perf_counter()
        times.append((now - before) * 1e6)
    return times


def _p99(times: list[float]) -> float:
    return sorted(times)[len(times) * 99 // 100]


# The cold reader: a process of its own.


class _cold_reader:
    """Run a reader within a `with`."""

    def __init__(self, address: str, topic: str, data_dir: Path) -> None:
        self._command = [sys.executable, "-m", "benchmarks.compaction", address, "read-cold"]
        self._command += ["--topic", topic, "--data", str(data_dir)]

    def __enter__(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        # The reader prints a line after its first pieces.
        if not self._process.stdout.readline():
            raise SystemExit("the cold reader has ended")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def read_cold(address: str, topic: str, data_dir: Path) -> None:
    """Read a topic from its start to its end, in pieces of 1 MB, each time from the disk, until it is killed.

    At most COLD_BYTES_PER_S of them.
    """
    wire, read_bytes, started = Wire(address), 0, time.perf_counter()
    while True:
        _drop_from_cache(data_dir / f"{topic}-0")
        offset = -1
        following = 0
        while following > offset:
            offset = following
            headers, size = fetched(wire, topic, offset)
            following = max((header.next_offset for header in headers), default=offset)
            if not read_bytes:
                print("reading", flush=True)
            read_bytes += size
            time.sleep(max(started + read_bytes / COLD_BYTES_PER_S - time.perf_counter(), 0))


def _drop_from_cache(directory: Path) -> None:
    for path in directory.glob("*.log"):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


# Topics.


def _fill(wire: Wire, topic: str) -> int:
    """Write every key ROUNDS times, and return the number of bytes."""
    create_topic(wire, topic, configs={**COMPACTED, "segment.bytes": str(SEGMENT_BYTES)})
    value = b"v" * VALUE_BYTES
    now_ms = int(time.time() * 1000)
    batches = [
        [Record(at, now_ms, b"key-%07d" % (first + at), value) for at in range(BATCH_RECORDS)]
        for first in range(0, KEYS, BATCH_RECORDS)
    ]
    frames = [produce_batch(topic, encode_batch(each)) for each in batches]
    for _ in range(ROUNDS):
        for each in frames:
            check_produced(wire, each)
    return _size_of(wire, topic)


def _fill_cold(wire: Wire, topic: str) -> None:
    create_topic(wire, topic, configs={"segment.bytes": str(4 * SEGMENT_BYTES), "retention.ms": "-1"})
    data = produce(topic, 900, 1000)
    for _ in range(COLD_BYTES // len(data)):
        check_produced(wire, data)


def _hurry(wire: Wire) -> None:
    """Let the cleaner look for work ten times a second."""
    _alter(wire, _BROKER, "", "log.cleaner.backoff.ms", "100")


def _compact(wire: Wire, topic: str) -> None:
    _alter(wire, _TOPIC, topic, "cleanup.policy", "compact")


def _alter(wire: Wire, kind: int, resource: str, name: str, value: str) -> None:
    asked = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, resource, [AlterableConfig(name, 0, value)])])
    result = wire.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, asked, IncrementalAlterConfigsResponse).responses[0]
    if result.error_code:
        raise SystemExit(f"{name}={value} was refused: {result.error_message}")


def _is_clean(wire: Wire, topic: str, before: int) -> bool:
    """Return whether only the last round and the active segment are left."""
    return _size_of(wire, topic) < before / ROUNDS * 1.2 + SEGMENT_BYTES


def _size_of(wire: Wire, topic: str) -> int:
    asked = DescribeLogDirsRequest([DescribableLogDirTopic(topic, [0])])
    answer = wire.ask(ApiKey.DESCRIBE_LOG_DIRS, 1, asked, DescribeLogDirsResponse)
    return sum(
        each.partition_size
        for result in answer.results
        for there in result.topics
        if there.name == topic
        for each in there.partitions
    )


def _check_time(started: float) -> None:
    if time.perf_counter() - started > CLEANED_WITHIN_S:
        raise SystemExit(f"not cleaned within {CLEANED_WITHIN_S} s")


if __name__ == "__main__":
    main()
