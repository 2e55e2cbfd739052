"""Measure what a direct read costs the broker: CPU seconds per GB, beside a fetch of the same topic.

    python -m odradek.benchmarks.direct_read [--megabytes 256] [--value-bytes 1000] [--rounds 3]

It starts a broker, fills a topic, and reads it in turn by fetch and from the files. The figures are CPU seconds (user
and system) of the broker's process and of the reader's, so that other work on the machine counts little.

2026-11-22, two cores shared with much other work, 0.27 GB of 1000 B values, CPU-s per GB:

    fetch      broker 0.60 to 0.78     reader 0.90 to 1.12
    direct     broker 0.04             reader 0.57

The 0.04 are one tick of the system's clock: the broker answers two or three requests, whatever the size.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from odradek.client.arrow.brokers import Brokers
from odradek.client.arrow.connection import BlockingConnection
from odradek.client.arrow.decoder import ArrowDecoder, schema_of
from odradek.client.arrow.direct_read import range_reader
from odradek.client.arrow.fetch import OffsetRange
from odradek.client.record import EARLIEST, LATEST, TopicPartition
from odradek.client.spark.options import parse_options
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record

TOPIC = "direct-read"
BATCH_BYTES = 512 * 1024
COLUMNS = schema_of(("key", "value", "offset", "timestamp"))


def main() -> None:
    """Fill, read, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--value-bytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder:
        command = [sys.executable, "-m", "odradek", "serve", "--listen", "127.0.0.1:0", "--data-dir", folder + "/data"]
        broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            address = _address(broker)
            size = fill(address, arguments.megabytes << 20, arguments.value_bytes)
            for path in ("fetch", "direct"):
                read(address, path)  # warm: the files are in the page cache
            for _ in range(arguments.rounds):
                for path in ("fetch", "direct"):
                    measure(address, path, broker.pid, size)
        finally:
            broker.terminate()
            broker.wait()


def _address(broker: subprocess.Popen[str]) -> str:
    assert broker.stdout is not None
    for line in broker.stdout:
        if "127.0.0.1:" in line and "ready" in line:
            return "127.0.0.1:" + line.rpartition("127.0.0.1:")[2].split()[0].strip(",;.'\"")
    raise SystemExit("the broker did not start")


def fill(address: str, size: int, value_bytes: int) -> int:
    """Produce about `size` bytes; return how many bytes of batches there are."""
    options = parse_options({"kafka.bootstrap.servers": address, "subscribe": TOPIC})
    records = [Record(-1, 0, b"%08d" % number, os.urandom(value_bytes)) for number in range(BATCH_BYTES // value_bytes)]
    batch = encode_batch(records)
    with BlockingConnection(options.client.bootstrap[0], options.client) as connection:
        topics = [CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)]
        connection.request(CreateTopicsRequest(topics=topics, timeout_ms=30_000), CreateTopicsResponse)
        topic_id = Brokers(options.client).view([TOPIC]).topic_id(TOPIC)
        count = max(size // len(batch), 1)
        for _ in range(count):
            data = [PartitionProduceData(index=0, records=memoryview(batch))]
            topic = TopicProduceData(name=TOPIC, topic_id=topic_id, partition_data=data)
            answer = connection.request(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic]), ProduceResponse)
            code = ErrorCode.of(answer.responses[0].partition_responses[0].error_code)
            if code is not ErrorCode.NONE:
                raise KafkaError(code)
    return count * len(batch)


def read(address: str, path: str) -> int:
    """Return the number of rows of the topic."""
    options = parse_options({"kafka.bootstrap.servers": address, "subscribe": TOPIC, "path": path})
    brokers, place = Brokers(options.client), TopicPartition(TOPIC, 0)
    start, end = brokers.offsets([place], EARLIEST)[place], brokers.offsets([place], LATEST)[place]
    topic_id = brokers.view([TOPIC]).topic_id(TOPIC)
    decoder = ArrowDecoder(COLUMNS, TOPIC, 0, start, end, max_rows=options.arrow_batch_rows)
    reader = range_reader(OffsetRange(TOPIC, topic_id, 0, start, end), options, brokers)
    rows = sum(batch.num_rows for section in reader.sections() for batch in decoder.feed(*section))
    rest = decoder.rest()
    return rows + (0 if rest is None else rest.num_rows)


def measure(address: str, path: str, broker: int, size: int) -> None:
    """Read once and print the CPU seconds per GB of both processes."""
    before, own = _cpu_seconds(broker), _own_seconds()
    rows = read(address, path)
    spent, own_spent = _cpu_seconds(broker) - before, _own_seconds() - own
    gigabytes = size / 1e9
    print(
        f"{path:7} {rows:9,} rows, {gigabytes:.2f} GB; CPU-s per GB: broker {spent / gigabytes:.3f},"
        f" reader {own_spent / gigabytes:.3f}",
        flush=True,
    )


def _own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _cpu_seconds(process: int) -> float:
    """Return the CPU seconds of a process. Linux."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
