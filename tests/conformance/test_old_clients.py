"""Clients told to speak as they did to Kafka 0.8 to 0.11: message sets out, message sets in, today's clients beside."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from odradek.tests.support.clients.others import WITHIN_S, create_topic, kafka

COUNT = 50
LEGACY_CODECS = ("none", "gzip", "snappy", "lz4")
VALUES = [b"value %d " % number * 20 for number in range(COUNT)]


def as_of(version: str) -> dict[str, Any]:
    """librdkafka's settings for a broker that cannot say what it speaks."""
    return {"api.version.request": False, "broker.version.fallback": version}


def produce(address: str, topic: str, codec: str, **settings: Any) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "compression.type": codec, **settings})
    for value in VALUES:
        producer.produce(topic, value, b"key")
    assert producer.flush(WITHIN_S) == 0


def consume(address: str, topic: str, **settings: Any) -> list[tuple[int, bytes | None, bytes | None]]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "old", **settings})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found = consumer.consume(COUNT, WITHIN_S)
    consumer.close()
    return [(message.offset(), message.key(), message.value()) for message in found]


EXPECTED = [(at, b"key", value) for at, value in enumerate(VALUES)]


@pytest.mark.parametrize("codec", LEGACY_CODECS)
@pytest.mark.parametrize("version", ["0.8.2", "0.9.0", "0.10.0"])
def test_librdkafka_as_of_then_and_of_today(address: str, version: str, codec: str) -> None:
    old = as_of(version)
    topic = create_topic(address, f"rd-{version}-{codec}")
    produce(address, topic, codec, **old)
    assert consume(address, topic, **old) == EXPECTED
    assert consume(address, topic) == EXPECTED
    other = create_topic(address, f"today-{version}-{codec}")
    produce(address, other, codec)
    assert consume(address, other, **old) == EXPECTED


@pytest.mark.parametrize("codec", LEGACY_CODECS)
@pytest.mark.parametrize("version", [(0, 10), (0, 10, 1), (0, 11)])
def test_kafka_python_as_of_then(address: str, version: tuple[int, ...], codec: str) -> None:
    topic = create_topic(address, f"py-{'-'.join(map(str, version))}-{codec}")
    pinned = {"bootstrap_servers": address, "api_version": version}
    with kafka.KafkaProducer(**pinned, compression_type=None if codec == "none" else codec) as producer:
        sent = [producer.send(topic, value, b"key", partition=0) for value in VALUES]
        assert [each.get(WITHIN_S).offset for each in sent] == list(range(COUNT))
    consumer = kafka.KafkaConsumer(**pinned, enable_auto_commit=False, consumer_timeout_ms=WITHIN_S * 1000)
    consumer.assign([kafka.TopicPartition(topic, 0)])
    consumer.seek(kafka.TopicPartition(topic, 0), 0)
    found = [next(consumer) for _ in VALUES]
    consumer.close()
    assert [(each.offset, each.key, each.value) for each in found] == EXPECTED
    assert all(each.timestamp > 0 for each in found)
