"""What clients change in a cluster: topics, configs, leaders and replicas, with a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.broker.coordination.partition_hash import partition_for
from odradek.broker.coordination.share_states.coordinator import key_text
from odradek.broker.coordination.share_states.share_state import ShareKey
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.messages.alter_configs import AlterableConfig as Config
from odradek.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.describe_producers import DescribeProducersRequest
from odradek.protocol.messages.describe_producers import TopicRequest as DescribeProducersTopic
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.incremental_alter_configs import AlterableConfig, IncrementalAlterConfigsRequest
from odradek.protocol.messages.incremental_alter_configs import AlterConfigsResource as Resource
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.clusters.members import Members, member
from odradek.tests.support.waiting import until

TOPIC, BROKER, GROUP = 2, 4, 32


def view(broker: Broker, topic: str = "t", index: int = 0) -> Any:
    """The partition as a broker's clients see it; None where they do not."""
    replicas = broker.services.replicas
    assert replicas is not None
    return replicas.view.partition(topic, index)


async def assign(raw: Raw, placement: Iterable[Iterable[int]], topic: str = "t") -> Any:
    """Create a topic with these replicas."""
    assignments = [CreatableReplicaAssignment(index, list(to)) for index, to in enumerate(placement)]
    request = CreateTopicsRequest(topics=[CreatableTopic(topic, -1, -1, assignments)])
    return (await raw.ask(ApiKey.CREATE_TOPICS, 7, request)).topics[0]


async def elect(raw: Raw, kind: int = 0, topic: str | None = "t") -> Any:
    """Ask for elections of partition 0, or of all."""
    places = None if topic is None else [TopicPartitions(topic, [0])]
    return await raw.ask(ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(kind, places, 10_000))


def codes(response: Any) -> list[int]:
    """The errors of all partitions of a response to ElectLeaders."""
    return [each.error_code for topic in response.replica_election_results for each in topic.partition_result]


async def reassign(raw: Raw, to: list[int] | None, **rest: Any) -> int:
    """Ask for other replicas of partition 0; the error code."""
    topics = [ReassignableTopic("t", [ReassignablePartition(0, to)])]
    request = AlterPartitionReassignmentsRequest(topics=topics, **rest)
    response = await raw.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request)
    return response.error_code or response.responses[0].partitions[0].error_code


def grow_to(count: int) -> CreatePartitionsRequest:
    """A request for more partitions of the topic."""
    return CreatePartitionsRequest([CreatePartitionsTopic("t", count, None)], 9000)


