"""DescribeQuorum of a broker that is alone, as a running Kafka 4.4.0 of one node answered."""

from __future__ import annotations

import pytest
from odradek.broker import Broker
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from odradek.tests.support.clients.raw import Raw

METADATA = TopicData("__cluster_metadata", [PartitionData(0)])


@pytest.mark.parametrize("version", range(3))
async def test_the_broker_is_the_only_voter_and_leads(broker: Broker, raw: Raw, version: int) -> None:
    response = await raw.ask(ApiKey.DESCRIBE_QUORUM, version, DescribeQuorumRequest([METADATA]))
    ((quorum,),) = [topic.partitions for topic in response.topics]
    (voter,) = quorum.current_voters
    assert (response.error_code, quorum.error_code, quorum.observers) == (0, 0, [])
    assert quorum.leader_id == voter.replica_id == broker.node_id
    assert quorum.high_watermark == voter.log_end_offset > 0
    assert (voter.last_fetch_timestamp == voter.last_caught_up_timestamp > 0) is (version >= 1)
    named = [(each.node_id, [(at.host, at.port) for at in each.listeners]) for each in response.nodes]
    host, _, port = broker.address.rpartition(":")
    assert named == ([(broker.node_id, [(host, int(port))])] if version >= 2 else [])


@pytest.mark.parametrize(
    "topics",
    [
        [],
        [TopicData("t", [PartitionData(0)])],
        [TopicData("__cluster_metadata", [PartitionData(1)])],
        [METADATA, TopicData("t", [PartitionData(0), PartitionData(1)])],
    ],
)
async def test_a_request_for_anything_else_gets_an_error_for_everything(raw: Raw, topics: list[TopicData]) -> None:
    response = await raw.ask(ApiKey.DESCRIBE_QUORUM, 2, DescribeQuorumRequest(topics))
    assert (response.error_code, response.error_message, response.nodes) == (0, "", [])
    assert [topic.topic_name for topic in response.topics] == [topic.topic_name for topic in topics]
    found = {each.error_code for topic in response.topics for each in topic.partitions}
    assert found == ({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} if topics else set())


async def test_the_quorum_ends_later_after_a_change(raw: Raw) -> None:
    async def end() -> int:
        response = await raw.ask(ApiKey.DESCRIBE_QUORUM, 2, DescribeQuorumRequest([METADATA]))
        return response.topics[0].partitions[0].high_watermark

    before = await end()
    await raw.create_topic("t")
    assert await end() > before
