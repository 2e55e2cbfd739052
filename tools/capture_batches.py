"""Write the record batches of other producers as golden data, for each codec, with the records that librdkafka reads.

    python tools/capture_batches.py HOST:PORT [--kafka-lib DIR] [--out tests/golden/wire/batches.json]

The batches are taken from the log of a real broker by a raw Fetch, so base offset and leader epoch are as a broker
writes them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import kafka.codec
from wire.connection import Wire

OUT = Path(__file__).parents[1] / "tests" / "golden" / "wire" / "batches.json"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
STAMP_MS = 1_700_000_000_000
RECORDS: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]] = [
    (b"key", b"value", []),
    (None, b"no key", []),
    (b"no value", None, []),
    (b"", b"", []),
    (b"headers", b"two", [("a", b"1"), ("b", b"")]),
    (b"long", b"0123456789abcdef" * 20, []),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--kafka-lib", type=Path, help="folder with Kafka's jars, for the Java producer")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    for client in ("confluent-kafka", "kafka-python", "aiokafka", "java"):
        for codec in CODECS:
            topic = f"batches-{client}-{codec}-{time.time_ns()}"
            try:
                produce(client, options.address, topic, codec, options.kafka_lib)
            except (AssertionError, RuntimeError, ValueError) as error:
                print(f"left out: {client} {codec}: {error!r}")
                continue
            records = read_back(options.address, topic)
            found.append(
                {"client": client, "codec": codec, "batches": fetch(options.address, topic).hex(), "records": records}
            )
            print(f"{client} {codec}: {len(records)} records in {len(found[-1]['batches']) // 2} bytes")
    options.out.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in found) + "\n]\n")


def produce(client: str, address: str, topic: str, codec: str, kafka_lib: Path | None) -> None:
    if client == "confluent-kafka":
        with_confluent(address, topic, codec)
    elif client == "kafka-python":
        with_kafka_python(address, topic, codec)
    elif client == "aiokafka":
        asyncio.run(with_aiokafka(address, topic, codec))
    elif kafka_lib is None:
        raise ValueError("no --kafka-lib")
    else:
        with_java(address, topic, codec, kafka_lib)


def with_confluent(address: str, topic: str, codec: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 300})
    for index, (key, value, headers) in enumerate(RECORDS):
        producer.produce(topic, value, key, timestamp=STAMP_MS + index, headers=headers)
    producer.flush()


def with_kafka_python(address: str, topic: str, codec: str) -> None:
    kind = None if codec == "none" else codec
    producer = kafka.KafkaProducer(bootstrap_servers=address, compression_type=kind, linger_ms=300)
    for index, (key, value, headers) in enumerate(RECORDS):
        producer.send(topic, value, key, headers=headers, timestamp_ms=STAMP_MS + index)
    producer.flush()
    producer.close()


async def with_aiokafka(address: str, topic: str, codec: str) -> None:
    kind = None if codec == "none" else codec
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=address, compression_type=kind, linger_ms=300)
    await producer.start()
    sent = [
        await producer.send(topic, value, key, headers=headers, timestamp_ms=STAMP_MS + index)
        for index, (key, value, headers) in enumerate(RECORDS)
    ]
    await asyncio.gather(*sent)
    await producer.stop()


def with_java(address: str, topic: str, codec: str, kafka_lib: Path) -> None:
    tool = [
        "java",
        "-cp",
        f"{kafka_lib}/*",
        "org.apache.kafka.tools.ConsoleProducer",
        "--bootstrap-server",
        address,
        "--topic",
        topic,
    ]
    tool += [
        "--compression-codec",
        codec,
        "--reader-property",
        "parse.key=true",
        "--reader-property",
        "null.marker=NULL",
    ]
    lines = [f"{'NULL' if k is None else k.decode()}\t{'NULL' if v is None else v.decode()}" for k, v, _ in RECORDS]
    done = subprocess.run(tool, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(done.stderr[-300:])


def read_back(address: str, topic: str) -> list[dict[str, Any]]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": "batches", "enable.auto.commit": False, "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    records: list[dict[str, Any]] = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        headers = [[name, value.hex()] for name, value in message.headers() or []]
        key, value = (data.hex() if data is not None else None for data in (message.key(), message.value()))
        records.append(
            {
                "offset": message.offset(),
                "timestamp": message.timestamp()[1],
                "key": key,
                "value": value,
                "headers": headers,
            }
        )
    consumer.close()
    return records


def fetch(address: str, topic: str) -> bytes:
    wire = Wire(address)
    place = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20}
    body = {"MaxWaitMs": 0, "MinBytes": 1, "MaxBytes": 1 << 20, "Topics": [{"Topic": topic, "Partitions": [place]}]}
    answer = wire.ask("", "Fetch", 11, body)
    wire.close()
    return answer["Responses"][0]["Partitions"][0]["Records"]


if __name__ == "__main__":
    main()
