"""Our consumer and share consumer in groups of the newer kinds, on our broker and a real Kafka: KIP-848 and KIP-932."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from odradek.client import (
    Admin,
    ConfigResource,
    Consumer,
    NewTopic,
    Producer,
    ShareConsumer,
    ShareRecord,
    TopicPartition,
)
from odradek.client.errors import InvalidAcknowledgement, KafkaError, UnsupportedVersion
from odradek.protocol.errors import ErrorCode
from odradek.tests.client.consumer.test_group_protocols import PARTITIONS, Reader
from odradek.tests.support.brokers.process import BrokerProcess, KafkaProcess
from odradek.tests.support.clients.others import require
from odradek.tests.support.waiting import until

SETTINGS = {
    "group_initial_rebalance_delay_ms": 0,
    "group_consumer_min_heartbeat_interval_ms": 100,
    "group_consumer_heartbeat_interval_ms": 100,
    "group_consumer_min_session_timeout_ms": 1_000,
    "group_share_min_heartbeat_interval_ms": 100,
    "group_share_heartbeat_interval_ms": 100,
    "group_share_min_session_timeout_ms": 1_000,
    "group_share_min_record_lock_duration_ms": 1_000,
    "share_coordinator_state_topic_replication_factor": 1,
    "share_coordinator_state_topic_min_isr": 1,
}
WITHIN_S = 60


@pytest.fixture(scope="module", params=[BrokerProcess, KafkaProcess], ids=["odradek", "kafka"])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of our broker, then that of a Kafka."""
    if request.param is KafkaProcess:
        require("java")
    process = request.param(tmp_path_factory.mktemp("broker"), **SETTINGS)
    try:
        process.start()
        yield process.address
    finally:
        process.close()


@pytest.fixture
async def topic(either: str) -> str:
    """A topic, whose name is that of the test's group, too."""
    return await made(either, PARTITIONS)


@pytest.fixture
async def queue(either: str) -> str:
    """A topic of one partition, which all members of a share group have. The group begins at the first record."""
    name = await made(either, 1)
    async with Admin(either) as admin:
        try:
            await admin.list_share_group_offsets(name)
        except UnsupportedVersion:
            pytest.skip("the broker offers no share groups")
        except KafkaError as error:
            assert error.code is ErrorCode.GROUP_ID_NOT_FOUND
        await admin.alter_configs({ConfigResource.group(name): {"share.auto.offset.reset": "earliest"}})
    return name


async def made(address: str, partitions: int) -> str:
    name = f"t-{uuid4().hex}"
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic(name, partitions)])
    return name


async def write(address: str, topic: str, first: int, after: int, partition: int | None = None) -> None:
    async with Producer(address, linger_ms=0) as producer:
        for number in range(first, after):
            chosen = number % PARTITIONS if partition is None else partition
            await producer.send(topic, b"%d" % number, partition=chosen)


# -- Consumer groups


def member(address: str, topic: str, protocol: str, **options: Any) -> Consumer[Any, Any]:
    own = {"heartbeat_interval_ms": 100} if protocol == "classic" else {}
    quick = {"group_id": topic, "auto_offset_reset": "earliest", "bootstrap_servers": address}
    return Consumer(topic, group_protocol=protocol, **quick | own | options)


def have_all(*readers: Reader) -> bool:
    held = [reader.consumer.assignment() for reader in readers]
    return all(held) and sum(map(len, held)) == PARTITIONS == len(set().union(*held))


async def test_a_group_moves_to_the_consumer_protocol_under_load_and_reads_each_record_once(
    either: str, topic: str
) -> None:
    read: list[int] = []
    readers = [await Reader(member(either, topic, "classic"), read).start() for _ in range(2)]
    await until(lambda: have_all(*readers))
    sent = 0
    for number in range(2):
        await write(either, topic, sent, sent + 60)
        await readers[number].stop()
        readers[number] = await Reader(member(either, topic, "consumer"), read).start()
        await write(either, topic, sent + 60, sent + 120)
        sent += 120
        await until(lambda: have_all(*readers))
    await until(lambda: len(read) >= sent)
    async with Admin(either) as admin:
        async with asyncio.timeout(WITHIN_S):
            while (group := (await admin.describe_groups(topic))[topic]).state != "Stable":
                await asyncio.sleep(0.05)
        assert (group.type, group.protocol, group.awaited()) == ("consumer", "uniform", [])
        assert {each.protocol for each in group.members} == {"consumer"}
    for reader in readers:
        await reader.stop()
    assert Counter(read) == Counter(range(sent))


