"""Measure what a broker costs as it grows: partitions, connections, segments, bytes. By CPU time, but for memory.

    python -m benchmarks.growth                    5,000 partitions and connections, 6,400 segments, 100 GB (sparse)
    python -m benchmarks.growth --partitions 500   fewer

It prints a line for each figure: what, figure, unit, goal. The goals hold for 5,000 of each on a quiet machine: beside
other programs the same work takes more CPU time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from odradek.broker import Broker, BrokerConfig
from odradek.broker.background.collector import Collector
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from odradek.protocol.records.batch import assign, encode_batch, read_header
from odradek.protocol.records.record import Record
from odradek.storage.log import Log, LogConfig

from .brokers import Odradek
from .load import Wire, check_produced, create_topic, produce, request

PARTITIONS = CONNECTIONS = 5_000
SEGMENTS = 6_400
LARGE_GB = 100
SEGMENT_BYTES = 1024 * 1024
# A topic has so many.
PARTITIONS_EACH = 100
IDLE_S = 10.0
FETCHES = 100
LOOK_UPS = 200


class Figure(NamedTuple):
    """What was measured; less is better. `goal` is what it should not exceed."""

    what: str
    value: float
    unit: str
    goal: float


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="a multiple of 100")
    parser.add_argument("--folder", type=Path, default=None, help="where the data lie meanwhile; a temporary one")
    parser.add_argument("--turns", type=Path, help=argparse.SUPPRESS)  # the data directory: see `_turns_of`
    arguments = parser.parse_args()
    if arguments.turns is not None:
        print(json.dumps(asyncio_turns(arguments.turns)))
        return
    with tempfile.TemporaryDirectory(prefix="odradek-growth-", dir=arguments.folder) as folder:
        for each in measure(Path(folder), arguments.partitions):
            print(f"{each.what}: {each.value:.3g} {each.unit} (goal {each.goal:g})", flush=True)


def measure(folder: Path, partitions: int = PARTITIONS) -> Iterator[Figure]:
    """Yield every figure. `folder` gets the data."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield from _partitions(folder / "partitions", partitions)
        yield from _turns_of(folder / "partitions" / "data", partitions)
        yield _connections(folder / "connections")
        yield _look_up(folder / "segments")
        yield _large_log(folder / "large")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# -- Partitions


def _partitions(folder: Path, partitions: int) -> Iterator[Figure]:
    broker = Odradek(folder)
    broker.start()
    _fill(Wire(broker.address), partitions)
    before_s = broker.cpu_s()
    time.sleep(IDLE_S)
    yield Figure(f"{partitions:,} partitions: CPU while idle", (broker.cpu_s() - before_s) / IDLE_S * 100, "%", 0.1)
    yield Figure(f"{partitions:,} partitions, one changed: incremental fetch", _fetch_ms(broker, partitions), "ms", 1)
    broker.stop()
    broker.start()
    yield Figure(f"{partitions:,} partitions: start after a stop", broker.cpu_s(), "s of CPU", 1)
    broker.stop()


