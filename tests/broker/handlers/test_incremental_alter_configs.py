"""IncrementalAlterConfigs and AlterConfigs: taken over whole or not at all, acted on at once, kept across restarts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.broker import Broker, BrokerConfig
from odradek.broker.configs import alteration
from odradek.broker.configs.alteration import Change, Operation, alter
from odradek.broker.configs.broker_config import BROKER_CONFIGS
from odradek.broker.configs.topic_config import SUPPORTED_TOPIC_CONFIGS, TopicConfig, in_topic_unit
from odradek.broker.topics.config_resources import TopicResource
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages import alter_configs as old
from odradek.protocol.messages import incremental_alter_configs as new
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.seeds import examples

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC_SOURCE, BROKER_SOURCE, CLUSTER_SOURCE, STATIC, DEFAULT = range(1, 6)


async def change(
    raw: Raw, *changes: tuple[str, int, str | None], kind: int = TOPIC, name: str = "t", **fields: Any
) -> int:
    """The error code for the one resource."""
    version = fields.pop("version", 1)
    configs = [new.AlterableConfig(*each) for each in changes]
    request = new.IncrementalAlterConfigsRequest([new.AlterConfigsResource(kind, name, configs)], **fields)
    (response,) = (await raw.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request)).responses
    assert (response.resource_type, response.resource_name) == (kind, name)
    assert bool(response.error_message) == bool(response.error_code)
    return response.error_code


async def replace_all(
    raw: Raw, *configs: tuple[str, str | None], kind: int = TOPIC, name: str = "t", validate_only: bool = False
) -> int:
    resource = old.AlterConfigsResource(kind, name, [old.AlterableConfig(*each) for each in configs])
    request = old.AlterConfigsRequest([resource], validate_only)
    return (await raw.ask(ApiKey.ALTER_CONFIGS, 2, request)).responses[0].error_code


async def described(raw: Raw, name: str, *keys: str, kind: int = TOPIC) -> dict[str, Any]:
    asked = DescribeConfigsResource(kind, name, list(keys) or None)
    request = DescribeConfigsRequest([asked], include_synonyms=True, include_documentation=True)
    (result,) = (await raw.ask(ApiKey.DESCRIBE_CONFIGS, 4, request)).results
    assert result.error_code == 0
    return {each.name: each for each in result.configs}


async def value(raw: Raw, key: str, name: str = "t", kind: int = TOPIC) -> tuple[str | None, int]:
    """A config's value and source."""
    entry = (await described(raw, name, key, kind=kind))[key]
    return entry.value, entry.config_source


# Topics.