async def test_a_static_member_comes_back_to_its_partitions(either: str, topic: str) -> None:
    readers = [
        await Reader(member(either, topic, "consumer", group_instance_id=f"i{number}"), []).start()
        for number in range(2)
    ]
    await until(lambda: have_all(*readers))
    had = [reader.consumer.assignment() for reader in readers]
    await readers[0].stop()
    readers[0] = await Reader(member(either, topic, "consumer", group_instance_id="i0"), []).start()
    await until(lambda: have_all(*readers))
    assert [reader.consumer.assignment() for reader in readers] == had
    for reader in readers:
        await reader.stop()


async def test_an_instance_id_that_is_in_use_is_rejected(either: str, topic: str) -> None:
    reader = await Reader(member(either, topic, "consumer", group_instance_id="i"), []).start()
    await until(lambda: have_all(reader))
    async with member(either, topic, "consumer", group_instance_id="i") as second:
        with pytest.raises(KafkaError) as caught:
            await second.getmany(timeout_ms=10_000)
        assert caught.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
    await reader.stop()


async def test_by_default_a_static_member_takes_the_place_of_one_that_was_killed(either: str, topic: str) -> None:
    options = {"bootstrap_servers": either, "group_id": topic, "group_instance_id": "i"}
    everything = {TopicPartition(topic, number) for number in range(PARTITIONS)}
    async with asyncio.timeout(WITHIN_S), Consumer(topic, **options) as killed:
        while everything - killed.assignment():
            await killed.getmany(timeout_ms=20)
        # The first one says nothing more, as after kill -9.
        async with Consumer(topic, **options) as again:
            while everything - again.assignment():
                await again.getmany(timeout_ms=20)


async def test_the_broker_matches_a_pattern_and_says_what_is_wrong_with_one(either: str, topic: str) -> None:
    await write(either, topic, 0, 10)
    consumer = Consumer(
        bootstrap_servers=either, group_id=topic, group_protocol="consumer", auto_offset_reset="earliest"
    )
    consumer.subscribe(pattern=f"(?P<all>{topic[:-1]}.)")
    reader = await Reader(consumer, []).start()
    await until(lambda: sorted(reader.read) == list(range(10)))
    await reader.stop()


# -- Share groups


def worker(address: str, queue: str, **options: Any) -> ShareConsumer[Any, Any]:
    return ShareConsumer(queue, group_id=queue, bootstrap_servers=address, **options)


async def take(consumer: ShareConsumer[Any, Any], count: int, **options: Any) -> list[ShareRecord[Any, Any]]:
    """Poll until so many records are there."""
    found: list[ShareRecord[Any, Any]] = []
    async with asyncio.timeout(WITHIN_S):
        while len(found) < count:
            for records in (await consumer.getmany(timeout_ms=1_000, **options)).values():
                found += records
    return found


async def test_members_share_one_partition_and_take_each_record_once(either: str, queue: str) -> None:
    await write(either, queue, 0, 300, partition=0)
    read: list[int] = []

    options = {"max_poll_records": 10, "share_acquire_mode": "record_limit"}
    async with worker(either, queue, **options) as first, worker(either, queue, **options) as second:
        for turn in range(30):
            read += [int(each.value) for each in await take((first, second)[turn % 2], 10)]
    assert Counter(read) == Counter(range(300))


