"""Produce and Fetch tell clients of the leader that they looked for elsewhere (KIP-951)."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster

ELSEWHERE, FENCED = int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.FENCED_LEADER_EPOCH)


def produce(cluster: HandCluster, version: int, records: bytes) -> ProduceRequest:
    """A batch for both partitions of the topic."""
    parts = [PartitionProduceData(index, records) for index in (0, 1)]
    name, topic_id = ("t", bytes(16)) if version < 13 else ("", cluster.controller.ids["t"])
    return ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=[TopicProduceData(name, topic_id, parts)])


@pytest.mark.parametrize("version", [9, 10, 12, 13])
async def test_a_producer_is_told_of_the_leader(tmp_path: Path, version: int) -> None:
    async with HandCluster(tmp_path, 3) as cluster:
        await cluster.assign("t", 0, leader=1)
        await cluster.assign("t", 0, leader=3)
        await cluster.assign("t", 1, leader=2, replicas=(2, 3), isr=(2, 3))
        port = int(cluster.brokers[3].address.rpartition(":")[2])
        for node, is_right in ((2, (False, True)), (1, (False, False))):
            async with await cluster.connect(node) as raw:
                answer = await raw.ask(ApiKey.PRODUCE, version, produce(cluster, version, batch_of(b"x")))
            told = [(each.error_code, each.current_leader) for each in answer.responses[0].partition_responses]
            assert [code for code, _ in told] == [0 if right else ELSEWHERE for right in is_right]
            leaders = [(leader.leader_id, leader.leader_epoch) for _, leader in told]
            known = [(3, 1), (2, 0)] if version >= 10 else [(-1, -1)] * 2
            assert leaders == [(-1, -1) if right else each for right, each in zip(is_right, known, strict=True)]
            wanted = {leader for leader, _ in leaders} - {-1}
            assert {each.node_id for each in answer.node_endpoints} == wanted
            assert len(answer.node_endpoints) == len(wanted)
            assert all(each.port == port for each in answer.node_endpoints if each.node_id == 3)
        # Node 1 follows one, and does not hold the other: records of the wrong form are wrong everywhere.
        async with await cluster.connect(1) as raw:
            for records in (batch_of(b"x") * 2, batch_of(b"x")[:-1], b""):
                answer = await raw.ask(ApiKey.PRODUCE, version, produce(cluster, version, records))
                codes = [each.error_code for each in answer.responses[0].partition_responses]
                assert codes == [ErrorCode.INVALID_RECORD] * 2


@pytest.mark.parametrize("version", [12, 15, 16, 17])
async def test_a_consumer_is_told_of_the_leader(tmp_path: Path, version: int) -> None:
    """With an old epoch at the leader itself, and at a broker that has no replica."""
    async with HandCluster(tmp_path, 3) as cluster:
        await cluster.assign("t", leader=1, replicas=(1, 2), isr=(1, 2))
        await cluster.assign("t", leader=2)
        for node, code in ((2, FENCED), (3, ELSEWHERE)):
            name, topic_id = ("t", bytes(16)) if version < 13 else ("", cluster.controller.ids["t"])
            wanted = FetchPartition(0, current_leader_epoch=0, fetch_offset=0, partition_max_bytes=1000)
            topics = [FetchTopic(topic=name, topic_id=topic_id, partitions=[wanted])]
            async with await cluster.connect(node) as raw:
                request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1000, topics=topics)
                answer = await raw.ask(ApiKey.FETCH, version, request)
            data = answer.responses[0].partitions[0]
            assert data.error_code == code
            told = data.current_leader.leader_id, data.current_leader.leader_epoch
            assert told == ((2, 1) if version >= 16 else (-1, -1))
            assert [each.node_id for each in answer.node_endpoints] == ([2] if version >= 16 else [])
