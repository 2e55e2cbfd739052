"""Our producer's transactions in both versions, with our broker and with a real Kafka where its jars are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from odradek.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from odradek.client.errors import KafkaError, ProducerFenced, TransactionAborted
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.tests.support.brokers.process import BrokerProcess, KafkaProcess
from odradek.tests.support.clients.exactly_once import read_committed
from odradek.tests.support.clients.others import require
from odradek.tests.support.clients.raw import Raw

SAFE_DOWNGRADE = 2


@pytest.fixture(scope="module", params=[BrokerProcess, KafkaProcess], ids=["odradek", "kafka"])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of our broker, then that of a Kafka."""
    if request.param is KafkaProcess:
        require("java")
    process = request.param(tmp_path_factory.mktemp("broker"), group_initial_rebalance_delay_ms=0).start()
    yield process.address
    process.close()


def transactions_of(address: str, version: int, topic: str) -> None:
    asyncio.run(all_of(address, version, topic))


async def all_of(address: str, version: int, topic: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic(topic, 2)])
    async with Producer(address, transactional_id=topic) as producer:
        for number in range(5):
            async with producer.transaction():
                await producer.send(topic, b"%d" % number, partition=number % 2)
                await producer.send_offsets({TopicPartition(topic, 0): number}, f"{topic}-group")
        # Each end of a transaction brings an epoch in version 2.
        assert await epoch_of(address, topic) == (5 if version == 2 else 0)
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"aborted", partition=0)
                raise ZeroDivisionError
        await consume_and_produce(address, producer, topic)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"old", partition=0)
        async with Producer(address, transactional_id=topic) as newer:
            with pytest.raises(ProducerFenced):
                await producer.commit_transaction()
            async with newer.transaction():
                await newer.send(topic, b"new", partition=0)


async def epoch_of(address: str, transactional_id: str) -> int:
    async with Admin(address) as admin:
        return (await admin.describe_transactions(transactional_id))[transactional_id].producer_epoch


async def consume_and_produce(address: str, producer: Producer, topic: str) -> None:
    """Read as a member of a group, and commit its offsets within a transaction; a stale member is rejected."""
    options = {"isolation_level": "read_committed", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumer = Consumer(topic, bootstrap_servers=address, group_id=f"{topic}-member", **options)  # type: ignore[arg-type]
    async with consumer:
        while not (records := await consumer.getmany(timeout_ms=1000, max_records=1)):
            pass
        [(partition, [record])] = records.items()
        async with producer.transaction():
            await producer.send(topic, b"copy of " + (record.value or b""), partition=1)
            await producer.send_offsets({partition: record.offset + 1}, consumer.group_metadata())
        assert (await consumer.committed(partition))[partition].offset == record.offset + 1  # type: ignore[union-attr]
        stale = consumer.group_metadata()._replace(generation_id=99)
        await producer.begin_transaction()
        dropped = await producer.send(topic, b"stale", partition=1)
        with pytest.raises(KafkaError, match=r"ILLEGAL_GENERATION|STALE_MEMBER_EPOCH"):
            await producer.send_offsets({partition: 1}, stale)
        await producer.abort_transaction()
        assert dropped.exception() is None or isinstance(dropped.exception(), (TransactionAborted, KafkaError))


def check_log(address: str, topic: str) -> None:
    values = [[value for _, value in read_committed(address, topic, partition)] for partition in (0, 1)]
    assert values[0][:3] == [b"0", b"2", b"4"]
    assert values[0][-1] == b"new"
    assert values[1][:2] == [b"1", b"3"]
    assert values[1][2].startswith(b"copy of ")
    assert len(values[0]) == 4
    assert len(values[1]) == 3


def test_version_2_and_then_1_after_the_cluster_was_lowered(either: str) -> None:
    transactions_of(either, 2, "version-2")
    check_log(either, "version-2")
    asyncio.run(lower(either))
    transactions_of(either, 1, "version-1")
    check_log(either, "version-1")


async def lower(address: str) -> None:
    """Have the cluster finalize transaction version 1."""
    update = FeatureUpdateKey("transaction.version", 1, upgrade_type=SAFE_DOWNGRADE)
    async with await Raw.connect(address) as raw:
        answer = await raw.ask(ApiKey.UPDATE_FEATURES, 1, UpdateFeaturesRequest(feature_updates=[update]))
        assert answer.error_code == 0, answer
