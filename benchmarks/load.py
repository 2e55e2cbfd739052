"""One load by raw requests over one blocking socket. The client costs little, so the figure is the broker's.

    python -m benchmarks.load 127.0.0.1:9092 produce-one --in-flight 64 --seconds 3

prints a line of JSON: requests a second, MB/s where it applies, and the median and 99th percentile of the time to
answer in microseconds (with one request in flight). Works against any Kafka broker.
"""

from __future__ import annotations

import argparse
import json
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from odradek.protocol import frame
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from odradek.protocol.records.batch import BatchHeader, encode_batch, iter_headers
from odradek.protocol.records.record import Record

TOPIC = "bench"
# The load runs so long before it is measured.
WARM_UP_S = 0.5
# So many batches of 1 MB are walked through, again and again: more than a processor's cache holds.
WALKED_BATCHES = 256
_LENGTH = struct.Struct(">i")
# The offset that `run_parked` replaces in a ready-made Fetch.
_MARK = 0x0102030405060708
PARKED = "parked-fetch"
ECHO = "echo"


class Refused(Exception):
    """The broker answered with an error."""


class Wire:
    """A blocking connection that sends ready-made frames and counts answers. With `authority` (PEM) it is TLS."""

    def __init__(self, address: str, authority: Path | None = None) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if authority is not None:
            context = ssl.create_default_context(cafile=authority)
            self.socket = context.wrap_socket(self.socket, server_hostname=host)
        self._buffer = bytearray(4 * 1024 * 1024)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0

    def send(self, data: bytes | bytearray) -> None:
        self.socket.sendall(data)

    def receive(self) -> memoryview:
        """Return the next response without its length, valid until the next call."""
        self._need(4)
        size = _LENGTH.unpack_from(self._buffer, self._start)[0]
        self._need(4 + size)
        start = self._start + 4
        self._start = start + size
        return self._view[start : self._start]

    def _need(self, size: int) -> None:
        while self._end - self._start < size:
            if self._start and (len(self._buffer) - self._start < size or self._start == self._end):
                rest = self._end - self._start
                self._view[:rest] = bytes(self._view[self._start : self._end])
                self._start, self._end = 0, rest
            if size > len(self._buffer):
                self._view.release()
                self._buffer.extend(bytes(size))
                self._view = memoryview(self._buffer)
            got = self.socket.recv_into(self._view[self._end :])
            if not got:
                raise SystemExit("the broker closed the connection")
            self._end += got

    def ask(self, key: ApiKey, version: int, message: Any, response: Any) -> Any:
        self.send(request(key, version, message))
        return self.answer(response, version)

    def answer(self, response: Any, version: int) -> Any:
        """Return the next response as a message."""
        return frame.decode_response(bytes(self.receive()), response, version)[1]


def request(key: ApiKey, version: int, message: Any) -> bytes:
    return b"".join(bytes(piece) for piece in frame.encode_request(key, version, 7, "bench", message))