async def test_what_was_accepted_stays_so_and_the_rest_goes_to_the_next_member(either: str, queue: str) -> None:
    await write(either, queue, 0, 10, partition=0)
    with pytest.raises(ZeroDivisionError):
        async with worker(either, queue) as consumer:
            async for record in consumer:
                if record.offset == 4:
                    raise ZeroDivisionError
    async with worker(either, queue) as consumer:
        again = await take(consumer, 6)
    assert [(each.offset, each.delivery_count) for each in again] == [(offset, 2) for offset in range(4, 10)]


async def test_records_are_accepted_released_and_rejected_one_by_one(either: str, queue: str) -> None:
    await write(either, queue, 0, 9, partition=0)
    told: list[tuple[int, ...]] = []

    def listener(_partition: object, offsets: list[int], error: KafkaError | None) -> None:
        told.append((*offsets,) if error is None else ())

    options = {"share_acknowledgement_mode": "explicit", "acknowledgement_listener": listener}
    async with worker(either, queue, **options) as consumer:
        records = await take(consumer, 9)
        with pytest.raises(InvalidAcknowledgement, match="accept, release, reject or renew it before"):
            await consumer.getmany()
        consumer.accept(*records[:3])
        consumer.release(*records[3:6])
        consumer.reject(*records[6:])
        await consumer.commit()
        assert told == [tuple(range(9))]
        again = await take(consumer, 3)
        assert [(each.offset, each.delivery_count) for each in again] == [(3, 2), (4, 2), (5, 2)]
        consumer.accept(*again)
        consumer.commit_soon()
        await until(lambda: len(told) == 2)
    async with Admin(either) as admin:
        offset = (await admin.list_share_group_offsets(queue))[TopicPartition(queue, 0)]
        assert offset.lag == 0, "its start moves with the next acknowledgement"


async def test_a_lock_that_is_renewed_holds_on_and_one_that_is_not_goes_to_another_member(
    either: str, queue: str
) -> None:
    async with Admin(either) as admin:
        await admin.alter_configs({ConfigResource.group(queue): {"share.record.lock.duration.ms": "1000"}})
    await write(either, queue, 0, 2, partition=0)
    explicit = {"share_acknowledgement_mode": "explicit"}
    async with worker(either, queue, **explicit) as slow, worker(either, queue, **explicit) as quick:
        kept, lost = await take(slow, 2)
        assert slow.acquisition_lock_timeout_ms() == 1_000
        assert 0 < slow.lock_left_ms(kept) <= 1_000
        taken: list[ShareRecord[Any, Any]] = []
        async with asyncio.timeout(WITHIN_S):
            while not taken:
                await slow.renew(kept)
                taken = [each for some in (await quick.getmany(timeout_ms=100)).values() for each in some]
        assert [(each.offset, each.delivery_count) for each in taken] == [(lost.offset, 2)]
        quick.accept(*taken)
        await quick.commit()
        slow.accept(lost)
        with pytest.raises(KafkaError) as caught:
            await slow.commit()
        assert caught.value.code is ErrorCode.INVALID_RECORD_STATE
        slow.accept(kept)
        await slow.commit()


async def test_a_share_group_is_described_reset_and_deleted(either: str, queue: str) -> None:
    await write(either, queue, 0, 10, partition=0)
    async with Admin(either) as admin, worker(either, queue) as consumer:
        await take(consumer, 10)
        group = (await admin.describe_groups(queue))[queue]
        assert (group.type, group.state, len(group.members)) == ("share", "Stable", 1)
        with pytest.raises(KafkaError) as caught:
            await admin.alter_share_group_offsets(queue, {TopicPartition(queue, 0): 0})
        assert caught.value.code is ErrorCode.NON_EMPTY_GROUP
        await consumer.stop()
        await admin.alter_share_group_offsets(queue, {TopicPartition(queue, 0): 4})
        async with worker(either, queue) as again:
            assert [each.offset for each in await take(again, 6)] == [4, 5, 6, 7, 8, 9]
        await admin.delete_share_group_offsets(queue, [queue])
        assert await admin.list_share_group_offsets(queue) == {}
        await admin.delete_groups(queue)
        assert queue not in {each.group_id for each in await admin.list_groups()}
