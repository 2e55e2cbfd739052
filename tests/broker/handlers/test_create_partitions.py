"""CreatePartitions: more partitions, at once, for good; and every reason against it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.storage.errors import DiskError
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.disks.disk import FaultyDisk


async def grow(
    raw: Raw, *topics: CreatePartitionsTopic, version: int = 3, validate_only: bool = False
) -> list[tuple[str, int]]:
    request = CreatePartitionsRequest(list(topics), 1000, validate_only)
    response = await raw.ask(ApiKey.CREATE_PARTITIONS, version, request)
    for each in response.results:
        assert (each.error_message is None) == (each.error_code == 0)
    return [(each.name, each.error_code) for each in response.results]


def more(count: int, replicas: list[list[int]] | None = None, name: str = "t") -> CreatePartitionsTopic:
    assignments = None if replicas is None else [CreatePartitionsAssignment(ids) for ids in replicas]
    return CreatePartitionsTopic(name, count, assignments)


async def partitions(raw: Raw, name: str = "t") -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    return len((await raw.ask(ApiKey.METADATA, 12, request)).topics[0].partitions)


@pytest.mark.parametrize("version", range(4))
async def test_new_partitions_are_served_when_they_are_answered(raw: Raw, version: int) -> None:
    await raw.create_topic("t", 2)
    await raw.produce("t", batch_of(b"stays"), partition=1)
    assert await grow(raw, more(5), version=version) == [("t", 0)]
    assert await partitions(raw) == 5
    assert (await raw.produce("t", batch_of(b"new"), partition=4)).error_code == 0
    assert (await raw.fetch("t", 0, partition=1)).high_watermark == 1
    assert (await raw.fetch("t", 0, partition=4)).high_watermark == 1


async def test_new_partitions_and_their_records_survive_a_restart(config: BrokerConfig) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        result = await raw.create_topic("t", 2, segment_bytes="2000000")
        assert await grow(raw, more(4)) == [("t", 0)]
        await raw.produce("t", batch_of(b"new"), partition=3)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        topic = broker.topics.get("t")
        assert topic is not None and topic.id == result.topic_id and len(topic.partitions) == 4
        assert (await raw.fetch("t", 0, partition=3)).high_watermark == 1
        assert {each.log.config.segment_bytes for each in topic.partitions} == {2_000_000}


async def test_too_many_new_partitions_reject_the_whole_request(raw: Raw) -> None:
    for name in ("t", "u"):
        await raw.create_topic(name, 2)
    code = ErrorCode.POLICY_VIOLATION
    assert await grow(raw, more(5_002), more(5_003, name="u"), validate_only=True) == [("t", code), ("u", code)]
    assert await grow(raw, more(10_001, name="nobody"), more(3)) == [("nobody", code), ("t", code)]
    assert await grow(raw, more(5_002), more(5_002, name="u"), validate_only=True) == [("t", 0), ("u", 0)]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (more(2), ErrorCode.INVALID_PARTITIONS),
        (more(1), ErrorCode.INVALID_PARTITIONS),
        (more(0), ErrorCode.INVALID_PARTITIONS),
        (more(-1), ErrorCode.INVALID_PARTITIONS),
        (more(10_001), ErrorCode.POLICY_VIOLATION),
        (more(3, name="nobody"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (more(3, name=""), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (more(4, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more(4, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more(3, [[1], [1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more(3, [[9]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more(3, [[1, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more(3, [[]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_a_rejected_request_changes_nothing(raw: Raw, asked: CreatePartitionsTopic, code: ErrorCode) -> None:
    await raw.create_topic("t", 2)
    assert await grow(raw, asked) == [(asked.name, code)]
    assert await partitions(raw) == 2


async def test_a_topics_error_leaves_the_others_alone_and_a_name_twice_is_rejected(raw: Raw) -> None:
    await raw.create_topic("t", 1)
    await raw.create_topic("u", 1)
    asked = [more(2), more(3, name="u"), more(2, name="nobody"), more(4)]
    assert await grow(raw, *asked) == [("t", ErrorCode.INVALID_REQUEST), ("u", 0), ("nobody", 3)]
    assert (await partitions(raw), await partitions(raw, "u")) == (1, 3)


async def test_validating_creates_no_partition_and_replicas_may_be_named(raw: Raw) -> None:
    await raw.create_topic("t", 1)
    assert await grow(raw, more(3, [[1], [1]]), validate_only=True) == [("t", 0)]
    assert await partitions(raw) == 1
    assert await grow(raw, more(3, [[1], [1]])) == [("t", 0)]
    assert await partitions(raw) == 3


async def test_the_brokers_own_topic_keeps_its_number(broker: Broker, raw: Raw) -> None:
    broker.services.internal_topics.create("__consumer_offsets")
    assert await grow(raw, more(90, name="__consumer_offsets")) == [
        ("__consumer_offsets", ErrorCode.INVALID_TOPIC_EXCEPTION)
    ]


async def test_others_have_their_turns_and_a_second_growth_waits_for_nothing(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t", 1)
    async with await Raw.connect(broker.address) as other:
        raw.send(ApiKey.CREATE_PARTITIONS, 3, CreatePartitionsRequest([more(200)], 1000))
        while broker.services.metadata.topics["t"].partitions == 1:
            await partitions(other)
        assert await grow(other, more(300)) == [("t", ErrorCode.REASSIGNMENT_IN_PROGRESS)]
        assert (await other.produce("t", batch_of(b"meanwhile"))).error_code == 0
        assert await partitions(other) == 1
        assert (await raw.receive(ApiKey.CREATE_PARTITIONS, 3)).results[0].error_code == 0
        assert await partitions(other) == 200


async def test_a_topic_deleted_while_it_grows_is_gone_with_its_new_partitions(
    broker: Broker, raw: Raw, config: BrokerConfig
) -> None:
    await raw.create_topic("t", 1)
    async with await Raw.connect(broker.address) as other:
        raw.send(ApiKey.CREATE_PARTITIONS, 3, CreatePartitionsRequest([more(300)], 1000))
        while broker.services.metadata.topics["t"].partitions == 1:
            await partitions(other)
        await other.delete_topic("t")
        code = (await raw.receive(ApiKey.CREATE_PARTITIONS, 3)).results[0].error_code
        assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await broker.stop()
    assert all(each.name.endswith("-delete") for each in config.data_dir.glob("t-*"))


async def test_a_growth_that_a_stop_cut_short_is_finished_by_the_next_start(config: BrokerConfig) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 1)
        topic = broker.topics.get("t")
        assert topic is not None
        broker.topics.begin_growth(topic, 7)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert await partitions(raw) == 7


async def test_a_full_disk_leaves_the_topic_unchanged(config: BrokerConfig) -> None:
    disk = FaultyDisk()
    async with Broker(replace(config), disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 1)
        topic = broker.topics.get("t")
        assert topic is not None
        growth = broker.topics.begin_growth(topic, 3)
        disk.room_bytes = 0
        with pytest.raises(DiskError):
            growth.finish()
        disk.room_bytes = None
        assert await partitions(raw) == 1
        assert await grow(raw, more(2)) == [("t", 0)]
