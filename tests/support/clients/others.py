"""Other people's clients with one interface: `produce` and `consume` by the name of the client.

A record is (key, value, headers); they are sent to one partition so that their order can be compared.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.tests.support.clients.raw import Raw

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Other people's packages may use what Python deprecates.
    import aiokafka
    import aiokafka.admin
    import kafka
    import kafka.admin

Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]
# With the offset before it.
Read = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]

CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka", "kcat")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
WITHIN_S = 20.0
_POLL_S = 1.0


def produce(client: str, address: str, topic: str, records: list[Record], codec: str = "none") -> None:
    """Send the records, and return when all replicas have acknowledged every one."""
    _PRODUCE[client](address, topic, records, codec)


def consume(client: str, address: str, topic: str, count: int) -> list[Record]:
    """Return the first `count` records of partition 0, which are there."""
    if client == "kcat":
        return _consume_kcat(address, topic, count)
    found = [each[1:] for each in read(client, address, topic)[:count]]
    assert len(found) == count
    return found


def read(client: str, address: str, topic: str, isolation: str = "read_uncommitted") -> list[Read]:
    """Return the records of partition 0 from its first offset to the last that this isolation level may see."""
    return _READ[client](address, topic, isolation)


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


def messages(
    address: str,
    topic: str,
    partitions: Iterable[int] = (0,),
    isolation: str = "read_uncommitted",
    within_s: float = WITHIN_S,
) -> Iterator[confluent_kafka.Message]:
    """Yield what librdkafka reads of partitions from their first offsets to their present ends, with checked CRCs."""
    settings = {
        "bootstrap.servers": address,
        "group.id": "none",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "auto.offset.reset": "earliest",
        "check.crcs": True,
        # The end of a partition is told when a fetch found nothing.
        "fetch.wait.max.ms": 10,
        "log_level": 0,
    }
    consumer, rest = confluent_kafka.Consumer(settings), set(partitions)
    consumer.assign([confluent_kafka.TopicPartition(topic, at, confluent_kafka.OFFSET_BEGINNING) for at in rest])
    try:
        while rest:
            message = consumer.poll(within_s)
            assert message is not None, f"{topic} cannot be read to its end"
            if message.error() is None:
                yield message
            else:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                rest.discard(message.partition())
    finally:
        consumer.close()


def _read_confluent(address: str, topic: str, isolation: str) -> list[Read]:
    return [(m.offset(), m.key(), m.value(), m.headers() or []) for m in messages(address, topic, (0,), isolation)]


def _read_kafka_python(address: str, topic: str, isolation: str) -> list[Read]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=address, isolation_level=isolation, auto_offset_reset="earliest", group_id=None
    )
    try:
        partition = kafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        found: list[Read] = []
        deadline = time.monotonic() + WITHIN_S
        while consumer.position(partition) < end:
            assert time.monotonic() < deadline, f"at {consumer.position(partition)}, which is not the end, {end}"
            for each in consumer.poll(int(_POLL_S * 1000)).get(partition, []):
                found.append((each.offset, each.key, each.value, list(each.headers)))
        return found
    finally:
        consumer.close()


def _read_aiokafka(address: str, topic: str, isolation: str) -> list[Read]:
    async def run() -> list[Read]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=address, isolation_level=isolation, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            end = (await consumer.end_offsets([partition]))[partition]
            found: list[Read] = []
            async with asyncio.timeout(WITHIN_S):
                while await consumer.position(partition) < end:
                    got = await consumer.getmany(partition, timeout_ms=int(_POLL_S * 1000))
                    found += [
                        (each.offset, each.key, each.value, list(each.headers)) for each in got.get(partition, [])
                    ]
            return found
        finally:
            await consumer.stop()

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
_READ: dict[str, Callable[[str, str, str], list[Read]]] = {
    "confluent-kafka": _read_confluent,
    "kafka-python": _read_kafka_python,
    "aiokafka": _read_aiokafka,
}


async def require_kafka_4_4(address: str, why: str) -> None:
    """Skip the test where the Kafka at an address is older."""
    async with await Raw.connect(address) as raw:
        offered = await raw.ask(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("odradek", "1"))
    if not any(each.name == "share.version" and each.max_version >= 2 for each in offered.supported_features):
        pytest.skip(why)