def in_own_process(module: str, *arguments: object) -> Any:
    """Return what another module of the benchmarks prints as JSON, run in a process of its own."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def create_topic(wire: Wire, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
    given = [CreatableTopicConfig(*each) for each in (configs or {}).items()]
    asked = CreateTopicsRequest(topics=[CreatableTopic(name, partitions, 1, configs=given)])
    code = wire.ask(ApiKey.CREATE_TOPICS, 5, asked, CreateTopicsResponse).topics[0].error_code
    if code not in (0, 36):
        raise SystemExit(f"topic {name} could not be created: error {code}")
    time.sleep(0.5)  # a real Kafka tells its own parts of a new topic a moment later


def delete_topic(wire: Wire, name: str) -> None:
    """Delete the topic: rounds of 1 MB batches would fill the disk."""
    asked = DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000)
    code = wire.ask(ApiKey.DELETE_TOPICS, 4, asked, DeleteTopicsResponse).responses[0].error_code
    if code:
        raise Refused(f"topic {name} could not be deleted: error {code}")


def produce(name: str, records: int, size: int) -> bytes:
    now_ms = int(time.time() * 1000)
    return produce_batch(name, encode_batch([Record(at, now_ms, None, b"x" * size) for at in range(records)]))


def produce_batch(name: str, batch: bytes) -> bytes:
    """Return a Produce of one batch to the first partition."""
    data = TopicProduceData(name, partition_data=[PartitionProduceData(0, batch)])
    return request(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=30000, topic_data=[data]))


def fetch(name: str, offset: int, max_bytes: int) -> bytes:
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topic = FetchTopic(name, partitions=[partition])
    asked = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=max_bytes, topics=[topic])
    return request(ApiKey.FETCH, 11, asked)


def fetched(wire: Wire, name: str, offset: int) -> tuple[list[BatchHeader], int]:
    """Fetch a piece of 1 MB. Return the headers of its batches, and how many bytes came."""
    wire.send(fetch(name, offset, 1024 * 1024))
    partition = wire.answer(FetchResponse, 11).responses[0].partitions[0]
    if partition.error_code:
        raise Refused(f"fetch failed: error {partition.error_code}")
    records = partition.records or b""
    return [header for _, header in iter_headers(records)], len(records)


def run(wire: Wire, frames: Sequence[bytes], in_flight: int, seconds: float) -> dict[str, float]:
    """Send the frames in turn, again and again, with a fixed number of requests in flight."""
    times: list[float] = []
    burst = max(1, in_flight // 2)
    bursts = in_flight // burst
    data = cycle([frame * burst for frame in frames])
    deadline = time.perf_counter() + seconds
    done = answered_bytes = sent_bytes = 0
    started = before = time.perf_counter()
    for _ in range(bursts):
        wire.send(next(data))
    while True:
        for _ in range(burst):
            answered_bytes += len(wire.receive())
        done += burst
        now = time.perf_counter()
        if now > deadline:
            break
        if in_flight == 1:
            times.append(now - before)
        sent = next(data)
        sent_bytes += len(sent)
        # Before it is sent: on a busy machine the broker may have answered when `send` returns.
        before = time.perf_counter()
        wire.send(sent)
    elapsed = now - started
    for _ in range((bursts - 1) * burst):
        wire.receive()
    result = {"requests_per_s": done / elapsed, "answered_mb_per_s": answered_bytes / elapsed / 1e6}
    result["sent_mb_per_s"] = sent_bytes / elapsed / 1e6
    return {**result, **_percentiles(times)} if times else result


def _percentiles(times: list[float]) -> dict[str, float]:
    times.sort()
    return {"p50_us": times[len(times) // 2] * 1e6, "p99_us": times[len(times) * 99 // 100] * 1e6}


def check_produced(wire: Wire, data: bytes) -> int:
    """Produce once, to check that the broker accepts it. Return the offset."""
    wire.send(data)
    partition = wire.answer(ProduceResponse, 9).responses[0].partition_responses[0]
    if partition.error_code:
        raise Refused(f"produce failed: error {partition.error_code} {partition.error_message}")
    return partition.base_offset


def produce_again(wire: Wire, topic: str, records: int, size: int) -> list[bytes]:
    create_topic(wire, topic)
    data = produce(topic, records, size)
    check_produced(wire, data)
    return [data]


def fetch_again(wire: Wire, topic: str, records: int, size: int, batches: int = 1) -> list[bytes]:
    create_topic(wire, topic)
    data = produce(topic, records, size)
    return [fetch(topic, check_produced(wire, data), 1024 * 1024) for _ in range(batches)]


def metadata(wire: Wire, topic: str) -> list[bytes]:
    create_topic(wire, topic)
    return [request(ApiKey.METADATA, 9, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))]


def echo(_wire: Wire, topic: str) -> list[bytes]:
    """Return a Produce of one record, for an echo (echo.py): it gets its own bytes as the response."""
    return [produce(topic, 1, 100)]


# Each prepares its topic and returns the frames to be sent in turn.
LOADS: dict[str, Callable[[Wire, str], list[bytes]]] = {
    "produce-one": partial(produce_again, records=1, size=100),
    "produce-1mb": partial(produce_again, records=1000, size=1000),
    "fetch-1mb": partial(fetch_again, records=1000, size=1000),
    "fetch-walk": partial(fetch_again, records=1000, size=1000, batches=WALKED_BATCHES),
    "fetch-one": partial(fetch_again, records=1, size=100),
    "metadata": metadata,
    ECHO: echo,
}


def run_parked(producer: Wire, consumer: Wire, topic: str, seconds: float) -> dict[str, float]:
    """Produce one record after the other to a consumer that waits at the end. The time is that until it has each."""
    create_topic(producer, topic)
    data = produce(topic, 1, 100)
    offset = check_produced(producer, data) + 1
    asked = bytearray(fetch(topic, _MARK, 1024 * 1024))
    at = asked.index(_MARK.to_bytes(8))
    times: list[float] = []
    started = now = time.perf_counter()
    while now < started + seconds:
        asked[at : at + 8] = offset.to_bytes(8)
        consumer.send(asked)
        before = time.perf_counter()
        producer.send(data)
        consumer.receive()
        now = time.perf_counter()
        producer.receive()
        times.append(now - before)
        offset += 1
    return {"requests_per_s": len(times) / (now - started), **_percentiles(times)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("load", choices=[PARKED, *sorted(LOADS)])
    parser.add_argument("--in-flight", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--tls", type=Path, metavar="AUTHORITY", help="connect by TLS to a broker that it has signed")
    arguments = parser.parse_args()
    wire = Wire(arguments.address, arguments.tls)
    topic = f"{TOPIC}-{arguments.load}-{time.time_ns()}"
    if arguments.load == PARKED:
        consumer = Wire(arguments.address, arguments.tls)
        run_parked(wire, consumer, topic, WARM_UP_S)
        print(json.dumps(run_parked(wire, consumer, topic, arguments.seconds)))
    else:
        frames = LOADS[arguments.load](wire, topic)
        run(wire, frames, arguments.in_flight, WARM_UP_S)
        print(json.dumps(run(wire, frames, arguments.in_flight, arguments.seconds)))
    if arguments.load != ECHO:
        delete_topic(wire, topic)


if __name__ == "__main__":
    main()
