"""Replication over three brokers, whose controller the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from odradek.broker.replication.replicas import FULL
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.update_metadata import FULL as FULL_METADATA
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster, bytes_of
from odradek.tests.support.waiting import until


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[HandCluster]:
    async with HandCluster(tmp_path) as each:
        yield each


async def test_a_record_with_acks_all_reaches_every_replica_before_it_is_acknowledged(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    async with await cluster.connect(1) as raw:
        for number in range(5):
            result = await raw.produce("t", batch_of(b"value-%d" % number), timeout_ms=20_000)
            assert (result.error_code, result.base_offset) == (0, number)
            assert [cluster.partition(node).log.log_end_offset for node in (1, 2, 3)] == [number + 1] * 3
        fetched = await raw.fetch("t", 0)
    assert (fetched.error_code, fetched.high_watermark) == (0, 5)
    assert bytes_of(cluster, 1) == bytes_of(cluster, 2) == bytes_of(cluster, 3)


async def test_a_broker_that_does_not_know_the_cluster_yet_tells_nothing_of_it(cluster: HandCluster) -> None:
    """Not that there are no brokers and no topics: clients would drop what they know, librdkafka every broker."""
    await cluster.stop(1)
    await cluster.start(1)
    for key, version, request in (
        (ApiKey.METADATA, 12, MetadataRequest()),
        (ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name="t")])),
        (ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest()),
    ):
        async with await cluster.connect(1) as raw:
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await raw.ask(key, version, request)
    await cluster.assign("t", leader=1)
    async with await cluster.connect(1) as raw:
        answer = await raw.ask(ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name="t")]))
    assert {each.node_id for each in answer.brokers} >= {1, 2, 3}
    assert [each.error_code for each in answer.topics] == [0]


async def test_a_follower_rejects_producers_and_old_consumers(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    async with await cluster.connect(2) as raw:
        assert (await raw.produce("t", batch_of(b"x"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await raw.fetch("t", 0, version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_acks_all_waits_for_followers_that_hang_and_says_so(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1, to=(1,))
    async with await cluster.connect(1) as raw:
        result = await raw.produce("t", batch_of(b"x"), timeout_ms=50)
        assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert (await raw.produce("t", batch_of(b"y"), acks=1)).error_code == 0
        fetched = await raw.fetch("t", 0)
        assert (fetched.high_watermark, fetched.records) == (0, b"")
    await cluster.assign("t", leader=1)
    await until(lambda: cluster.partition(1).high_watermark == 2)
    assert bytes_of(cluster, 1) == bytes_of(cluster, 3)


async def test_the_high_watermark_reaches_the_followers(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=2)
    async with await cluster.connect(2) as raw:
        await raw.produce("t", batch_of(b"x", b"y"), timeout_ms=20_000)
    await until(lambda: all(cluster.partition(node).high_watermark == 2 for node in (1, 2, 3)))
    async with await cluster.connect(3) as raw:
        fetched = await raw.fetch("t", 0)
    assert (fetched.error_code, fetched.high_watermark) == (0, 2)
    assert bytes(fetched.records) == bytes_of(cluster, 2)


async def test_a_consumer_that_waits_is_woken_by_the_high_watermark(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    async with await cluster.connect(1) as reader, await cluster.connect(1) as writer:
        waiting = asyncio.ensure_future(reader.fetch("t", 0, max_wait_ms=20_000))
        await asyncio.sleep(0)
        await writer.produce("t", batch_of(b"x"), acks=1)
        assert (await waiting).high_watermark == 1


async def test_where_an_fsync_is_required_every_replica_has_done_it_before_the_answer(tmp_path: Path) -> None:
    async with HandCluster(tmp_path, log_flush_interval_messages=1) as cluster:
        await cluster.assign("t", leader=1)
        async with await cluster.connect(1) as raw:
            assert (await raw.produce("t", batch_of(b"x"), timeout_ms=20_000)).error_code == 0
        assert [cluster.partition(node).log.recovery_point for node in (1, 2, 3)] == [1, 1, 1]


async def test_metadata_tells_of_every_broker_and_of_partitions_that_are_elsewhere(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=2, replicas=(2, 3), isr=(2, 3))
    async with await cluster.connect(1) as raw:
        answer = await raw.ask(ApiKey.METADATA, 9, MetadataRequest([MetadataRequestTopic(name="t")]))
        assert {1, 2, 3} <= {each.node_id for each in answer.brokers}
        (partition,) = answer.topics[0].partitions
        assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (2, [2, 3], [2, 3])
        assert (await raw.produce("t", batch_of(b"x"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await raw.fetch("t", 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        described = await raw.ask(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest([TopicRequest("t")])
        )
        assert described.topics[0].partitions[0].leader_id == 2
        services = cluster.brokers[1].services
        wanted = AlterReplicaLogDir(str(services.config.log_dirs[0]), [AlterReplicaLogDirTopic("t", [0])])
        placed = await raw.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, AlterReplicaLogDirsRequest([wanted]))
        assert placed.results[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await cluster.stop(2)
    await cluster.update_metadata()
    async with await cluster.connect(1) as raw:
        answer = await raw.ask(ApiKey.METADATA, 9, MetadataRequest([MetadataRequestTopic(name="t")]))
        (partition,) = answer.topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert partition.offline_replicas == [2]


async def test_a_topic_that_a_full_update_does_not_name_is_gone(cluster: HandCluster) -> None:
    """It was deleted while broker 1 was not registered; an update of what has changed names few topics."""
    await cluster.assign("t", leader=2, replicas=(2, 3), isr=(2, 3))
    await cluster.assign("u", leader=2, replicas=(2, 3), isr=(2, 3))
    del cluster.controller.states["t", 0]

    async def known() -> set[str]:
        async with await cluster.connect(1) as raw:
            answer = await raw.ask(ApiKey.METADATA, 9, MetadataRequest(None))
            return {each.name for each in answer.topics} & {"t", "u"}

    await cluster.update_metadata(to=(1,))
    assert await known() == {"t", "u"}
    await cluster.update_metadata(to=(1,), type=FULL_METADATA)
    assert await known() == {"u"}


async def test_a_broker_without_partitions_is_ready_when_it_knows_the_cluster(tmp_path: Path) -> None:
    """Kafka's own controller sends it no LeaderAndIsr."""
    async with HandCluster(tmp_path, 2) as cluster:
        for broker in cluster.brokers.values():
            assert broker.services.replicas is not None and broker.services.replicas.is_ready.is_set()


