"""Measure the speed of the cleaner.

    python -m benchmarks.compaction 127.0.0.1:9092

It prints MB/s: it fills a topic, starts compaction, and waits until only the last records of the keys are left. Works
against any Kafka broker.
"""

from __future__ import annotations

import argparse
import json
import time

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
from .load import Wire, check_produced, create_topic, in_own_process, produce_batch

# The log that is cleaned: every key has been written so often, in records of some 200 bytes, 500 a batch.
ROUNDS = 10
KEYS = 80_000
BATCH_RECORDS = 500
VALUE_BYTES = 180
SEGMENT_BYTES = 16 << 20
CLEANED_WITHIN_S = 300.0
COMPACTED = {"cleanup.policy": "delete", "retention.ms": "-1", "min.cleanable.dirty.ratio": "0.01"}

_TOPIC, _BROKER = 2, 4


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    print(json.dumps({"mb_per_s": speed(parser.parse_args().address)}))


def speed_of(broker: Broker) -> float:
    """Return MB/s, as a scenario."""
    return in_own_process("compaction", broker.address)["mb_per_s"]


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
