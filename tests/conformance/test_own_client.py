"""Our client and other people's, on a real Kafka: each reads what the other writes, in the same places."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import confluent_kafka
import pytest
from odradek.client import Consumer, Producer, TopicPartition
from odradek.tests.support.brokers.process import KafkaProcess
from odradek.tests.support.clients.others import CLIENTS, CODECS, Record, consume, create_topic, produce, require

RECORDS: list[Record] = [
    (b"key", b"value", []),
    (b"headers", b"two", [("a", b"1"), ("b", b"2")]),
    (b"long", b"0123456789abcdef" * 64, []),
    (None, b"no key", []),
    (b"no value", None, []),
]
WITHIN_MS = 30_000


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require("java")
    process = KafkaProcess(tmp_path_factory.mktemp("kafka"), num_partitions=3, group_initial_rebalance_delay_ms=0)
    try:
        process.start()
        yield process.address
    finally:
        process.close()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("other", CLIENTS)
async def test_we_read_what_others_write(kafka: str, other: str, codec: str) -> None:
    require(other)
    topic = create_topic(kafka, f"{other}-{uuid4().hex}")
    await asyncio.to_thread(produce, other, kafka, topic, RECORDS, codec)
    found: list[Record] = []
    async with Consumer(topic, bootstrap_servers=kafka, auto_offset_reset="earliest") as consumer:
        while len(found) < len(RECORDS):
            some = await consumer.getmany(timeout_ms=WITHIN_MS)
            assert some, "nothing more comes"
            found += [(each.key, each.value, list(each.headers)) for records in some.values() for each in records]
    assert found == RECORDS


@pytest.mark.parametrize("codec", CODECS)
async def test_others_read_what_we_write(kafka: str, codec: str) -> None:
    topic = create_topic(kafka, f"ours-{uuid4().hex}")
    async with Producer(kafka, compression_type=codec) as producer:
        for key, value, headers in RECORDS:
            await producer.send(topic, value, key=key, partition=0, headers=headers)
    for other in CLIENTS:
        if other != "kcat":  # its own tests need it; here it may be missing
            assert await asyncio.to_thread(consume, other, kafka, topic, len(RECORDS)) == RECORDS, other


async def test_the_same_keys_are_on_the_same_partitions(kafka: str) -> None:
    topic, keys = f"keys-{uuid4().hex}", [b"%d" % number * (number % 7 + 1) for number in range(200)]
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka})
    for each in admin.create_topics([confluent_kafka.admin.NewTopic(topic, 7)]).values():
        each.result(30)
    theirs = confluent_kafka.Producer({"bootstrap.servers": kafka, "partitioner": "murmur2_random"})
    for key in keys:
        theirs.produce(topic, b"theirs", key)
    theirs.flush(30)
    async with Producer(kafka) as producer:
        await producer.send_many(topic, [(key, b"ours") for key in keys])
    places: dict[bytes | None, set[int]] = {}
    seen = 0
    async with Consumer(topic, bootstrap_servers=kafka, auto_offset_reset="earliest") as consumer:
        while seen < 2 * len(keys):
            for partition, records in (await consumer.getmany(timeout_ms=WITHIN_MS)).items():
                seen += len(records)
                for each in records:
                    places.setdefault(each.key, set()).add(partition.partition)
    assert {len(where) for where in places.values()} == {1}


async def test_a_group_of_ours_and_theirs_shares_the_partitions(kafka: str) -> None:
    topic, group = create_topic(kafka, f"group-{uuid4().hex}", 3), uuid4().hex
    async with Producer(kafka) as producer:
        for partition in range(2):
            await producer.send_and_wait(topic, b"x", partition=partition)
    config = {"bootstrap.servers": kafka, "group.id": group, "auto.offset.reset": "earliest"}
    theirs = confluent_kafka.Consumer(config | {"partition.assignment.strategy": "range"})
    theirs.subscribe([topic])
    async with Consumer(topic, bootstrap_servers=kafka, group_id=group, auto_offset_reset="earliest") as ours:
        for _ in range(600):
            theirs.poll(0.05)
            await ours.getmany(timeout_ms=20)
            mine, other = (
                {each.partition for each in ours.assignment()},
                {each.partition for each in theirs.assignment()},
            )
            if mine and other:
                break
        assert mine | other == {0, 1, 2} and not mine & other
    theirs.close()


async def test_transactions_are_seen_by_both_sides(kafka: str) -> None:
    topic = create_topic(kafka, f"txn-{uuid4().hex}")
    async with Producer(kafka, transactional_id=uuid4().hex) as producer:
        async with producer.transaction():
            await producer.send(topic, b"ours", partition=0)
        await producer.begin_transaction()
        await producer.send(topic, b"aborted", partition=0)
        await producer.flush()
        await producer.abort_transaction()
    theirs = confluent_kafka.Producer({"bootstrap.servers": kafka, "transactional.id": uuid4().hex})
    theirs.init_transactions(30)
    theirs.begin_transaction()
    theirs.produce(topic, b"theirs", partition=0)
    theirs.commit_transaction(30)
    consumer = Consumer(bootstrap_servers=kafka, auto_offset_reset="earliest", isolation_level="read_committed")
    consumer.assign([TopicPartition(topic, 0)])
    async with consumer:
        assert [(await consumer.getone()).value for _ in range(2)] == [b"ours", b"theirs"]
    reader = confluent_kafka.Consumer({"bootstrap.servers": kafka, "group.id": uuid4().hex})
    reader.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found = [reader.poll(30) for _ in range(2)]
    assert [each.value() for each in found if each is not None] == [b"ours", b"theirs"]
    reader.close()