@pytest.mark.parametrize("version", [0, 1])
async def test_a_topics_config_is_acted_on_when_it_is_answered(raw: Raw, version: int) -> None:
    await raw.create_topic("t")
    large = batch_of(b"x" * 5000)
    assert (await raw.produce("t", large)).error_code == 0
    assert await change(raw, ("max.message.bytes", SET, "1000"), version=version) == 0
    assert (await raw.produce("t", large)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert await value(raw, "max.message.bytes") == ("1000", TOPIC_SOURCE)
    assert await change(raw, ("max.message.bytes", DELETE, None), version=version) == 0
    assert (await raw.produce("t", large)).error_code == 0
    assert await value(raw, "max.message.bytes") == ("1048588", DEFAULT)


async def test_a_topics_config_reaches_the_log_of_every_partition(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t", 3)
    await change(raw, ("segment.bytes", SET, " 2000000 "), ("message.timestamp.type", SET, "LogAppendTime"))
    topic = broker.topics.get("t")
    assert topic is not None
    assert {(each.log.config.segment_bytes, each.log_append_time) for each in topic.partitions} == {(2_000_000, True)}
    assert await value(raw, "segment.bytes") == ("2000000", TOPIC_SOURCE)


async def test_what_was_appended_before_is_forced_to_disk_by_a_change_of_flush_messages(
    broker: Broker, raw: Raw
) -> None:
    await raw.create_topic("t")
    await raw.produce("t", batch_of(b"a"))
    topic = broker.topics.get("t")
    assert topic is not None
    assert topic.partitions[0].log.recovery_point == 0
    assert await change(raw, ("flush.messages", SET, "1")) == 0
    await broker.services.flusher.flush(topic.partitions[0])
    assert topic.partitions[0].log.recovery_point == 1


async def test_lists_grow_and_shrink(raw: Raw) -> None:
    await raw.create_topic("t")
    for operation, text, result in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (APPEND, "delete,compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
        (SET, "delete", "delete"),
        (APPEND, "delete,", "delete"),
        (SET, "compact,compact", "compact"),
    ):
        assert await change(raw, ("cleanup.policy", operation, text)) == 0
        assert await value(raw, "cleanup.policy") == (result, TOPIC_SOURCE)


async def test_a_brokers_list_names_nothing_twice(raw: Raw) -> None:
    """As in Kafka, where a topic's may. An entry that is appended again counts once."""
    key = "log.cleanup.policy"
    for name in ("", "1"):
        for text in ("compact,compact", "delete, compact, delete"):
            assert await change(raw, (key, SET, text), kind=BROKER, name=name) == ErrorCode.INVALID_REQUEST
        assert await value(raw, key, "1", BROKER) == ("delete", DEFAULT)
    for text, result in (("compact,compact", "delete,compact"), ("delete", "delete,compact")):
        assert await change(raw, (key, APPEND, text), kind=BROKER, name="1") == 0
        assert await value(raw, key, "1", BROKER) == (result, BROKER_SOURCE)
    assert await change(raw, (key, DELETE, None), kind=BROKER, name="1") == 0


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("segment.bytes", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("cleanup.policy", APPEND, None)], ErrorCode.INVALID_REQUEST),
        ([("segment.bytes", SET, "")], ErrorCode.INVALID_CONFIG),
        ([("segment.bytes", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("segment.bytes", SET, "many")], ErrorCode.INVALID_CONFIG),
        ([("no.such", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("segment.bytes", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("segment.bytes", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG),
        ([("cleanup.policy", APPEND, "shred")], ErrorCode.INVALID_CONFIG),
        ([("remote.storage.enable", SET, "true")], ErrorCode.INVALID_CONFIG),
        ([("segment.ms", 4, "1")], ErrorCode.INVALID_REQUEST),
        ([("segment.ms", -1, "1")], ErrorCode.INVALID_REQUEST),
        ([("segment.ms", SET, "1"), ("segment.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
        ([("segment.ms", SET, "1"), ("segment.ms", DELETE, None)], ErrorCode.INVALID_REQUEST),
        ([("segment.ms", SET, "1"), ("segment.bytes", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("cleanup.policy", APPEND, "")], ErrorCode.INVALID_CONFIG),
        ([("cleanup.policy", APPEND, "\xa0compact")], ErrorCode.INVALID_CONFIG),
        # Of several errors: a missing value, then an operation that the config does not know, then a value.
        ([("segment.bytes", APPEND, "1"), ("segment.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("no.such", DELETE, None)], ErrorCode.NONE),
        ([], ErrorCode.NONE),
    ],
)
async def test_an_invalid_change_rejects_all_changes_of_its_resource(
    shared_broker: Broker, shared: Raw, changes: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    await shared.create_topic("t", index_interval_bytes="77")
    assert await change(shared, *changes) == code
    topic = shared_broker.topics.get("t")
    assert topic is not None and topic.record.configs == {"index.interval.bytes": "77"}
    assert await change(shared, *changes, validate_only=True) == code


async def test_validating_changes_nothing(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t")
    assert await change(raw, ("segment.ms", SET, "1"), validate_only=True) == 0
    assert (await value(raw, "segment.ms"))[1] == DEFAULT
    assert await change(raw, ("message.max.bytes", SET, "1"), kind=BROKER, name="1", validate_only=True) == 0
    assert (await value(raw, "message.max.bytes", "1", BROKER))[1] == DEFAULT


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nobody", ErrorCode.INVALID_CONFIG),
        (TOPIC, "", ErrorCode.INVALID_REQUEST),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "99", ErrorCode.INVALID_REQUEST),
        (BROKER, "me", ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ErrorCode.INVALID_CONFIG),
        (LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (METRICS, "m", ErrorCode.INVALID_REQUEST),
        (METRICS, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ErrorCode.INVALID_CONFIG),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
        (3, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_resource_that_has_no_such_config(shared: Raw, kind: int, name: str, code: ErrorCode) -> None:
    assert await change(shared, ("no.such", SET, "1"), kind=kind, name=name) == code
    assert await replace_all(shared, ("no.such", "1"), kind=kind, name=name) == code


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ([("segment.ms", "1")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([("segment.ms", "x")], ErrorCode.INVALID_CONFIG),
        ([("segment.ms", "0")], ErrorCode.INVALID_CONFIG),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
async def test_bad_configs_are_named_before_the_topic_that_does_not_exist(
    shared: Raw, configs: list[tuple[str, str]], code: ErrorCode, validate_only: bool
) -> None:
    changes = [(name, SET, text) for name, text in configs]
    assert await change(shared, *changes, name="nobody", validate_only=validate_only) == code
    assert await replace_all(shared, *configs, name="nobody", validate_only=validate_only) == code


async def test_a_resource_that_comes_twice_is_refused_and_others_are_not(raw: Raw) -> None:
    await raw.create_topic("t")
    await raw.create_topic("u")
    one = new.AlterConfigsResource(TOPIC, "t", [new.AlterableConfig("segment.ms", SET, "5")])
    other = new.AlterConfigsResource(TOPIC, "u", [new.AlterableConfig("segment.ms", SET, "6")])
    request = new.IncrementalAlterConfigsRequest([one, other, one])
    responses = (await raw.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)).responses
    assert [(each.resource_name, each.error_code) for each in responses] == [("t", 42), ("u", 0)]
    assert await value(raw, "segment.ms", "u") == ("6", TOPIC_SOURCE)
    plain = old.AlterConfigsResource(TOPIC, "t", [])
    responses = (await raw.ask(ApiKey.ALTER_CONFIGS, 2, old.AlterConfigsRequest([plain, plain]))).responses
    assert [each.error_code for each in responses] == [42]


async def test_alter_configs_replaces_all_configs(raw: Raw) -> None:
    await raw.create_topic("t", segment_ms="77", flush_ms="5")
    assert await replace_all(raw, ("segment.ms", "88")) == 0
    assert await value(raw, "segment.ms") == ("88", TOPIC_SOURCE)
    assert (await value(raw, "flush.ms"))[1] == DEFAULT
    assert await replace_all(raw, ("segment.ms", None)) == ErrorCode.INVALID_REQUEST
    assert await replace_all(raw, ("segment.ms", "1"), ("segment.ms", "2")) == ErrorCode.INVALID_REQUEST
    assert await replace_all(raw, ("segment.bytes", "1")) == ErrorCode.INVALID_CONFIG
    assert await value(raw, "segment.ms") == ("88", TOPIC_SOURCE)
    assert await replace_all(raw) == 0
    assert (await value(raw, "segment.ms"))[1] == DEFAULT


# Brokers.


async def test_the_layers_of_a_broker_config_in_the_order_of_precedence(raw: Raw) -> None:
    await raw.create_topic("t")
    key = "message.max.bytes"
    assert await change(raw, (key, SET, "2000"), kind=BROKER, name="") == 0
    assert await value(raw, key, "1", BROKER) == ("2000", CLUSTER_SOURCE)
    assert await change(raw, (key, SET, "3000"), kind=BROKER, name="1") == 0
    entry = (await described(raw, "1", key, kind=BROKER))[key]
    assert (entry.value, entry.config_source, entry.read_only) == ("3000", BROKER_SOURCE, False)
    layers = [("3000", BROKER_SOURCE), ("2000", CLUSTER_SOURCE), ("1048588", DEFAULT)]
    assert [(each.value, each.source) for each in entry.synonyms] == layers
    topics = (await described(raw, "t", "max.message.bytes"))["max.message.bytes"]
    assert (topics.value, topics.config_source) == ("3000", BROKER_SOURCE)
    assert [(each.name, each.value, each.source) for each in topics.synonyms] == [(key, *each) for each in layers]
    assert (await raw.produce("t", batch_of(b"x" * 4000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert list(await described(raw, "", kind=BROKER)) == [key]
    for name in ("1", ""):
        assert await change(raw, (key, DELETE, None), kind=BROKER, name=name) == 0
    assert await value(raw, key, "1", BROKER) == ("1048588", DEFAULT)
    assert await described(raw, "", kind=BROKER) == {}
    assert (await raw.produce("t", batch_of(b"x" * 4000))).error_code == 0


async def test_a_topics_own_config_is_stronger_than_the_brokers(raw: Raw) -> None:
    await raw.create_topic("t", max_message_bytes="500")
    assert await change(raw, ("message.max.bytes", SET, "2000"), kind=BROKER, name="") == 0
    assert await value(raw, "max.message.bytes") == ("500", TOPIC_SOURCE)


@pytest.mark.parametrize("name", ["1", ""])
@pytest.mark.parametrize(
    ("key", "text", "code"),
    [
        ("node.id", "7", ErrorCode.INVALID_REQUEST),
        ("num.partitions", "7", ErrorCode.INVALID_REQUEST),
        ("message.max.bytes", "-5", ErrorCode.INVALID_REQUEST),
        ("message.max.bytes", "big", ErrorCode.INVALID_REQUEST),
        ("message.max.bytes", None, ErrorCode.INVALID_REQUEST),
        ("no.such", "1", ErrorCode.INVALID_CONFIG),
        ("background.threads", "1", ErrorCode.INVALID_CONFIG),
    ],
)
async def test_configs_that_a_broker_rejects(
    shared_broker: Broker, shared: Raw, name: str, key: str, text: str | None, code: ErrorCode
) -> None:
    good = ("log.index.interval.bytes", SET, "99")
    assert await change(shared, good, (key, SET, text), kind=BROKER, name=name) == code
    assert shared_broker.config.log_index_interval_bytes == 4096
    assert shared_broker.services.metadata.broker_configs == {}
    assert await change(shared, ("num.partitions", DELETE, None), kind=BROKER, name=name) == 0


async def test_changed_configs_survive_a_restart(config: BrokerConfig) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        await change(raw, ("segment.ms", SET, "5000"))
        await change(raw, ("message.max.bytes", SET, "2000"), kind=BROKER, name="")
        await change(raw, ("log.index.interval.bytes", SET, "99"), kind=BROKER, name="1")
    assert config.message_max_bytes == 1048588
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert await value(raw, "segment.ms") == ("5000", TOPIC_SOURCE)
        assert await value(raw, "message.max.bytes", "1", BROKER) == ("2000", CLUSTER_SOURCE)
        assert await value(raw, "index.interval.bytes") == ("99", BROKER_SOURCE)
        assert (await raw.produce("t", batch_of(b"x" * 4000))).error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_a_lower_connection_limit_counts_for_new_connections(broker: Broker, raw: Raw) -> None:
    assert await change(raw, ("max.connections", SET, "1"), kind=BROKER, name="1") == 0
    async with await Raw.connect(broker.address) as refused:
        assert await refused.is_closed()
    assert await change(raw, ("max.connections", DELETE, None), kind=BROKER, name="1") == 0
    assert await change(raw, ("max.connections.per.ip", SET, "1"), kind=BROKER, name="1") == 0
    async with await Raw.connect(broker.address) as refused:
        assert await refused.is_closed()


INHERITED = {name: each for each in SUPPORTED_TOPIC_CONFIGS.values() for name in each.broker_synonyms}
ELSEWHERE = {"max.connections", "max.connections.per.ip", "producer.id.expiration.ms"}


@pytest.mark.parametrize("name", [name for name in INHERITED if BROKER_CONFIGS[name].dynamic])
async def test_a_changed_broker_config_reaches_its_topics_at_once(
    shared_broker: Broker, shared: Raw, name: str
) -> None:
    await shared.create_topic("inherits")
    text = next(each for each in TEXTS[BROKER_CONFIGS[name].type.name] if _other(name, each))
    assert await change(shared, (name, SET, text), kind=BROKER, name="1") == 0
    topic = shared_broker.topics.get("inherits")
    assert topic is not None
    wanted = in_topic_unit(BROKER_CONFIGS[name], BROKER_CONFIGS[name].parse(text))
    assert getattr(topic.config, INHERITED[name].attribute) == wanted
    assert await change(shared, (name, DELETE, None), kind=BROKER, name="1") == 0


TEXTS = {
    "INT": ("5", "2000000"),
    "LONG": ("5000", "2000000"),
    "DOUBLE": ("0.25",),
    "BOOLEAN": ("true", "false"),
    "LIST": ("compact",),
    "STRING": ("LogAppendTime", "zstd"),
}


def _other(name: str, text: str) -> bool:
    try:
        return BROKER_CONFIGS[name].parse(text) != BROKER_CONFIGS[name].default
    except Exception:  # noqa: BLE001 - not one of its values
        return False


async def test_producers_are_forgotten_by_the_new_rule(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t")
    assert await change(raw, ("producer.id.expiration.ms", SET, "7"), kind=BROKER, name="1") == 0
    topic = broker.topics.get("t")
    assert topic is not None and topic.partitions[0].log.config.producer_id_expiration_ms == 7


def _given(changes: Iterable[tuple[int, str]]) -> list[Change]:
    return [Change("cleanup.policy", Operation(operation), text) for operation, text in changes]


class FakeTopic(TopicResource):
    """A topic's configs without a topic."""

    def __init__(self) -> None:
        self.exists = True
        self.configs: dict[str, str] = {}
        self.broker = BrokerConfig()

    def overrides(self) -> dict[str, str]:
        return self.configs

    def value(self, declared: Any) -> Any:
        return getattr(TopicConfig.resolve(self.broker, self.configs), declared.attribute)

    def alter(self, configs: dict[str, str], validate_only: bool) -> None:
        TopicConfig.resolve(self.broker, configs)
        self.configs = dict(configs)


ENTRIES = st.lists(st.sampled_from(["compact", "delete"]), min_size=1, max_size=3, unique=True).map(",".join)


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.sampled_from([SET, DELETE, APPEND, SUBTRACT]), ENTRIES), max_size=8))
def test_appending_and_subtracting_do_what_a_list_would_do(changes: list[tuple[int, str]]) -> None:
    resource, model = FakeTopic(), None
    for operation, text in changes:
        entries = text.split(",")
        have = ["delete"] if model is None else model
        wanted = {
            SET: entries,
            DELETE: None,
            APPEND: have + [each for each in entries if each not in have],
            SUBTRACT: [each for each in have if each not in entries],
        }[operation]
        try:
            alter(resource, _given([(operation, text)]), validate_only=False)
        except KafkaError as error:
            assert error.code is ErrorCode.INVALID_CONFIG and wanted == []
        else:
            model = wanted
        assert resource.configs == ({} if model is None else {"cleanup.policy": ",".join(model)})


NUMBERS = [each for each in SUPPORTED_TOPIC_CONFIGS.values() if each.type.name in ("INT", "LONG")]


@settings(max_examples=examples(150))
@given(st.sampled_from(NUMBERS), st.integers(-5, 2**63))
def test_a_number_is_described_as_it_was_given_or_rejected(declared: Any, number: int) -> None:
    resource = FakeTopic()
    try:
        alter(resource, [Change(declared.name, Operation.SET, f" {number} ")], validate_only=False)
    except KafkaError as error:
        assert error.code is ErrorCode.INVALID_CONFIG and declared.name in error.message
        assert resource.configs == {}
    else:
        assert resource.configs == {declared.name: str(number)}
        assert resource.value(declared) == number


THROTTLED = "leader.replication.throttled.replicas"


class Entry(str):
    """An entry of a list that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Entry.compared += 1
        return super().__eq__(other)


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
async def test_entries_of_long_lists_are_not_compared_each_with_each(
    raw: Raw, monkeypatch: pytest.MonkeyPatch, operation: int
) -> None:
    """Lists of 200,000 characters held the event loop for a minute."""
    await raw.create_topic("t")
    many = 500
    assert await change(raw, (THROTTLED, SET, ",".join(f"{number}:1" for number in range(many)))) == 0
    monkeypatch.setattr(alteration, "_entries", lambda text: list(map(Entry, text.split(","))))
    monkeypatch.setattr(Entry, "compared", 0)
    others = ",".join(f"{number}:{2 if operation == APPEND else 1}" for number in range(1, many))
    code = await change(raw, (THROTTLED, operation, others))
    assert code == 0 and Entry.compared < 10 * many
    found, _ = await value(raw, THROTTLED)
    assert found is not None and len(found.split(",")) == (2 * many - 1 if operation == APPEND else 1)


async def test_a_list_does_not_grow_longer_than_a_response_can_have(raw: Raw) -> None:
    await raw.create_topic("t")
    first, second = (",".join(f"{number}:{broker}" for number in range(3_000)) for broker in (1, 2))
    assert await change(raw, (THROTTLED, SET, first)) == 0
    assert await change(raw, (THROTTLED, APPEND, second)) == ErrorCode.INVALID_CONFIG
    assert (await value(raw, THROTTLED))[0] == first


async def test_a_longer_value_of_an_earlier_version_is_in_use_after_a_restart(config: BrokerConfig) -> None:
    long = ",".join(f"{number}:1" for number in range(10_000))
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        record = broker.services.metadata.topics["t"]
        broker.services.metadata.put_topic(replace(record, configs={THROTTLED: long}))
    async with Broker(config) as broker:
        topic = broker.topics.get("t")
        assert topic is not None and len(topic.config.leader_replication_throttled_replicas) == 10_000


async def test_a_broker_config_that_only_an_earlier_version_took_does_not_end_the_start(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    name = "log.cleaner.dedupe.buffer.size"
    async with Broker(config) as broker:
        broker.services.metadata.put_broker_configs("", {name: "1048576", "message.max.bytes": "2000"})
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert f"{name}=1048576: must be a whole number of 64 bits, at least 1048577" in caplog.text
        used = broker.services.reconfiguration.config
        assert (used.message_max_bytes, used.log_cleaner_dedupe_buffer_size) == (2000, 128 << 20)
        repaired = (name, SET, "2097152")
        assert await change(raw, repaired, kind=BROKER, name="", validate_only=True) == 0
        assert used.log_cleaner_dedupe_buffer_size == 128 << 20
        assert await change(raw, repaired, kind=BROKER, name="") == 0
        assert used.log_cleaner_dedupe_buffer_size == 2 << 20


@pytest.mark.parametrize(("size", "at_once"), [(500, True), (30_000, False)])
async def test_resources_with_long_texts_are_altered_in_turns(
    raw: Raw, monkeypatch: pytest.MonkeyPatch, size: int, at_once: bool
) -> None:
    sizes: list[int] = []

    def alter_each(requested: Any, alter_one: Any) -> Any:
        sizes.append(len(requested))
        return alteration.alter_each(requested, alter_one)

    monkeypatch.setattr("odradek.broker.handlers.configs.alter_each", alter_each)
    names = ["a", "b", "c", "d"]
    for name in names:
        await raw.create_topic(name)
    text = ",".join(f"{number}:1" for number in range(10_000))[:size].rpartition(",")[0]
    configs = [new.AlterableConfig(each, SET, text) for each in (THROTTLED, THROTTLED.replace("leader", "follower"))]
    resources = [new.AlterConfigsResource(TOPIC, name, configs) for name in names]
    answer = await raw.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, new.IncrementalAlterConfigsRequest(resources))
    assert [(each.error_code, each.resource_name) for each in answer.responses] == [(0, name) for name in names]
    assert sum(sizes) == 4 and (len(sizes) == 1) is at_once