async def test_topics_are_created_grown_and_deleted_on_every_broker(cluster: Members) -> None:
    first = await cluster.start(1, default_replication_factor=2, num_partitions=2)
    second = await cluster.start(2)
    raw = await cluster.raw(first)
    made = await raw.create_topic("t", -1, -1, retention_ms="77000")
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 2, 2)
    for broker in (first, second):
        await until(lambda broker=broker: view(broker, "t", 1) is not None)
        assert {view(broker, "t", index).leader for index in (0, 1)} == {1, 2}
        topic = broker.topics.get("t")
        assert topic is not None and topic.config.retention_ms == 77000
    led = next(index for index in (0, 1) if view(first, "t", index).leader == 1)
    # The producers of a follower can be described, too. A broker that has no replica is told so, or to come again.
    everywhere = DescribeProducersRequest([DescribeProducersTopic("t", [0, 1])])
    described = await raw.ask(ApiKey.DESCRIBE_PRODUCERS, 0, everywhere)
    assert [each.error_code for each in described.topics[0].partitions] == [0, 0]
    for epoch, code in ((-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        place = FetchPartition(led, current_leader_epoch=epoch, partition_max_bytes=1000)
        stranger = FetchRequest(replica_id=99, topics=[FetchTopic("t", partitions=[place])])
        answer = await raw.ask(ApiKey.FETCH, 12, stranger)
        assert answer.responses[0].partitions[0].error_code == code
    assert (await raw.create_topic("t")).error_code == int(ErrorCode.TOPIC_ALREADY_EXISTS)
    assert (await raw.create_topic("wide", 1, 3)).error_code == int(ErrorCode.INVALID_REPLICATION_FACTOR)
    assert (await assign(raw, [[1, 1]], "twice")).error_code == int(ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    # Their assignment would be more than ZooKeeper takes.
    refused = await assign(raw, [range(1000 * index, 1000 * index + 300) for index in range(325)], "unknown")
    assert refused.error_code == int(ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    assert refused.error_message.startswith("Unknown broker(s) in replica assignment: 0, 3, 4,")
    assert (await assign(raw, [[1]], "afterwards")).error_code == 0
    grown = await raw.ask(ApiKey.CREATE_PARTITIONS, 3, grow_to(3))
    assert grown.results[0].error_code == 0 and len(view(first, "t", 2).isr) == 2
    less = await raw.ask(ApiKey.CREATE_PARTITIONS, 3, grow_to(2))
    assert less.results[0].error_code == int(ErrorCode.INVALID_PARTITIONS)
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState("t")], timeout_ms=9000)
    assert (await raw.ask(ApiKey.DELETE_TOPICS, 6, deletion)).responses[0].error_code == 0
    for broker in (first, second):
        await until(lambda broker=broker: view(broker) is None and broker.topics.get("t") is None)
    await until(lambda: "t" not in member(first).controller.machine.cluster.topic_ids)  # type: ignore[union-attr]
    assert (await raw.create_topic("t")).error_code == 0


async def test_configs_are_altered_at_any_broker_and_reach_every_broker(cluster: Members) -> None:
    first, second = await cluster.start(1), await cluster.start(2)
    raw = await cluster.raw(second)
    assert (await (await cluster.raw(first)).create_topic("t", 1, 2)).error_code == 0
    await until(lambda: view(second) is not None)
    changes = [Resource(TOPIC, "t", [AlterableConfig("retention.ms", 0, "88000")])]
    changes += [Resource(BROKER, "", [AlterableConfig("message.max.bytes", 0, "99000")])]
    changes += [Resource(BROKER, "1", [AlterableConfig("message.max.bytes", 0, "1")])]
    answer = await raw.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(changes))
    assert [each.error_code for each in answer.responses] == [0, 0, int(ErrorCode.INVALID_REQUEST)]
    for broker in (first, second):
        topic = broker.topics.get("t")
        await until(lambda topic=topic: topic.config.retention_ms == 88000)
        await until(lambda broker=broker: broker.config.message_max_bytes == 99000)
    request = AlterConfigsRequest([AlterConfigsResource(TOPIC, "t", [Config("retention.ms", "66000")])])
    assert (await raw.ask(ApiKey.ALTER_CONFIGS, 2, request)).responses[0].error_code == 0
    await until(lambda: first.topics.get("t").config.retention_ms == 66000)  # type: ignore[union-attr]
    # A broker that comes later reads them.
    third = await cluster.start(3)
    assert third.config.message_max_bytes == 99000


async def test_configs_of_groups_are_rejected_as_by_kafka_39_with_zookeeper(cluster: Members) -> None:
    raw = await cluster.raw(await cluster.start(1))
    changes = [Resource(GROUP, "g", [AlterableConfig("consumer.session.timeout.ms", 0, "50000")])]
    answer = await raw.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(changes))
    (found,) = answer.responses
    assert found.error_code == ErrorCode.INVALID_REQUEST
    assert found.error_message == (
        "a cluster with ZooKeeper keeps no configs of groups, as Kafka's does not: "
        "set group.consumer.* or group.share.* of every broker"
    )


