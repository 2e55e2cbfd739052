"""Turns of the event loop: no request, however many values it has, holds the others back for long."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import chain
from struct import pack

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.network.large_messages import MAX_VALUES
from odradek.broker.network.routes import ALONE_ROUTES, Route
from odradek.broker.topics.topic_names import MAX_PARTITIONS_PER_TOPIC
from odradek.protocol.apis import AnyKey, ApiKey, message
from odradek.protocol.decoding import MAX_TEXT_BYTES
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.protocol.messages.describe_client_quotas import EntityData
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.read_share_group_state_summary import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from odradek.protocol.schema import Message
from odradek.tests.broker.handlers.test_queries import Task
from odradek.tests.support.brokers.large_messages import TOPIC, emptiest_requests, largest_requests
from odradek.tests.support.brokers.loop_turns import LIMIT_MS, WAIT_S, MeasuredBroker, measured_broker
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.seeds import IS_SOAK
from odradek.tests.support.waiting import accepted

# Each topic is a directory, and the broker creates one a turn.
CREATED = 300
# `make soak` finds as many partitions as a request names.
PARTITIONS = 1_000 if IS_SOAK else 1
PARTICIPANTS = 200
# Values beyond those of one turn.
MORE = 5_000 if IS_SOAK else 1_000
APPEND_TIME = "append-time"
MIB = 1024 * 1024
BATCHES = 90
# One batch that is nearly as large as a request may be.
LARGEST_BATCH = 96 * MIB
# The broker's loop is its own, in a thread; which loop the client runs on says nothing about it.
pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredBroker]:
    config = BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        log_dirs=(str(tmp_path_factory.mktemp("data")),),
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
        message_max_bytes=100 * MIB,
    )
    with measured_broker(config) as each:
        asyncio.run(_create_topic(each.address))
        yield each


async def _create_topic(address: str) -> None:
    async with await Raw.connect(address) as raw:
        await raw.create_topic(TOPIC, partitions=PARTITIONS)
        await raw.create_topic(APPEND_TIME, message_timestamp_type="LogAppendTime")


def fitting(route: Route, version: int, values: int) -> Iterator[tuple[str, Message]]:
    if route.key is ApiKey.CREATE_TOPICS and values < MAX_PARTITIONS_PER_TOPIC:
        values = CREATED
    cls = message(route.key, "request")
    shapes = largest_requests(cls, version, values)
    # The kinds of empty ACLs are unknown: the connection is closed.
    if IS_SOAK and route.key not in (ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS):
        empty = emptiest_requests(cls, version, values)
        shapes = chain(shapes, ((f"empty {shape}", request) for shape, request in empty))
    for shape, request in shapes:
        # A topic is not created for each name here: that has a test of its own.
        if isinstance(request, MetadataRequest):
            request.allow_auto_topic_creation = False
        elif isinstance(request, ProduceRequest):
            request.acks = 1
        elif isinstance(request, DescribeAclsRequest):
            request.resource_type_filter = request.operation = request.permission_type = 1
        elif isinstance(request, DescribeConfigsRequest):
            # A type that there is not is an error of all.
            for each in request.resources:
                each.resource_type = 2
        yield shape, request


@pytest.mark.parametrize("route", ALONE_ROUTES, ids=lambda route: route.key.name)
async def test_a_request_of_as_many_values_as_one_turn_handles(measured: MeasuredBroker, route: Route) -> None:
    turns: dict[tuple[int, str], int] = {}
    unanswered: list[tuple[int, str]] = []
    # Metadata before version 4 cannot ask for no creation.
    lowest = 4 if route.key is ApiKey.METADATA else route.versions[0]
    # The latest version of what is handled in portions has more values in the next test.
    versions = {lowest} if route.is_cut or route.is_whole else {lowest, route.versions[-1]}
    for version in versions if IS_SOAK else {max(versions)}:
        await measured.warm_up(route.key, version)
        for shape, request in fitting(route, version, route.max_values):
            if not await measured.exchange(route.key, version, request):
                unanswered.append((version, shape))
            turns[version, shape] = measured.longest_turn_ms
    assert unanswered == []
    assert {each: ms for each, ms in turns.items() if ms > LIMIT_MS} == {}


@pytest.mark.parametrize(
    "route", [each for each in ALONE_ROUTES if each.is_cut or each.is_whole], ids=lambda route: route.key.name
)
async def test_a_request_of_more_values_is_handled_in_portions(measured: MeasuredBroker, route: Route) -> None:
    turns: dict[str, int] = {}
    unanswered: list[str] = []
    await measured.warm_up(route.key, route.versions[-1])
    values = MAX_VALUES if route.is_whole and IS_SOAK else min(4 * route.max_values, route.max_values + MORE)
    for shape, request in fitting(route, route.versions[-1], values):
        if not await measured.exchange(route.key, route.versions[-1], request):
            unanswered.append(shape)
        turns[shape] = measured.longest_turn_ms
    assert unanswered == []
    assert {each: ms for each, ms in turns.items() if ms > LIMIT_MS} == {}


LONG_IDS = [f"{number}-".ljust(32_000, "x") for number in range(250)]
LONG_KEYS = ReadShareGroupStateSummaryRequest(
    LONG_IDS[0], [ReadStateSummaryData(bytes(16), [PartitionData(number) for number in range(199)])]
)


@pytest.mark.parametrize(
    ("key", "version", "request_of_ids"),
    [
        (ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest(LONG_IDS)),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest(LONG_IDS)),
        (ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(LONG_IDS)),
        (ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(each) for each in LONG_IDS])),
        (ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(LONG_IDS)),
        (ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 1, LONG_KEYS),
    ],
)
async def test_a_request_of_long_ids_is_handled_in_portions(
    measured: MeasuredBroker, key: AnyKey, version: int, request_of_ids: Message
) -> None:
    """The hash of each id says which partition it belongs to. A few of them are megabytes."""
    await measured.warm_up(key, version)
    assert await measured.exchange(key, version, request_of_ids)
    assert measured.longest_turn_ms <= LIMIT_MS


LONG_NAME, LONG_LIST = "x" * MAX_TEXT_BYTES, ",".join(map(str, range(MAX_TEXT_BYTES)))[:MAX_TEXT_BYTES]
LONG_ADDRESS = EntryData([EntityData("ip", ":" * MAX_TEXT_BYTES)], [OpData("connection_creation_rate", 1.0, False)])


def config_change(kind: int, resource: str, name: str, value: str, operation: int = 0) -> Message:
    changes = [AlterableConfig(name, operation, value)]
    return IncrementalAlterConfigsRequest([AlterConfigsResource(kind, resource, changes)])


@pytest.mark.parametrize(
    ("key", "version", "long_text"),
    [
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, config_change(2, TOPIC, LONG_NAME, "1")),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, config_change(4, "", LONG_NAME, "1")),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, config_change(32, "g", LONG_NAME, "1")),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, config_change(2, TOPIC, "cleanup.policy", LONG_LIST)),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, config_change(2, TOPIC, "cleanup.policy", LONG_LIST, 2)),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, config_change(2, TOPIC, "cleanup.policy", LONG_LIST, 3)),
        (
            ApiKey.CREATE_TOPICS,
            7,
            CreateTopicsRequest([CreatableTopic("u", configs=[CreatableTopicConfig(LONG_NAME)])]),
        ),
        (ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest([LONG_ADDRESS])),
        # Versions whose responses have room for 32,767 bytes of a text, which is less than the name and why.
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, config_change(2, TOPIC, LONG_NAME, "1")),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, config_change(2, LONG_NAME, "cleanup.policy", "delete")),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, config_change(4, LONG_NAME, LONG_NAME, "delete")),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, config_change(32, LONG_NAME, LONG_NAME, "delete")),
        (ApiKey.ALTER_CLIENT_QUOTAS, 0, AlterClientQuotasRequest([LONG_ADDRESS])),
        *(
            (ApiKey.DESCRIBE_CONFIGS, 1, DescribeConfigsRequest([DescribeConfigsResource(kind, LONG_NAME)]))
            for kind in (2, 4, 8, 32, 99)
        ),
    ],
)
async def test_the_longest_texts_are_refused_at_once(
    measured: MeasuredBroker, key: AnyKey, version: int, long_text: Message
) -> None:
    assert await measured.exchange(key, version, long_text)
    assert measured.longest_turn_ms <= LIMIT_MS


async def test_an_error_that_names_the_longest_name_is_no_longer_than_clients_read(measured: MeasuredBroker) -> None:
    async with await Raw.connect(measured.address, WAIT_S) as raw:
        (group,) = (await raw.ask(ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([LONG_NAME]))).groups
        request = DescribeUserScramCredentialsRequest([UserName(LONG_NAME)])
        (user,) = (await raw.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)).results
    for each in (group, user):
        assert each.error_code and len(each.error_message) <= MAX_TEXT_BYTES


async def test_a_text_of_megabytes_closes_the_connection_at_once(measured: MeasuredBroker) -> None:
    request = config_change(2, TOPIC, "cleanup.policy", "x" * 7 * MIB)
    assert not await measured.exchange(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert measured.longest_turn_ms <= LIMIT_MS


async def test_topics_that_metadata_creates_come_a_few_a_turn(measured: MeasuredBroker) -> None:
    topics = [MetadataRequestTopic(name=f"created-{number}") for number in range(CREATED)]
    assert await measured.exchange(ApiKey.METADATA, 12, MetadataRequest(topics=topics))
    assert measured.longest_turn_ms <= LIMIT_MS


# Before version 13 Metadata has no error for the whole request: its connection is closed.
@pytest.mark.parametrize(
    ("key", "version", "error"),
    [
        (ApiKey.METADATA, 12, None),
        (ApiKey.METADATA, 13, ErrorCode.INVALID_REQUEST),
        (ApiKey.JOIN_GROUP, 9, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_request_of_too_many_values_gets_an_error(
    measured: MeasuredBroker, key: AnyKey, version: int, error: ErrorCode | None
) -> None:
    _, request = next(emptiest_requests(message(key, "request"), version, MAX_VALUES + 1))
    async with await Raw.connect(measured.address) as raw:
        measured.begin()
        raw.send(key, version, request)
        if error is None:
            assert await raw.is_closed()
        else:
            assert (await raw.receive(key, version)).error_code == error
    assert measured.longest_turn_ms <= LIMIT_MS


async def test_a_produce_of_a_hundred_sound_batches_is_appended_a_few_a_turn(measured: MeasuredBroker) -> None:
    batch = batch_of(bytes(MIB - 200))
    sent = [PartitionProduceData(0, batch)] * BATCHES
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(TOPIC, partition_data=sent)])
    async with await Raw.connect(measured.address, WAIT_S) as raw:
        measured.begin()
        response = await raw.ask(ApiKey.PRODUCE, 9, request)
    results = response.responses[0].partition_responses
    first = results[0].base_offset
    assert [(each.error_code, each.base_offset) for each in results] == [(0, first + at) for at in range(BATCHES)]
    assert measured.longest_turn_ms <= LIMIT_MS


async def test_a_member_that_subscribes_a_megabyte_of_topics_without_a_name(measured: MeasuredBroker) -> None:
    def owned(count: int) -> bytes:
        return pack(">hiii", 3, 0, -1, count) + bytes(6 * count) + pack(">ih", -1, -1)

    join = JoinGroupRequest("many", 10_000, 10_000, protocol_type="consumer")
    async with await Raw.connect(measured.address, WAIT_S) as raw:
        measured.begin()
        for count in (MIB // 6, MIB // 6 - 1):
            join.protocols = [JoinGroupRequestProtocol("range", owned(count))]
            joined = await accepted(lambda: raw.ask(ApiKey.JOIN_GROUP, 3, join))
            join.member_id = joined.member_id
    assert measured.longest_turn_ms <= LIMIT_MS


async def test_one_batch_as_large_as_a_request_is_written_and_read_beside_the_loop(measured: MeasuredBroker) -> None:
    sent = batch_of(bytes(LARGEST_BATCH - 200))
    turns: dict[str, int] = {}
    async with await Raw.connect(measured.address, WAIT_S) as raw:
        for topic in (TOPIC, APPEND_TIME):
            measured.begin()
            result = await raw.produce(topic, sent)
            turns[topic] = measured.longest_turn_ms
            assert result.error_code == 0
            if topic == APPEND_TIME and not IS_SOAK:
                continue
            measured.begin()
            data = await raw.fetch(topic, result.base_offset)
            turns[f"read of {topic}"] = measured.longest_turn_ms
            assert bytes(data.records[61:]) == sent[61:]
            measured.begin()
            # A client before 0.11 gets a message set, which is made in memory.
            old = await raw.fetch(topic, result.base_offset, version=3, partition_max_bytes=LARGEST_BATCH)
            turns[f"message set of {topic}"] = measured.longest_turn_ms
            assert len(old.records) > LARGEST_BATCH - MIB
        measured.begin()
        assert (await raw.produce(TOPIC, sent[:-1] + b"x")).error_code == ErrorCode.CORRUPT_MESSAGE
        turns["wrong CRC"] = measured.longest_turn_ms
    assert {each: ms for each, ms in turns.items() if ms > LIMIT_MS} == {}


@pytest.mark.parametrize("committed", [True, False])
async def test_the_transactions_of_a_querys_batch_end_a_few_a_turn(measured: MeasuredBroker, committed: bool) -> None:
    async with await Raw.connect(measured.address, WAIT_S) as raw:
        await raw.create_topic("t")
        task = Task(raw, query=f"query-{committed}")
        participants = [await task.write(0, str(number), b"x") for number in range(PARTICIPANTS)]
        measured.begin()
        assert (await task.end(0, *participants, commit=committed)).error_code == 0
        # A new run aborts what the one before has left.
        task = Task(raw, query=task.query, run="newer")
        left = [await task.write(1, str(number), b"x") for number in range(PARTICIPANTS)]
        newer = Task(raw, query=task.query, run="newest")
        measured.begin()
        assert (await newer.join(1)).error_code == 0
        assert (await newer.end(1, *left)).error_code != 0
    assert measured.longest_turn_ms <= LIMIT_MS


async def test_a_pattern_is_matched_with_a_long_transactional_id_in_turns(measured: MeasuredBroker) -> None:
    name = "a" * 4000
    async with await Raw.connect(measured.address) as raw:
        begun = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)
        await accepted(lambda: raw.ask(ApiKey.INIT_PRODUCER_ID, 4, begun))
        measured.begin()
        request = ListTransactionsRequest(transactional_id_pattern=".*" * 100)
        response = await raw.ask(ApiKey.LIST_TRANSACTIONS, 2, request)
    assert name in [each.transactional_id for each in response.transaction_states]
    assert measured.longest_turn_ms <= LIMIT_MS
