"""Other people's clients produce and consume, in every codec, and look around with their admin clients."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from functools import cache
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic
from odradek.tests.support.clients.others import (
    CLIENTS,
    CODECS,
    WITHIN_S,
    Record,
    aiokafka,
    consume,
    create_topic,
    kafka,
    produce,
    require,
)

RECORDS: list[Record] = [
    (b"key", b"value", []),
    (b"headers", b"two", [("a", b"1"), ("b", b"2")]),
    (b"long", b"0123456789abcdef" * 64, []),
    (None, b"no key", []),
    (b"no value", None, []),
]


Produced = Callable[[str, str], str]


@pytest.fixture(scope="module")
def produced(address: str) -> Produced:
    """(client, codec) -> the topic to which this client has sent RECORDS; each is filled once."""

    @cache
    def fill(client: str, codec: str) -> str:
        topic = create_topic(address, f"all-{client}-{codec}")
        produce(client, address, topic, RECORDS, codec)
        return topic

    return fill


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", CLIENTS)
@pytest.mark.parametrize("reader", CLIENTS)
def test_every_client_reads_what_every_other_produces(
    address: str, produced: Produced, reader: str, writer: str, codec: str
) -> None:
    require(writer)
    require(reader)
    assert consume(reader, address, produced(writer, codec), len(RECORDS)) == RECORDS


@pytest.mark.parametrize("client", CLIENTS)
def test_a_topic_is_created_by_producing_to_it(address: str, client: str) -> None:
    require(client)
    topic = f"by-itself-{client}"
    produce(client, address, topic, RECORDS[:1])
    listed = AdminClient({"bootstrap.servers": address}).list_topics(topic, WITHIN_S).topics[topic]
    assert sorted(listed.partitions) == [0, 1, 2]
    assert consume(client, address, topic, 1) == RECORDS[:1]


def test_confluent_kafka_administers(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("a1", 2, 1, config={"max.message.bytes": "5000"})])["a1"].result(WITHIN_S)
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        admin.create_topics([NewTopic("a1", 2, 1)])["a1"].result(WITHIN_S)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS
    resource = ConfigResource(ConfigResource.Type.TOPIC, "a1")
    assert admin.describe_configs([resource])[resource].result(WITHIN_S)["max.message.bytes"].value == "5000"
    broker = ConfigResource(ConfigResource.Type.BROKER, "1")
    assert admin.describe_configs([broker])[broker].result(WITHIN_S)["num.partitions"].value == "3"
    cluster = admin.describe_cluster().result(WITHIN_S)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [address]
    assert cluster.cluster_id
    described = admin.describe_topics(confluent_kafka.TopicCollection(["a1"]))["a1"].result(WITHIN_S)
    assert [partition.leader.id for partition in described.partitions] == [1, 1]
    ends = admin.list_offsets({confluent_kafka.TopicPartition("a1", 0): latest()})
    assert [future.result(WITHIN_S).offset for future in ends.values()] == [0]
    admin.delete_topics(["a1"])["a1"].result(WITHIN_S)
    assert "a1" not in admin.list_topics(timeout=WITHIN_S).topics


def latest() -> Any:
    from confluent_kafka.admin import OffsetSpec

    return OffsetSpec.latest()


def test_confluent_kafka_looks_at_groups(address: str) -> None:
    topic = create_topic(address, "groups-of-confluent")
    produce("confluent-kafka", address, topic, RECORDS)
    settings = {"bootstrap.servers": address, "group.id": "g1", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])
    assert len(consumer.consume(len(RECORDS), WITHIN_S)) == len(RECORDS)
    consumer.commit(asynchronous=False)
    admin = AdminClient({"bootstrap.servers": address})
    assert "g1" in [group.group_id for group in admin.list_consumer_groups().result(WITHIN_S).valid]
    described = admin.describe_consumer_groups(["g1"])["g1"].result(WITHIN_S)
    assert described.state == confluent_kafka.ConsumerGroupState.STABLE
    assert [member.assignment.topic_partitions[0].topic for member in described.members] == [topic]
    request = confluent_kafka.ConsumerGroupTopicPartitions("g1")
    offsets = admin.list_consumer_group_offsets([request])["g1"].result(WITHIN_S).topic_partitions
    assert [(place.topic, place.offset) for place in offsets] == [(topic, len(RECORDS))]
    consumer.close()
    described = admin.describe_consumer_groups(["g1"])["g1"].result(WITHIN_S)
    assert described.state == confluent_kafka.ConsumerGroupState.EMPTY


def test_kafka_python_administers(address: str) -> None:
    admin = kafka.KafkaAdminClient(bootstrap_servers=address)
    try:
        admin.create_topics([kafka.admin.NewTopic("a2", 2, 1)])
        assert "a2" in admin.list_topics()
        described = admin.describe_topics(["a2"])
        assert len(described[0]["partitions"]) == 2
        assert admin.describe_cluster()["cluster_id"]
        admin.delete_topics(["a2"])
        assert "a2" not in admin.list_topics()
    finally:
        admin.close()


def test_acls_are_rejected_with_security_disabled(address: str) -> None:
    confluent = AdminClient({"bootstrap.servers": address})
    acl = AclBinding(
        ResourceType.TOPIC,
        "t",
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    with pytest.raises(confluent_kafka.KafkaException) as rejected:
        confluent.create_acls([acl])[acl].result(WITHIN_S)
    assert rejected.value.args[0].name() == "SECURITY_DISABLED"
    admin = kafka.KafkaAdminClient(bootstrap_servers=address)
    anything = kafka.admin.ResourcePatternFilter(
        kafka.admin.ResourceType.ANY, None, kafka.admin.ACLResourcePatternType.ANY
    )
    acls = kafka.admin.ACLFilter(None, "*", kafka.admin.ACLOperation.ANY, kafka.admin.ACLPermissionType.ANY, anything)
    try:
        with pytest.raises(kafka.errors.SecurityDisabledError):
            admin.describe_acls(acls)
    finally:
        admin.close()


def test_aiokafka_administers(address: str) -> None:
    async def run() -> None:
        admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=address)
        await admin.start()
        try:
            await admin.create_topics([aiokafka.admin.NewTopic("a3", 2, 1)])
            assert "a3" in await admin.list_topics()
            described = await admin.describe_topics(["a3"])
            assert len(described[0]["partitions"]) == 2
            await admin.delete_topics(["a3"])
            assert "a3" not in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(run())


def test_kcat_lists_and_asks_for_offsets(address: str) -> None:
    require("kcat")
    topic = create_topic(address, "for-kcat")
    produce("kcat", address, topic, RECORDS)
    done = subprocess.run(["kcat", "-b", address, "-L", "-J"], check=True, capture_output=True, timeout=WITHIN_S)
    listed = json.loads(done.stdout)
    assert topic in [entry["topic"] for entry in listed["topics"]]
    assert [broker["name"] for broker in listed["brokers"]] == [address]
    query = ["kcat", "-b", address, "-Q", "-t", f"{topic}:0:-1"]
    done = subprocess.run(query, check=True, capture_output=True, timeout=WITHIN_S)
    assert done.stdout.split() == [topic.encode(), b"[0]", b"offset", str(len(RECORDS)).encode()]


def test_kcat_consumes_in_a_group(address: str) -> None:
    require("kcat")
    topic = create_topic(address, "group-of-kcat")
    produce("confluent-kafka", address, topic, RECORDS)
    command = ["kcat", "-b", address, "-G", "kcats", "-X", "auto.offset.reset=earliest"]
    command += ["-c", str(len(RECORDS)), "-q", "-f", "%k;", topic]
    done = subprocess.run(command, check=True, capture_output=True, timeout=WITHIN_S)
    assert done.stdout == b"key;headers;long;;no value;"
