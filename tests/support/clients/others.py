"""Other people's clients with one interface: `produce` and `consume` by the name of the client.

A record is (key, value, headers); they are sent to one partition so that their order can be compared.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Other people's packages may use what Python deprecates.
    import aiokafka
    import aiokafka.admin
    import kafka
    import kafka.admin

Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]

CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka", "kcat")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
WITHIN_S = 20.0


def produce(client: str, address: str, topic: str, records: list[Record], codec: str = "none") -> None:
    """Send the records, and return when all replicas have acknowledged every one."""
    _PRODUCE[client](address, topic, records, codec)


def consume(client: str, address: str, topic: str, count: int) -> list[Record]:
    """Return the first `count` records of partition 0."""
    return _CONSUME[client](address, topic, count)


def create_topic(address: str, topic: str, partitions: int = 1) -> str:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WITHIN_S)
    return topic


def require(client: str) -> None:
    """Skip the test if the client is not installed."""
    if client == "kcat" and not shutil.which("kcat"):
        pytest.skip("kcat is not installed (apt-get install kcat)")
    if client in ("java", "javac") and not has_java(client):
        pytest.skip(f"{client} and KAFKA_LIB (a folder with Kafka's jars) are not both there")


def has_java(program: str = "java") -> bool:
    """Return whether a program of Java is installed and Kafka's jars are there."""
    return bool(shutil.which(program) and jars())


def jars() -> Path | None:
    """Return the folder with Kafka's jars that KAFKA_LIB names, None if it is not set."""
    folder = os.environ.get("KAFKA_LIB")
    return Path(folder) if folder and any(Path(folder).glob("kafka-clients-*.jar")) else None


def _produce_confluent(address: str, topic: str, records: list[Record], codec: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 20})
    failed: list[object] = []
    for key, value, headers in records:
        producer.produce(
            topic, value, key, 0, on_delivery=lambda error, _: failed.append(error) if error else None, headers=headers
        )
    assert producer.flush(WITHIN_S) == 0
    assert failed == []


def _produce_kafka_python(address: str, topic: str, records: list[Record], codec: str) -> None:
    compression = None if codec == "none" else codec
    producer = kafka.KafkaProducer(bootstrap_servers=address, compression_type=compression, linger_ms=20)
    sent = [producer.send(topic, value, key, headers, partition=0) for key, value, headers in records]
    for future in sent:
        future.get(WITHIN_S)
    producer.close()


def _produce_aiokafka(address: str, topic: str, records: list[Record], codec: str) -> None:
    async def run() -> None:
        compression = None if codec == "none" else codec
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=address, compression_type=compression, linger_ms=20, acks="all"
        ) as producer:
            sent = [
                await producer.send(topic, value, key, partition=0, headers=headers) for key, value, headers in records
            ]
            await asyncio.wait_for(asyncio.gather(*sent), WITHIN_S)

    asyncio.run(run())


def _produce_kcat(address: str, topic: str, records: list[Record], codec: str) -> None:
    """Run kcat once for each set of headers: all records of a call get the same, and a call a record is slow."""
    runs: list[tuple[list[tuple[str, bytes]], list[Record]]] = []
    for record in records:
        if not runs or runs[-1][0] != record[2]:
            runs.append((record[2], []))
        runs[-1][1].append(record)
    for headers, run in runs:
        command = ["kcat", "-b", address, "-P", "-t", topic, "-p", "0", "-z", codec, "-K", "\t", "-Z", "-X", "acks=all"]
        for name, value in headers:
            command += ["-H", f"{name}={value.decode()}"]
        lines = [(key or b"") + b"\t" + (value or b"") for key, value, _ in run]
        subprocess.run(command, input=b"\n".join(lines), check=True, timeout=WITHIN_S)


def _consume_confluent(address: str, topic: str, count: int) -> list[Record]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "none", "check.crcs": True})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    try:
        messages = consumer.consume(count, WITHIN_S)
        assert [message.error() for message in messages] == [None] * count
        return [(m.key(), m.value(), m.headers() or []) for m in messages]
    finally:
        consumer.close()


def _consume_kafka_python(address: str, topic: str, count: int) -> list[Record]:
    consumer = kafka.KafkaConsumer(bootstrap_servers=address, consumer_timeout_ms=int(WITHIN_S * 1000))
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    found = [(m.key, m.value, list(m.headers)) for _, m in zip(range(count), consumer, strict=False)]
    consumer.close()
    return found


def _consume_aiokafka(address: str, topic: str, count: int) -> list[Record]:
    async def run() -> list[Record]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=address)
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            found = [await asyncio.wait_for(consumer.getone(), WITHIN_S) for _ in range(count)]
        finally:
            await consumer.stop()
        return [(m.key, m.value, list(m.headers)) for m in found]

    return asyncio.run(run())


def _consume_kcat(address: str, topic: str, count: int) -> list[Record]:
    command = ["kcat", "-b", address, "-C", "-t", topic, "-p", "0", "-o", "0", "-c", str(count), "-e", "-J", "-q"]
    done = subprocess.run(command, check=True, capture_output=True, timeout=WITHIN_S)
    found: list[Record] = []
    for line in done.stdout.splitlines():
        record = json.loads(line)
        names = record.get("headers", [])
        headers = [(name, value.encode()) for name, value in zip(names[::2], names[1::2], strict=True)]
        found.append((_text(record["key"]), _text(record["payload"]), headers))
    return found


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


_PRODUCE: dict[str, Callable[[str, str, list[Record], str], None]] = {
    "confluent-kafka": _produce_confluent,
    "kafka-python": _produce_kafka_python,
    "aiokafka": _produce_aiokafka,
    "kcat": _produce_kcat,
}
_CONSUME: dict[str, Callable[[str, str, int], list[Record]]] = {
    "confluent-kafka": _consume_confluent,
    "kafka-python": _consume_kafka_python,
    "aiokafka": _consume_aiokafka,
    "kcat": _consume_kcat,
}