async def test_a_topic_that_is_needed_is_asked_of_the_controller(cluster: Members) -> None:
    own = {
        "offsets_topic_replication_factor": 2,
        "transaction_state_log_replication_factor": 2,
        "transaction_state_log_min_isr": 2,
        "share_coordinator_state_topic_replication_factor": 2,
        "share_coordinator_state_topic_min_isr": 2,
    }
    first = await cluster.start(1, **own)
    second = await cluster.start(2, **own)
    raw = await cluster.raw(second)
    request = MetadataRequest([MetadataRequestTopic(name="auto")], allow_auto_topic_creation=True)
    answer = await raw.ask(ApiKey.METADATA, 12, request)
    assert answer.topics[0].error_code == int(ErrorCode.LEADER_NOT_AVAILABLE)
    await until(lambda: view(second, "auto") is not None)
    for kind, topic, key, policy in (
        (0, "__consumer_offsets", "x", "compact"),
        (1, "__transaction_state", "x", "compact"),
        (2, "__share_group_state", key_text(ShareKey("g", bytes(16), 0)), "delete"),
    ):
        asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        answer = await raw.ask(ApiKey.FIND_COORDINATOR, 6, asked)
        assert answer.coordinators[0].error_code == int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        await until(lambda topic=topic: view(second, topic) is not None)
        assert len(view(second, topic).replicas) == 2
        assert second.topics.get(topic).config.cleanup_policy == (policy,)  # type: ignore[union-attr]
        answer = await raw.ask(ApiKey.FIND_COORDINATOR, 6, asked)
        index = partition_for(key, second.topics.get(topic).partition_count)  # type: ignore[union-attr]
        assert answer.coordinators[0].node_id == view(second, topic, index).leader
    for topic in ("__transaction_state", "__share_group_state"):
        assert second.topics.get(topic).config.min_insync_replicas == 2  # type: ignore[union-attr]
    ids = [(await (await cluster.raw(each)).ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None))).producer_id
           for each in (first, second, second)]  # fmt: skip
    assert ids == [0, 1000, 1001]


async def test_too_few_brokers_for_an_internal_topic(cluster: Members) -> None:
    raw = await cluster.raw(await cluster.start(1, offsets_topic_replication_factor=2))
    answer = await raw.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=0, coordinator_keys=["x"]))
    assert answer.coordinators[0].error_code == int(ErrorCode.COORDINATOR_NOT_AVAILABLE)