@pytest.mark.parametrize("is_replica", [True, False])
async def test_a_broker_that_slept_through_the_deletion_of_a_topic_takes_part_in_the_next_of_its_name(
    cluster: HandCluster, is_replica: bool
) -> None:
    await cluster.assign("t", leader=3, isr=(3,), replicas=(3,))
    async with await cluster.connect(3) as raw:
        await raw.produce("t", batch_of(b"of the deleted topic"))
    # The topic was moved to other brokers, deleted and created again while broker 3 was away.
    cluster.controller.ids["t"] = new_id = b"another topic id"
    state = cluster.controller.states["t", 0]
    state.leader, state.leader_epoch = 3 if is_replica else 1, 0
    state.isr = state.replicas = (state.leader,)
    await cluster.update_metadata(to=(3,))
    answer = await cluster.leader_and_isr(3, [("t", 0)] if is_replica else [], type=FULL)
    assert [each.error_code for topic in answer.topics for each in topic.partition_errors] == [0] * is_replica
    topic = cluster.brokers[3].topics.get("t")
    assert topic is not None and topic.id == new_id
    async with await cluster.connect(3) as raw:
        result = await raw.produce("t", batch_of(b"of the new topic"), timeout_ms=20_000)
        if is_replica:
            assert (result.error_code, result.base_offset) == (0, 0)
        else:
            assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
