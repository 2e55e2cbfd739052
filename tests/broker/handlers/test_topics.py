"""CreateTopics, DeleteTopics, Metadata, DescribeConfigs, DescribeCluster, InitProducerId: what exists."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import count

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.turns import SLICE_NS, keeper
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.primitives import ZERO_UUID
from odradek.tests.support.clients.raw import Raw, batch_of


async def create(raw: Raw, *topics: CreatableTopic, validate_only: bool = False) -> list[tuple[str, int]]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    response = await raw.ask(ApiKey.CREATE_TOPICS, 7, request)
    return [(each.name, each.error_code) for each in response.topics]


async def metadata(raw: Raw, *names: str, version: int = 12, create: bool = False) -> list[object]:
    topics = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=create)
    return (await raw.ask(ApiKey.METADATA, version, request)).topics


# Create.


async def test_a_topic_is_there_when_its_creation_is_answered(raw: Raw) -> None:
    result = await raw.create_topic("made", 4, segment_bytes="2097152")
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 4, 1)
    assert result.topic_id != ZERO_UUID
    assert {each.name: each.value for each in result.configs}["segment.bytes"] == "2097152"
    (topic,) = await metadata(raw, "made")
    assert [each.leader_id for each in topic.partitions] == [1] * 4  # type: ignore[attr-defined]
    assert topic.topic_id == result.topic_id  # type: ignore[attr-defined]


async def test_minus_one_takes_the_brokers_defaults(config: BrokerConfig) -> None:
    async with Broker(replace(config, num_partitions=5)) as broker, await Raw.connect(broker.address) as raw:
        request = CreateTopicsRequest(topics=[CreatableTopic("t", -1, -1)])
        result = (await raw.ask(ApiKey.CREATE_TOPICS, 7, request)).topics[0]
        assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 5, 1)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (CreatableTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (CreatableTopic("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (CreatableTopic("t", 10_001, 1), ErrorCode.POLICY_VIOLATION),
        (CreatableTopic("t", 0, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (CreatableTopic("t", 0, 2), ErrorCode.INVALID_PARTITIONS),
        (CreatableTopic("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (CreatableTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (CreatableTopic("t", 1, 1, [CreatableReplicaAssignment(0, [1])]), ErrorCode.INVALID_REQUEST),
        (CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, [9])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, [1])] * 2), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, [1])]), 0),
        (CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(at, [1]) for at in (2, 0, 1)]), 0),
    ],
)
async def test_partitions_replicas_and_assignments(raw: Raw, topic: CreatableTopic, code: int) -> None:
    assert await create(raw, topic) == [("t", code)]


async def test_existing_repeated_and_colliding_names(raw: Raw) -> None:
    await raw.create_topic("a.b")
    assert await create(raw, CreatableTopic("a.b", 1, 1)) == [("a.b", ErrorCode.TOPIC_ALREADY_EXISTS)]
    assert await create(raw, CreatableTopic("a_b", 1, 1)) == [("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION)]
    twice = [CreatableTopic("c", 1, 1), CreatableTopic("d", 1, 1), CreatableTopic("c", 1, 1)]
    assert sorted(await create(raw, *twice)) == [("c", ErrorCode.INVALID_REQUEST), ("d", 0)]


async def test_a_name_that_collides_is_unknown_to_clients_that_do_not_create_it(raw: Raw) -> None:
    await raw.create_topic("a.b")
    for creates, code in ((False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (True, ErrorCode.INVALID_TOPIC_EXCEPTION)):
        (found,) = await metadata(raw, "a_b", create=creates)
        assert found.error_code == code  # type: ignore[attr-defined]


async def test_no_client_creates_kafkas_metadata_topic(raw: Raw) -> None:
    name = "__cluster_metadata"
    assert await create(raw, CreatableTopic(name, 1, 1)) == [(name, ErrorCode.INVALID_REQUEST)]
    (found,) = await metadata(raw, name, create=True)
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # type: ignore[attr-defined]


async def test_errors_are_checked_in_kafkas_order(raw: Raw) -> None:
    await raw.create_topic("there")
    bad = [CreatableTopicConfig("no.such", "1")]
    asked = {
        ErrorCode.INVALID_TOPIC_EXCEPTION: CreatableTopic("bad name", 0, 0, configs=bad),
        ErrorCode.TOPIC_ALREADY_EXISTS: CreatableTopic("there", 0, 0, configs=bad),
        ErrorCode.INVALID_CONFIG: CreatableTopic("t", 0, 0, configs=bad),
    }
    for code, topic in asked.items():
        assert await create(raw, topic) == [(topic.name, code)]


async def test_a_request_for_too_many_partitions_creates_none(raw: Raw) -> None:
    code = ErrorCode.POLICY_VIOLATION
    asked = [CreatableTopic("a", 5_000, 1), CreatableTopic("b", 5_000, 1), CreatableTopic("c", -1, 1)]
    assert await create(raw, *asked) == [("a", code), ("b", code), ("c", code)]
    assert [each.error_code for each in await metadata(raw, "a", "c")] == [3, 3]  # type: ignore[attr-defined]


async def test_validate_only_creates_nothing(raw: Raw) -> None:
    assert await create(raw, CreatableTopic("t", 1, 1), validate_only=True) == [("t", 0)]
    (topic,) = await metadata(raw, "t")
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "configs", [{"no_such": "1"}, {"segment_bytes": "few"}, {"segment_bytes": "1"}, {"remote_storage_enable": "true"}]
)
async def test_a_config_that_is_not_acted_on_is_refused(shared: Raw, configs: dict[str, str]) -> None:
    result = await shared.create_topic("t", **configs)
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert next(iter(configs)).replace("_", ".") in result.error_message


async def test_a_success_has_no_error_message_and_its_configs_are_not_read_only(raw: Raw) -> None:
    request = CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)])
    assert (await raw.ask(ApiKey.CREATE_TOPICS, 2, request)).topics[0].error_message is None
    result = await raw.create_topic("u")
    assert result.error_message is None
    assert not any(each.read_only for each in result.configs)
    names = [each.name for each in result.configs]
    assert names == sorted(names)


async def test_clients_cannot_create_internal_topics(broker: Broker, raw: Raw) -> None:
    own = CreatableTopic("__consumer_offsets", 1, 1)
    assert await create(raw, own) == [("__consumer_offsets", ErrorCode.INVALID_TOPIC_EXCEPTION)]
    broker.services.internal_topics.create("__consumer_offsets")
    assert await create(raw, own) == [("__consumer_offsets", ErrorCode.TOPIC_ALREADY_EXISTS)]


# Delete.


async def test_a_deleted_topic_is_gone_at_once_and_its_files_soon(broker: Broker, raw: Raw) -> None:
    topic_id = (await raw.create_topic("t", 3)).topic_id
    await raw.produce("t", batch_of(b"old"))
    response = await raw.ask(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["t", "nobody"]))
    assert [each.error_code for each in response.responses] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert (await raw.produce("t", batch_of(b"v"))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await raw.create_topic("t", 3)).topic_id != topic_id
    assert (await raw.fetch("t", 0)).high_watermark == 0
    # Who reads it has its time; then, or at the next start, they go.
    assert len(list(broker.config.data_dir.glob("*-delete"))) == 3
    await broker.stop()
    async with Broker(broker.config):
        async with asyncio.timeout(20):
            while list(broker.config.data_dir.glob("*-delete")):
                await asyncio.sleep(0.001)


async def test_delete_by_id_and_bad_ways_to_ask(raw: Raw) -> None:
    topic_id = (await raw.create_topic("t")).topic_id
    asked = [
        DeleteTopicState(None, b"\x05" * 16),
        DeleteTopicState("t", topic_id),
        DeleteTopicState(None, ZERO_UUID),
        DeleteTopicState(None, topic_id),
    ]
    response = await raw.ask(ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=asked))
    codes = [each.error_code for each in response.responses]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, 0]
    assert response.responses[3].name == "t"


async def delete(raw: Raw, *topics: DeleteTopicState) -> list[tuple[str | None, int]]:
    response = await raw.ask(ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=list(topics)))
    return [(each.name, each.error_code) for each in response.responses]


async def test_a_topic_that_is_named_twice_stays_and_gets_one_answer(raw: Raw) -> None:
    by_id = DeleteTopicState(None, (await raw.create_topic("t")).topic_id)
    by_name, other = DeleteTopicState("t"), DeleteTopicState("other")
    await raw.create_topic("other")
    refused = ("t", ErrorCode.INVALID_REQUEST)
    assert await delete(raw, by_name, by_name) == [refused]
    assert await delete(raw, by_id, by_id) == [refused]
    assert await delete(raw, by_id, by_name) == [refused]
    assert await delete(raw, by_name, other, by_id) == [refused, ("other", 0)]
    assert await delete(raw, by_id) == [("t", 0)]
    assert await delete(raw, by_name, by_name) == [refused]


async def test_deletion_can_be_switched_off(config: BrokerConfig) -> None:
    async with Broker(replace(config, delete_topic_enable=False)) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        response = await raw.ask(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["t"]))
        assert response.responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED


# Metadata.


async def test_metadata_of_all_topics_of_none_and_of_some(raw: Raw) -> None:
    for name in ("b", "a"):
        await raw.create_topic(name)
    names = {}
    for version, topics in ((0, []), (1, None), (1, []), (12, None), (12, [])):
        response = await raw.ask(ApiKey.METADATA, version, MetadataRequest(topics=topics))
        names[version, topics is None] = [each.name for each in response.topics]
    assert names == {
        (0, False): ["a", "b"],
        (1, True): ["a", "b"],
        (1, False): [],
        (12, True): ["a", "b"],
        (12, False): [],
    }


async def test_metadata_names_the_address_that_the_client_used(broker: Broker, raw: Raw) -> None:
    response = await raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
    (node,) = response.brokers
    assert f"{node.host}:{node.port}" == broker.address
    assert (node.node_id, response.controller_id, response.cluster_id) == (1, 1, broker.cluster_id)


async def test_advertised_listeners_are_told_by_listener(config: BrokerConfig) -> None:
    config = replace(
        config,
        listeners=("PLAINTEXT://127.0.0.1:0", "OUTSIDE://127.0.0.1:0"),
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
        advertised_listeners=("OUTSIDE://kafka.example.org:19092",),
    )
    async with Broker(config) as broker:
        told = []
        for address in broker.addresses:
            async with await Raw.connect(address) as raw:
                (node,) = (await raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))).brokers
                told.append(f"{node.host}:{node.port}")
        assert told == [broker.addresses[0], "kafka.example.org:19092"]


async def test_a_listener_with_a_name_is_told_by_its_name(config: BrokerConfig) -> None:
    """The client may come over an address that only this machine knows by that number, or over IPv6."""
    async with Broker(replace(config, listeners=("PLAINTEXT://localhost:0",))) as broker:
        async with await Raw.connect(broker.address) as raw:
            (node,) = (await raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))).brokers
            assert (node.host, str(node.port)) == ("localhost", broker.address.rpartition(":")[2])


async def test_a_topic_that_is_being_created_has_no_leader_yet(broker: Broker, raw: Raw) -> None:
    """Completing it at once would hold the loop for all of its partitions."""
    creation = broker.topics.begin("many", 50, {})
    (topic,) = await metadata(raw, "many", create=True)
    assert topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE  # type: ignore[attr-defined]
    await creation.wait()
    (topic,) = await metadata(raw, "many")
    assert [each.leader_id for each in topic.partitions] == [1] * 50  # type: ignore[attr-defined]


async def test_auto_creation_can_be_forbidden_by_the_client(config: BrokerConfig, raw: Raw) -> None:
    (topic,) = await metadata(raw, "auto", create=False)
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # type: ignore[attr-defined]
    (topic,) = await metadata(raw, "auto", create=True)
    assert (topic.error_code, len(topic.partitions)) == (0, 1)  # type: ignore[attr-defined]
    (topic,) = await metadata(raw, "not a name", create=True)
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION  # type: ignore[attr-defined]


async def test_metadata_creates_topics_of_many_partitions_in_slices(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Broker(replace(config, num_partitions=12)) as broker, await Raw.connect(broker.address) as raw:
        # Each slice ends behind its first step.
        monkeypatch.setattr(keeper(), "clock", count(1 << 60, SLICE_NS).__next__)
        asked = asyncio.ensure_future(metadata(raw, *(f"t{number}" for number in range(5)), create=True))
        while not asked.done():
            before = len(broker.topics)
            await asyncio.sleep(0)
            assert len(broker.topics) - before < 5
        assert len(broker.topics) == len(await asked) == 5


async def test_auto_creation_switched_off(config: BrokerConfig) -> None:
    config = replace(config, auto_create_topics_enable=False)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        (topic,) = await metadata(raw, "auto", create=True)
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # type: ignore[attr-defined]


async def test_topics_by_id(raw: Raw) -> None:
    topic_id = (await raw.create_topic("t")).topic_id
    topics = [MetadataRequestTopic(topic_id, None), MetadataRequestTopic(b"\x09" * 16, None)]
    found, missing = (await raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=topics))).topics
    assert (found.name, found.error_code) == ("t", 0)
    assert (missing.name, missing.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)
    both = [MetadataRequestTopic(b"\x09" * 16, "t")]
    (other,) = (await raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=both))).topics
    assert (other.name, other.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize(
    ("version", "topic"),
    [
        (10, MetadataRequestTopic(b"\x09" * 16, None)),
        (11, MetadataRequestTopic(b"\x09" * 16, "t")),
        (10, MetadataRequestTopic(ZERO_UUID, None)),
        (11, MetadataRequestTopic(ZERO_UUID, None)),
        (12, MetadataRequestTopic(ZERO_UUID, None)),
        (13, MetadataRequestTopic(ZERO_UUID, None)),
    ],
)
async def test_ids_before_their_version_and_topics_without_a_name_fail_the_whole_request(
    shared: Raw, version: int, topic: MetadataRequestTopic
) -> None:
    await shared.create_topic("t")
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t"), topic])
    response = await shared.ask(ApiKey.METADATA, version, request)
    names = [(each.name, each.topic_id, each.error_code) for each in response.topics]
    code = ErrorCode.INVALID_REQUEST
    assert names == [("t", ZERO_UUID, code), (topic.name or "", topic.topic_id, code)]
    assert (response.brokers, response.controller_id) == ([], -1)
    assert response.error_code == (code if version >= 13 else 0)


async def test_a_topic_is_returned_once_however_often_it_is_requested(raw: Raw) -> None:
    topic_id = (await raw.create_topic("t")).topic_id
    assert len(await metadata(raw, "t", "nobody", "t", "nobody", version=9)) == 2
    topics = [MetadataRequestTopic(topic_id, None), MetadataRequestTopic(name="t")]
    assert len((await raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=topics))).topics) == 1


async def test_authorized_operations_only_where_asked(raw: Raw) -> None:
    await raw.create_topic("t")
    request = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    assert (await raw.ask(ApiKey.METADATA, 12, request)).topics[0].topic_authorized_operations > 0
    response = await raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))
    assert response.topics[0].topic_authorized_operations == -(2**31)
    absent = [MetadataRequestTopic(name="absent"), MetadataRequestTopic(name="bad name")]
    request = MetadataRequest(absent, allow_auto_topic_creation=False, include_topic_authorized_operations=True)
    assert [each.topic_authorized_operations for each in (await raw.ask(ApiKey.METADATA, 12, request)).topics] == [
        3576
    ] * 2
    request = MetadataRequest([MetadataRequestTopic(b"\x01" * 16, None)], include_topic_authorized_operations=True)
    assert (await raw.ask(ApiKey.METADATA, 12, request)).topics[0].topic_authorized_operations == -(2**31)


# Configs, cluster, producer ids.


async def describe(raw: Raw, kind: int, name: str, keys: list[str] | None = None) -> object:
    resource = DescribeConfigsResource(kind, name, keys)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    return (await raw.ask(ApiKey.DESCRIBE_CONFIGS, 4, request)).results[0]


async def test_topic_configs_with_their_sources_and_synonyms(raw: Raw) -> None:
    await raw.create_topic("t", segment_ms="1000")
    result = await describe(raw, 2, "t")
    rows = {each.name: each for each in result.configs}  # type: ignore[attr-defined]
    assert (rows["segment.ms"].value, rows["segment.ms"].config_source) == ("1000", 1)
    assert [each.name for each in rows["segment.ms"].synonyms] == ["segment.ms", "log.roll.hours"]
    assert (rows["segment.bytes"].value, rows["segment.bytes"].config_source) == ("1073741824", 5)
    assert all(row.documentation for row in rows.values())
    (only,) = (await describe(raw, 2, "t", ["segment.ms", "no.such"])).configs  # type: ignore[attr-defined]
    assert only.name == "segment.ms"


async def test_configs_that_are_not_acted_on_have_synonyms_too(raw: Raw) -> None:
    await raw.create_topic("t")
    rows = {each.name: each for each in (await describe(raw, 2, "t")).configs}  # type: ignore[attr-defined]
    (synonym,) = rows["cleanup.policy"].synonyms
    assert (synonym.name, synonym.value, synonym.source) == ("log.cleanup.policy", "delete", 5)
    assert not any(each.read_only for each in rows.values())


async def test_an_empty_list_of_keys_asks_for_all(raw: Raw) -> None:
    await raw.create_topic("t")
    everything = await describe(raw, 2, "t")
    assert (await describe(raw, 2, "t", [])).configs == everything.configs  # type: ignore[attr-defined]
    assert everything.error_message == ""  # type: ignore[attr-defined]


async def test_broker_configs(raw: Raw) -> None:
    rows = {each.name: each for each in (await describe(raw, 4, "1")).configs}  # type: ignore[attr-defined]
    assert rows["node.id"].value == "1"
    assert (rows["group.initial.rebalance.delay.ms"].value, rows["log.segment.bytes"].config_source) == ("0", 5)
    assert (await describe(raw, 4, "")).configs == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (2, "nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (2, "no name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (4, "7", ErrorCode.INVALID_REQUEST),
        (4, "x", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_configs_of_unknown_resources(shared: Raw, kind: int, name: str, code: ErrorCode) -> None:
    assert (await describe(shared, kind, name)).error_code == code  # type: ignore[attr-defined]


async def test_a_resource_type_that_does_not_exist_is_an_error_of_all(shared: Raw) -> None:
    for kind, codes in ((16, [0, 0]), (8, [0, 42]), (99, [42, 42])):
        resources = [DescribeConfigsResource(4, "1", []), DescribeConfigsResource(kind, "x")]
        response = await shared.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=resources))
        assert [each.error_code for each in response.results] == codes


async def test_the_cluster(broker: Broker, raw: Raw) -> None:
    response = await raw.ask(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest())
    assert (response.cluster_id, response.controller_id) == (broker.cluster_id, 1)
    assert f"{response.brokers[0].host}:{response.brokers[0].port}" == broker.address
    refused = await raw.ask(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest(endpoint_type=2))
    assert refused.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


async def test_producer_ids_are_unique_across_restarts(config: BrokerConfig) -> None:
    seen: set[int] = set()
    for _ in range(3):
        async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
            for _ in range(5):
                response = await raw.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None))
                assert (response.error_code, response.producer_epoch) == (0, 0)
                assert response.producer_id not in seen
                seen.add(response.producer_id)


async def test_an_empty_transactional_id_and_half_a_producer_are_refused(raw: Raw) -> None:
    asked = [
        InitProducerIdRequest("", 1000),
        InitProducerIdRequest(None, 0, producer_id=5),
        InitProducerIdRequest("tx", 1000, producer_epoch=5),
    ]
    for request in asked:
        response = await raw.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
        assert (response.error_code, response.producer_id) == (ErrorCode.INVALID_REQUEST, -1)