@pytest.mark.parametrize("automatic", [False, True])
async def test_a_preferred_leader_leads_again_when_asked_or_by_itself(cluster: Members, automatic: bool) -> None:
    balance = {
        "auto_leader_rebalance_enable": automatic,
        "leader_imbalance_check_interval_seconds": 1,
        "leader_imbalance_per_broker_percentage": 0,
    }
    first, second = await cluster.start(1, **balance), await cluster.start(2)
    raw = await cluster.raw(first)
    assert (await assign(raw, [[2, 1]])).error_code == 0
    assert codes(await elect(raw)) == [int(ErrorCode.ELECTION_NOT_NEEDED)]
    await second.stop()
    await until(lambda: view(first).leader == 1)
    assert codes(await elect(raw)) == [int(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]
    second = await cluster.start(2)
    await until(lambda: set(view(first).isr) == {1, 2})
    if not automatic:
        assert (await elect(await cluster.raw(second))).error_code == int(ErrorCode.NOT_CONTROLLER)
        assert codes(await elect(raw, topic=None)) == [0]
    await until(lambda: view(first).leader == 2)


async def test_a_replica_that_lags_leads_only_where_that_is_allowed(cluster: Members) -> None:
    """Where the whole ISR is dead: unclean.leader.election.enable, or an unclean election by hand."""
    controller = await cluster.start(3, controlled_shutdown_enable=False)
    raw = await cluster.raw(controller)
    for topic in ("by-hand", "allowed-later", "allowed"):
        leader, lagging = await cluster.start(1, controlled_shutdown_enable=False), await cluster.start(2)
        assert (await assign(raw, [[1, 2]], topic)).error_code == 0
        await lagging.stop()
        await until(lambda topic=topic: view(controller, topic).isr == (1,))
        await leader.stop()
        await until(lambda topic=topic: view(controller, topic).leader == -1)
        if topic == "allowed":
            assert await raw.configure(BROKER, "", unclean_leader_election_enable="true") == 0
        lagging = await cluster.start(2)
        if topic != "allowed":
            assert view(controller, topic).leader == -1
        if topic == "by-hand":
            assert codes(await elect(raw, 1, topic)) == [0]
        elif topic == "allowed-later":
            assert await raw.configure(TOPIC, topic, unclean_leader_election_enable="true") == 0
        await until(lambda topic=topic: view(controller, topic).leader == 2)
        await lagging.stop()


async def test_a_partition_moves_to_other_brokers(cluster: Members) -> None:
    first, second = await cluster.start(1), await cluster.start(2)
    raw = await cluster.raw(first)
    assert (await assign(raw, [[1]])).error_code == 0
    assert (await raw.produce("t", batch_of(b"x"))).error_code == 0
    assert await reassign(await cluster.raw(second), [2]) == int(ErrorCode.NOT_CONTROLLER)
    assert await reassign(raw, None) == int(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    assert await reassign(raw, [9]) == int(ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    other = await reassign(raw, [1, 2], allow_replication_factor_change=False)
    assert other == int(ErrorCode.INVALID_REPLICATION_FACTOR)
    assert await reassign(raw, [2]) == 0
    await until(lambda: view(second).replicas == (2,) and view(second).leader == 2)
    left = await raw.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, ListPartitionReassignmentsRequest())
    assert (left.error_code, left.topics) == (0, [])
    moved = second.topics.get("t")
    assert moved is not None and moved.partitions[0].high_watermark == 1
    await until(lambda: not list(cluster.folder.glob("broker-1/t-0")))


async def test_the_controller_gives_kafkas_brokers_blocks_of_producer_ids(cluster: Members) -> None:
    first, second = await cluster.start(1), await cluster.start(2)
    controller, other = await cluster.raw(first), await cluster.raw(second)
    replicas = second.services.replicas
    assert replicas is not None
    good = AllocateProducerIdsRequest(2, replicas.broker_epoch)
    blocks = [await controller.ask(ApiKey.ALLOCATE_PRODUCER_IDS, 0, good) for _ in range(2)]
    assert [(each.error_code, each.producer_id_len) for each in blocks] == [(0, 1000)] * 2
    assert blocks[1].producer_id_start >= blocks[0].producer_id_start + 1000
    for request, raw, code in (
        (good, other, ErrorCode.NOT_CONTROLLER),
        (AllocateProducerIdsRequest(2, replicas.broker_epoch - 1), controller, ErrorCode.STALE_BROKER_EPOCH),
        (AllocateProducerIdsRequest(9, 1), controller, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ):
        assert (await raw.ask(ApiKey.ALLOCATE_PRODUCER_IDS, 0, request)).error_code == code


async def test_throttles_of_replication_reach_every_broker(cluster: Members) -> None:
    brokers = [await cluster.start(each) for each in (1, 2)]
    raw = await cluster.raw(brokers[0])
    assert (await assign(raw, [[1]])).error_code == 0

    async def alter(kind: int, name: str, config: str, value: str) -> tuple[int, str]:
        request = IncrementalAlterConfigsRequest([Resource(kind, name, [AlterableConfig(config, 0, value)])])
        answer = (await raw.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)).responses[0]
        return answer.error_code, answer.error_message

    for value in ("0", "0:1:2", "1:x", "*,0:1", "-1:2", "all"):
        code, why = await alter(TOPIC, "t", "leader.replication.throttled.replicas", value)
        assert code == ErrorCode.INVALID_CONFIG and "[partitionId]:[brokerId]" in why
    assert (await alter(BROKER, "1", "leader.replication.throttled.rate", "-1"))[0] == ErrorCode.INVALID_REQUEST
    assert await alter(TOPIC, "t", "leader.replication.throttled.replicas", "0:1,0:2") == (0, None)
    assert await alter(TOPIC, "t", "follower.replication.throttled.replicas", "*") == (0, None)
    assert await alter(BROKER, "", "follower.replication.throttled.rate", "1000") == (0, None)
    assert await alter(BROKER, "1", "leader.replication.throttled.rate", "2000") == (0, None)
    for broker in brokers:
        await until(lambda broker=broker: broker.config.follower_replication_throttled_rate == 1000)
        topic = broker.topics.get("t")
        assert topic is not None
        await until(lambda topic=topic: topic.config.follower_replication_throttled_replicas == ("*",))
        assert topic.config.leader_replication_throttled_replicas == ("0:1", "0:2")
    assert brokers[0].config.leader_replication_throttled_rate == 2000


async def test_a_change_that_cannot_be_told_keeps_nobody_from_hearing_of_the_next(
    cluster: Members, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = await cluster.raw(await cluster.start(1))

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a mistake")

    with monkeypatch.context() as broken:
        broken.setattr("odradek.broker.cluster.controller.channels.request_of", fail)
        request = CreateTopicsRequest([CreatableTopic("untold", 1, 1)], timeout_ms=50)
        answer = await raw.ask(ApiKey.CREATE_TOPICS, 7, request)
        assert answer.topics[0].error_code == int(ErrorCode.REQUEST_TIMED_OUT)
        assert "broker 1 is not told of a change" in caplog.text
    assert (await raw.create_topic("told")).error_code == 0
