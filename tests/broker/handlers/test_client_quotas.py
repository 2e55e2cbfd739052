"""DescribeClientQuotas and AlterClientQuotas by Kafka's rules, what a restart knows, and what clients feel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.quotas import client_quotas
from odradek.protocol import frame
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest, EntityData
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.tests.support.clients.raw import Raw, batch_of

EXACT, DEFAULT, ANY = 0, 1, 2
ME = {"user": "ANONYMOUS"}
TOO_MUCH = 89


def entry(names: Mapping[str, str | None], **values: float | None) -> EntryData:
    ops = [OpData(key, 0.0 if value is None else value, value is None) for key, value in values.items()]
    return EntryData([EntityData(*each) for each in names.items()], ops)


async def alter(raw: Raw, *entries: EntryData, validate_only: bool = False, version: int = 1) -> list[Any]:
    request = AlterClientQuotasRequest(list(entries), validate_only)
    response = await raw.ask(ApiKey.ALTER_CLIENT_QUOTAS, version, request)
    return [(each.error_code, each.error_message) for each in response.entries]


async def describe(raw: Raw, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    request = DescribeClientQuotasRequest([ComponentData(*each) for each in components], strict)
    response = await raw.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request)
    if response.error_code:
        assert response.entries is None
        return response.error_code, response.error_message
    return {
        tuple((part.entity_type, part.entity_name) for part in each.entity): {
            value.key: value.value for value in each.values
        }
        for each in response.entries
    }


async def test_quotas_are_set_described_and_removed(raw: Raw) -> None:
    set_all = [
        entry({"user": "u"}, producer_byte_rate=1, request_percentage=0.5),
        entry({"user": "u", "client-id": None}, consumer_byte_rate=2),
        entry({"client-id": "c"}, controller_mutation_rate=3),
        entry({"ip": None}, connection_creation_rate=4),
    ]
    assert await alter(raw, *set_all, version=0) == [(0, None)] * 4
    user = {(("user", "u"),): {"producer_byte_rate": 1.0, "request_percentage": 0.5}}
    both = {(("client-id", None), ("user", "u")): {"consumer_byte_rate": 2.0}}
    client = {(("client-id", "c"),): {"controller_mutation_rate": 3.0}}
    address = {(("ip", None),): {"connection_creation_rate": 4.0}}
    assert await describe(raw) == user | both | client | address
    assert await describe(raw, strict=True) == {}
    assert await describe(raw, ("user", ANY, None)) == user | both
    assert await describe(raw, ("user", EXACT, "u"), strict=True) == user
    assert await describe(raw, ("client-id", DEFAULT, None)) == both
    assert await describe(raw, ("client-id", ANY, None)) == both | client
    assert await describe(raw, ("ip", DEFAULT, None)) == address
    assert await describe(raw, ("user", EXACT, "")) == {}
    assert await alter(raw, entry({"user": "u"}, producer_byte_rate=None, consumer_byte_rate=None)) == [(0, None)]
    assert await describe(raw, ("user", EXACT, "u"), strict=True) == {(("user", "u"),): {"request_percentage": 0.5}}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (entry({}), "Invalid empty client quota entity"),
        (entry({"group": "g"}), "Unhandled client quota entity type: group"),
        (entry({"user": ""}), "Empty user not supported"),
        (
            entry({"user": "u", "ip": "10.0.0.1"}),
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        (entry({"ip": "no address"}), "no address is not a valid IP or resolvable host."),
        (entry({"user": "u"}, bytes=1), "Invalid configuration key bytes"),
        (entry({"user": "u"}, connection_creation_rate=1), "Invalid configuration key connection_creation_rate"),
        (entry({"ip": "::1"}, producer_byte_rate=1), "Invalid configuration key producer_byte_rate"),
        (entry({"user": "u"}, producer_byte_rate=0), "Quota producer_byte_rate must be greater than 0"),
        (entry({"user": "u"}, producer_byte_rate=float("nan")), "Quota producer_byte_rate must be a finite number"),
        (entry({"user": "u"}, request_percentage=float("inf")), "Quota request_percentage must be a finite number"),
        (entry({"user": "u"}, producer_byte_rate=1.5), "producer_byte_rate cannot be a fractional value."),
        (
            entry({"user": "u"}, producer_byte_rate=1e19),
            "Proposed value for producer_byte_rate is too large for a LONG.",
        ),
        (
            entry({"ip": "10.0.0.1"}, connection_creation_rate=3e9),
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
        (
            entry({"user": "u"}, producer_byte_rate=1, consumer_byte_rate=-1),
            "Quota consumer_byte_rate must be greater than 0",
        ),
    ],
)
async def test_a_wrong_change_is_rejected_and_others_are_made(shared: Raw, wrong: EntryData, why: str) -> None:
    good = entry({"user": "v"}, producer_byte_rate=5)
    assert await alter(shared, wrong, good) == [(42, why), (0, None)]
    assert await describe(shared) == {(("user", "v"),): {"producer_byte_rate": 5.0}}


async def test_of_an_entity_that_comes_twice_the_first_change_is_made(raw: Raw) -> None:
    first, second = entry({"user": "u"}, producer_byte_rate=1), entry({"user": "u"}, producer_byte_rate=2)
    why = "Ignoring duplicate entity ClientQuotaEntity(entries={user=u})"
    assert await alter(raw, first, second) == [(42, why)]
    assert await describe(raw) == {(("user", "u"),): {"producer_byte_rate": 1.0}}


async def test_what_is_only_checked_is_not_set(raw: Raw) -> None:
    assert await alter(raw, entry({"user": "u"}, producer_byte_rate=1), validate_only=True) == [(0, None)]
    assert await describe(raw) == {}


@pytest.mark.parametrize(
    ("components", "error"),
    [
        (
            [("user", EXACT, "u"), ("user", ANY, None)],
            (42, "Entity type user cannot appear more than once in the filter."),
        ),
        ([("group", EXACT, "g")], (35, "Unsupported entity type group")),
        ([("", EXACT, "g")], (42, "Invalid empty entity type.")),
        ([("user", EXACT, None)], (42, "Request specified MATCH_TYPE_EXACT, but set match string to null.")),
        ([("user", DEFAULT, "u")], (42, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")),
        ([("user", ANY, "u")], (42, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")),
        ([("user", 3, None)], (42, "Unknown match type 3")),
        (
            [("ip", ANY, None), ("user", ANY, None)],
            (
                42,
                "Invalid entity filter component combination. IP filter component should not be used with user or "
                "clientId filter component.",
            ),
        ),
    ],
)
async def test_a_wrong_filter_is_an_error_of_the_response(shared: Raw, components: Any, error: Any) -> None:
    assert await describe(shared, *components) == error


async def test_thousands_of_entities_are_described(raw: Raw) -> None:
    entries = [entry({"client-id": f"c{number}"}, producer_byte_rate=1e12) for number in range(3000)]
    assert await alter(raw, *entries) == [(0, None)] * 3000
    assert len(await describe(raw)) == 3000


async def test_a_restart_knows_the_quotas_and_keeps_to_them(config: BrokerConfig) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await alter(raw, entry(ME, producer_byte_rate=10), entry({"user": "gone"}, producer_byte_rate=7))
        await alter(raw, entry({"user": "gone"}, producer_byte_rate=None))
        expected = await describe(raw)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert await describe(raw) == expected == {(("user", "ANONYMOUS"),): {"producer_byte_rate": 10.0}}
        await raw.create_topic("t")
        sent = await raw.ask(ApiKey.PRODUCE, 9, produce(batch_of(b"x" * 1000)))
        assert sent.throttle_time_ms > 90_000


def produce(data: bytes, acks: int = 1) -> ProduceRequest:
    return ProduceRequest(None, acks, 1000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, data)])])


@pytest.fixture
async def topic(raw: Raw) -> None:
    assert (await raw.create_topic("t")).error_code == 0


async def limit(broker: Broker, **values: float | None) -> None:
    """Change the quotas of everybody who does not log in, on a connection of its own, which waits perhaps."""
    async with await Raw.connect(broker.address) as raw:
        assert await alter(raw, entry(ME, **values)) == [(0, None)]


def waiting(broker: Broker) -> int:
    """How many connections wait for the broker."""
    return sum(each.waits for processor in broker.acceptor.processors for each in processor.connections)


async def test_a_producer_over_its_quota_is_answered_at_once_and_waits(broker: Broker, raw: Raw, topic: None) -> None:
    await limit(broker, producer_byte_rate=10)
    sent = await raw.ask(ApiKey.PRODUCE, 9, produce(batch_of(b"x" * 1000)))
    assert sent.responses[0].partition_responses[0].error_code == 0
    assert 90_000 < sent.throttle_time_ms < 110_000
    raw.send(ApiKey.METADATA, 9, MetadataRequest([]))
    # A connection of its own is served, and its request counts nothing: it produces nothing.
    async with await Raw.connect(broker.address) as other:
        assert (await other.ask(ApiKey.METADATA, 9, MetadataRequest([]))).throttle_time_ms == 0
    assert waiting(broker) == 1


async def test_the_size_is_that_of_the_whole_request(broker: Broker, raw: Raw, topic: None) -> None:
    await limit(broker, producer_byte_rate=1)
    request = produce(batch_of(b"x" * 1000))
    size = sum(len(bytes(piece)) for piece in frame.encode_request(ApiKey.PRODUCE, 9, 1, "raw", request)) - 4
    sent = await raw.ask(ApiKey.PRODUCE, 9, request)
    assert sent.throttle_time_ms == (size - 10) * 1000


async def test_a_producer_without_responses_waits_too(broker: Broker, raw: Raw, topic: None) -> None:
    await limit(broker, producer_byte_rate=10)
    raw.send(ApiKey.PRODUCE, 9, produce(batch_of(b"x" * 1000), acks=0))
    async with await Raw.connect(broker.address) as other:
        while not (await other.fetch("t", 0)).records:
            pass
    assert waiting(broker) == 1


async def test_a_client_goes_on_after_its_wait(broker: Broker, raw: Raw, topic: None) -> None:
    await limit(broker, producer_byte_rate=100_000)
    sent = await raw.ask(ApiKey.PRODUCE, 9, produce(batch_of(b"x" * 800_000)))
    assert sent.throttle_time_ms == 0
    sent = await raw.ask(ApiKey.PRODUCE, 9, produce(batch_of(b"x" * 205_000)))
    assert 0 < sent.throttle_time_ms < 1000
    assert (await raw.ask(ApiKey.METADATA, 9, MetadataRequest([]))).throttle_time_ms == 0


async def test_a_consumer_over_its_quota_gets_nothing_and_keeps_its_session(
    broker: Broker, raw: Raw, topic: None
) -> None:
    await raw.produce("t", batch_of(b"x" * 10_000))

    def fetch(session: int, epoch: int) -> FetchRequest:
        partitions = [] if epoch > 0 else [FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=100_000)])]
        return FetchRequest(
            max_bytes=100_000, max_wait_ms=0, session_id=session, session_epoch=epoch, topics=partitions
        )

    async with await Raw.connect(broker.address) as reader:
        # Nothing is kept of a session that would begin with this response, as in Kafka.
        await limit(broker, consumer_byte_rate=100)
        refused = await reader.ask(ApiKey.FETCH, 11, fetch(0, 0))
        assert (refused.session_id, refused.responses, refused.error_code) == (0, [], 0)
        assert 90_000 < refused.throttle_time_ms < 110_000
        assert len(broker.services.fetch_sessions) == 0
    await limit(broker, consumer_byte_rate=None)
    first = await raw.ask(ApiKey.FETCH, 11, fetch(0, 0))
    assert first.responses and first.throttle_time_ms == 0
    await limit(broker, consumer_byte_rate=100)
    refused = await raw.ask(ApiKey.FETCH, 11, fetch(first.session_id, 1))
    assert (refused.session_id, refused.responses, refused.error_code) == (first.session_id, [], 0)
    assert refused.throttle_time_ms > 0
    await limit(broker, consumer_byte_rate=None)
    async with await Raw.connect(broker.address) as reader:
        again = await reader.ask(ApiKey.FETCH, 11, fetch(first.session_id, 2))
        assert again.session_id == first.session_id
        assert again.responses[0].partitions[0].records


async def test_a_fetch_is_no_larger_than_ten_seconds_allow(broker: Broker, raw: Raw, topic: None) -> None:
    for _ in range(10):
        await raw.produce("t", batch_of(b"x" * 900))
    await limit(broker, consumer_byte_rate=200)
    found = await raw.fetch("t", 0, max_bytes=100_000, partition_max_bytes=100_000)
    assert 1000 < len(found.records) <= 2000


async def test_the_time_of_any_request_counts(broker: Broker, raw: Raw) -> None:
    await limit(broker, request_percentage=1e-9)
    response = await raw.ask(ApiKey.METADATA, 9, MetadataRequest([]))
    assert response.throttle_time_ms == 1000
    await limit(broker, request_percentage=None)
    assert (await raw.ask(ApiKey.METADATA, 9, MetadataRequest([]))).throttle_time_ms == 0


async def test_a_request_that_waits_is_told_too(broker: Broker, raw: Raw) -> None:
    await limit(broker, request_percentage=1e-9)
    response = await raw.ask(ApiKey.CREATE_TOPICS, 6, CreateTopicsRequest([CreatableTopic("u", 1, 1)]))
    assert (response.topics[0].error_code, response.throttle_time_ms) == (0, 1000)


async def test_a_request_that_fails_is_told_too(broker: Broker, raw: Raw) -> None:
    await limit(broker, request_percentage=1e-9)
    response = await raw.ask(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=0, session_id=5, session_epoch=7, max_bytes=1))
    assert (response.error_code, response.throttle_time_ms) == (70, 1000)


async def test_topics_are_created_within_the_quota(broker: Broker, raw: Raw) -> None:
    await limit(broker, controller_mutation_rate=1)

    def wanted(*names: str, partitions: int = 6) -> CreateTopicsRequest:
        return CreateTopicsRequest([CreatableTopic(name, partitions, 1) for name in names], timeout_ms=10_000)

    created = await raw.ask(ApiKey.CREATE_TOPICS, 6, wanted("a", "b", "c"))
    assert [each.error_code for each in created.topics] == [0, 0, TOO_MUCH]
    assert created.topics[2].error_message == "The throttling quota has been exceeded."
    assert 0 < created.throttle_time_ms <= 1000


async def test_partitions_and_deletions_count_too(broker: Broker, raw: Raw) -> None:
    for name in ("a", "b", "c"):
        await raw.create_topic(name, 5)
    await limit(broker, controller_mutation_rate=1)
    topics = [CreatePartitionsTopic("a", 13, None), CreatePartitionsTopic("b", 13, None)]
    grown = await raw.ask(ApiKey.CREATE_PARTITIONS, 3, CreatePartitionsRequest(topics, 10_000))
    assert [each.error_code for each in grown.results] == [0, 0]
    async with await Raw.connect(broker.address) as other:
        deletions = DeleteTopicsRequest([DeleteTopicState("c")], timeout_ms=10_000)
        deleted = await other.ask(ApiKey.DELETE_TOPICS, 6, deletions)
        assert [each.error_code for each in deleted.responses] == [TOO_MUCH]
        assert 3000 < deleted.throttle_time_ms <= 5000
    async with await Raw.connect(broker.address) as old:
        # Older clients do not know the error.
        deletions = DeleteTopicsRequest(topic_names=["c"], timeout_ms=10_000)
        deleted = await old.ask(ApiKey.DELETE_TOPICS, 4, deletions)
        assert [each.error_code for each in deleted.responses] == [0]
        assert deleted.throttle_time_ms > 8000


async def test_a_check_alone_counts_too(broker: Broker, raw: Raw) -> None:
    await limit(broker, controller_mutation_rate=1)
    wanted = CreateTopicsRequest([CreatableTopic("a", 20, 1), CreatableTopic("b", 1, 1)], 10_000, validate_only=True)
    checked = await raw.ask(ApiKey.CREATE_TOPICS, 6, wanted)
    assert [each.error_code for each in checked.topics] == [0, TOO_MUCH]


async def test_client_ids_without_end_cost_a_bounded_memory(
    broker: Broker, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_quotas, "MAX_METERS", 100)
    everybody = entry({"client-id": None}, producer_byte_rate=1e9, request_percentage=1e6)
    assert await alter(raw, everybody) == [(0, None)]
    for number in range(120):
        raw.send(ApiKey.METADATA, 9, MetadataRequest([]), client_id=f"id-{number}")
        await raw.receive(ApiKey.METADATA, 9)
    meters = broker.services.quotas._rates["request_percentage"]
    assert len(meters) == 100


async def test_without_a_quota_requests_take_the_way_they_took(broker: Broker, raw: Raw) -> None:
    await raw.ask(ApiKey.METADATA, 9, MetadataRequest([]))
    served = broker._parts.dispatch._served
    assert served[3, 9].handle.__module__ != "odradek.broker.network.guards"
    await limit(broker, request_percentage=1e6)
    await raw.ask(ApiKey.METADATA, 9, MetadataRequest([]))
    assert served[3, 9].handle.__module__ == "odradek.broker.network.guards"
    await limit(broker, request_percentage=None)
    await raw.ask(ApiKey.METADATA, 9, MetadataRequest([]))
    assert served[3, 9].handle.__module__ != "odradek.broker.network.guards"