def _names(partitions: int) -> list[str]:
    return [f"many-{number}" for number in range(partitions // PARTITIONS_EACH)]


def _fill(wire: Wire, partitions: int) -> None:
    """Create topics, half of them compacted, and write a record to each partition."""
    for number, name in enumerate(_names(partitions)):
        policy = CreatableTopicConfig("cleanup.policy", "compact" if number % 2 else "delete")
        topic = CreatableTopic(name, PARTITIONS_EACH, 1, configs=[policy])
        asked = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
        wire.ask(ApiKey.CREATE_TOPICS, 5, asked, CreateTopicsResponse)
        wire.send(_produce(name, range(PARTITIONS_EACH)))
        answer = wire.answer(ProduceResponse, 9)
        assert not any(each.error_code for each in answer.responses[0].partition_responses)


def _batch() -> bytes:
    return encode_batch([Record(timestamp_ms=int(time.time() * 1000), key=b"k", value=b"x" * 100)])


def _produce(name: str, partitions: range) -> bytes:
    data = [PartitionProduceData(each, _batch()) for each in partitions]
    sent = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[TopicProduceData(name, partition_data=data)])
    return request(ApiKey.PRODUCE, 9, sent)


def _fetch_ms(broker: Odradek, partitions: int) -> float:
    """Return the CPU time of an incremental fetch of a session over all partitions, of which one has a new record.

    The produce of that record counts, too.
    """
    wire = Wire(broker.address)
    topics = [
        FetchTopic(name, partitions=[FetchPartition(at, fetch_offset=1) for at in range(PARTITIONS_EACH)])
        for name in _names(partitions)
    ]
    opened = wire.ask(ApiKey.FETCH, 12, FetchRequest(max_wait_ms=0, session_epoch=0, topics=topics), FetchResponse)
    produced = _produce(topics[0].topic, range(1))
    spent_s = 0.0
    for epoch in range(1, FETCHES + 1):
        # The client has the record of the round before.
        moved = [FetchTopic(topics[0].topic, partitions=[FetchPartition(0, fetch_offset=epoch)])]
        asked = FetchRequest(session_id=opened.session_id, session_epoch=epoch, max_wait_ms=500, topics=moved)
        before_s = broker.cpu_s()
        wire.send(produced)
        wire.receive()
        found = wire.ask(ApiKey.FETCH, 12, asked, FetchResponse)
        spent_s += broker.cpu_s() - before_s
        assert [len(each.partitions) for each in found.responses] == [1], "one partition has changed"
    return spent_s / FETCHES * 1000


# -- Turns of the event loop


def _turns_of(data: Path, partitions: int) -> Iterator[Figure]:
    """Yield the longest turn of each background round, from a process of its own."""
    command = [sys.executable, "-m", "odradek.benchmarks.growth", "--turns", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for what, longest_ms in json.loads(done.stdout.splitlines()[-1]).items():
        yield Figure(f"{partitions:,} partitions, longest turn of the loop: {what}", longest_ms, "ms of CPU", 5)


class _MeasuringSelector(selectors.DefaultSelector):
    """Measures the CPU time of the loop's thread between two calls."""

    longest_s = 0.0
    _began_s = 0.0

    def begin(self) -> None:
        self.longest_s, self._began_s = 0.0, time.thread_time()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.longest_s = max(self.longest_s, time.thread_time() - self._began_s)
        ready = super().select(timeout)
        self._began_s = time.thread_time()
        return ready


def asyncio_turns(data: Path) -> dict[str, float]:
    """Return the longest turn in milliseconds of CPU time of each background round of a broker on `data`."""
    selector = _MeasuringSelector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        return runner.run(_run_rounds(data, selector))


async def _run_rounds(data: Path, selector: _MeasuringSelector) -> dict[str, float]:
    config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(str(data),), log_cleaner_backoff_ms=100)
    found: dict[str, float] = {}

    async def run(what: str, round_: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await asyncio.sleep(0)
        selector.begin()
        await round_()
        await asyncio.sleep(0)
        found[what] = selector.longest_s * 1000

    broker = Broker(config)
    await broker.start()
    Collector().start(broker.topics)
    background = broker.services.background

    async def checkpoint() -> None:
        background.checkpoints.write_in_background()
        await asyncio.gather(*background.work.running)

    async def retain() -> None:
        background.retention.check()
        while background.retention.is_busy:  # noqa: ASYNC110 - a round schedules its own turns
            await asyncio.sleep(0)

    async def choose() -> None:
        await asyncio.sleep(1)  # the cleaner looks ten times

    async def flush() -> None:
        for partition in broker.topics.partitions():
            broker.services.flusher.schedule(partition, 1000)
        await asyncio.sleep(0)
        selector.begin()  # this loop was a turn of its own
        await asyncio.sleep(3)

    await run("checkpoint", checkpoint)
    await run("retention", retain)
    await run("the cleaner's choice", choose)
    await run("flush.ms of all at once", flush)
    await run("stop", broker.stop)
    return found


# -- Connections


def _connections(folder: Path) -> Figure:
    asked = request(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
    with Odradek(folder) as broker:
        wire = _answered(broker.port, asked)
        before_mb = broker.memory_mb()
        opened = [_answered(broker.port, asked) for _ in range(CONNECTIONS)]
        grown_kb = (broker.memory_mb() - before_mb) * 1024 / CONNECTIONS
        for each in (wire, *opened):
            each.close()
    return Figure(f"{CONNECTIONS:,} connections that have sent a request: memory of one", grown_kb, "KB", 20)


def _answered(port: int, asked: bytes) -> socket.socket:
    """Return a connection that has its first response. It needs no buffers, as a Wire does."""
    opened = socket.create_connection(("127.0.0.1", port), timeout=60)
    opened.sendall(asked)
    assert opened.recv(4096)
    return opened


# -- Segments and bytes


def _append(log: Log, count: int) -> None:
    for number in range(count):
        batch = bytearray(_batch())
        header = assign(memoryview(batch), 0, read_header(batch), log.log_end_offset, 0)
        log.append(batch, header, number)


def _look_up(folder: Path) -> Figure:
    """Return the CPU time of a look-up in a thread, in a log of which nothing is open."""
    config = LogConfig(segment_bytes=200)  # one batch
    log = Log.open(folder, config, clean=True, now_ms=0)
    _append(log, SEGMENTS)
    log.close()
    log = Log.open(folder, config, clean=True, now_ms=0, recovery_point=SEGMENTS)
    before_s = time.thread_time()
    for number in range(LOOK_UPS):
        view = log.view()
        assert view.locate(number * SEGMENTS // LOOK_UPS, SEGMENTS) is not None
        log.learn(view)
    spent_ms = (time.thread_time() - before_s) / LOOK_UPS * 1000
    log.close()
    return Figure(f"a look-up that may wait, {SEGMENTS:,} segments", spent_ms, "ms of CPU", 2)


def _large_log(folder: Path) -> Figure:
    """Return the CPU time of a start with segments of 1 GB each, whose bytes but the first are holes."""
    broker = Odradek(folder)
    broker.start()
    wire = Wire(broker.address)
    # Each record is more than half a segment.
    create_topic(wire, "large", configs={"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"})
    data = produce("large", 1, SEGMENT_BYTES * 6 // 10)
    for _ in range(LARGE_GB + 1):
        check_produced(wire, data)
    broker.stop()
    logs = sorted((folder / "data" / "large-0").glob("*.log"))
    assert len(logs) == LARGE_GB + 1
    for each in logs[:-1]:
        os.truncate(each, 10**9)
    broker.start()
    spent_s = broker.cpu_s()
    broker.stop()
    return Figure(f"{LARGE_GB} GB in one log: start after a clean stop", spent_s, "s of CPU", 1)


if __name__ == "__main__":
    main()
