"""The tables of configs: equal to Kafka's, checked, described, and no two lists of the same thing."""

from __future__ import annotations

import csv
import subprocess
import sys
import time
from dataclasses import FrozenInstanceError, asdict, fields, replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from odradek.broker.configs.broker_config import BROKER_CONFIGS, BrokerConfig
from odradek.broker.configs.definition import ConfigDef, ConfigError, ConfigType, Value, definitions_of, nearest
from odradek.broker.configs.description import ConfigSource, ConfigSynonym, describe_broker, describe_topic
from odradek.broker.configs.endpoint import Endpoint
from odradek.broker.configs.security_table import SecurityTable
from odradek.broker.configs.topic_config import SUPPORTED_TOPIC_CONFIGS, TOPIC_CONFIGS, TopicConfig
from odradek.broker.configs.unsupported_configs import UNSUPPORTED_CONFIGS

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-4.4.0" / "configs.tsv"

# Where Odradek's default is not Kafka's, and why.
OTHER_DEFAULTS = {
    ("broker", "node.id"): "Kafka makes every user choose one; a broker that starts by itself is 1",
    ("broker", "listeners"): "a broker without authentication is not opened to the network unasked",
    ("broker", "log.dir"): "data must not lie where the system deletes it",
    ("broker", "group.coordinator.rebalance.protocols"): "there are no streams groups",
    ("broker", "controller.listener.names"): "there is no controller, so there is nothing to name",
    ("broker", "socket.receive.buffer.bytes"): "the system's own tuning takes a batch of 1 MB in fewer reads",
    ("broker", "queued.max.request.bytes"): "half-sent requests of many connections would take all memory",
    ("broker", "socket.listen.backlog.size"): "50 makes a burst of connections wait for SYN retries",
}
# Configs that Kafka 4 has no more: type and default in Kafka 3.9.1 (kafka.server.KafkaConfig).
OF_KAFKA_3 = {
    "zookeeper.connect": ("STRING", None),
    "zookeeper.session.timeout.ms": ("INT", 18_000),
    "zookeeper.connection.timeout.ms": ("INT", None),
    "zookeeper.set.acl": ("BOOLEAN", False),
    "zookeeper.ssl.client.enable": ("BOOLEAN", False),
    "zookeeper.ssl.keystore.location": ("STRING", None),
    "zookeeper.ssl.keystore.password": ("PASSWORD", None),
    "zookeeper.ssl.keystore.type": ("STRING", None),
    "zookeeper.ssl.truststore.location": ("STRING", None),
    "zookeeper.ssl.truststore.password": ("PASSWORD", None),
    "zookeeper.ssl.truststore.type": ("STRING", None),
    "zookeeper.ssl.protocol": ("STRING", "TLSv1.2"),
    # Kafka has no default for these two, which means the same.
    "zookeeper.ssl.enabled.protocols": ("LIST", ()),
    "zookeeper.ssl.cipher.suites": ("LIST", ()),
    "zookeeper.ssl.endpoint.identification.algorithm": ("STRING", "HTTPS"),
    "broker.id.generation.enable": ("BOOLEAN", True),
    "reserved.broker.max.id": ("INT", 1000),
    "leader.imbalance.per.broker.percentage": ("INT", 10),
    "controlled.shutdown.max.retries": ("INT", 3),
    "controlled.shutdown.retry.backoff.ms": ("LONG", 5000),
}
# Dynamic configs of Kafka that its list of broker configs does not name (QuotaConfig), with type and default.
THROTTLES = {
    "leader.replication.throttled.rate": ("LONG", 2**63 - 1),
    "follower.replication.throttled.rate": ("LONG", 2**63 - 1),
}
# Configs that Kafka's authorizer reads itself (StandardAuthorizer), with type and default.
OF_THE_AUTHORIZER = {
    "super.users": ("STRING", ""),
    "allow.everyone.if.no.acl.found": ("BOOLEAN", False),
}
# Configs that Kafka does not have.
OWN = {("broker", name) for name in ("log.retention.policy", "max.producer.ids")}
OWN |= {("broker", "queued.max.response.bytes"), ("broker", "java.security.auth.login.config")}
OWN |= {("broker", "http.listener"), ("broker", "metrics.max.topics"), ("broker", "metrics.max.groups")}
OWN |= {("broker", f"direct.read.{name}") for name in ("max.leases", "lease.ms", "lease.max.ms")}
# Where Odradek's range is not Kafka's, and why. Kafka checks some of these outside its table.
OTHER_RANGES = {
    ("broker", "broker.id"): "-1 means unset; lower ones mean nothing",
    ("broker", "default.replication.factor"): "less than one means nothing",
    ("broker", "queued.max.request.bytes"): "-1 means unset; lower ones mean nothing",
    ("broker", "socket.receive.buffer.bytes"): "-1 leaves it to the system; lower ones mean nothing",
    ("broker", "socket.send.buffer.bytes"): "-1 leaves it to the system; lower ones mean nothing",
    ("broker", "authorizer.class.name"): "Kafka loads any class, and finds no null either",
    ("broker", "max.connections"): "Kafka refuses 0 from a client, so that somebody can connect",
    ("broker", "max.connection.creation.rate"): "the same",
    ("broker", "log.cleaner.threads"): "one process cleans",
    ("broker", "log.cleaner.dedupe.buffer.size"): "Kafka asks for more than a MiB for each thread when it starts",
    ("broker", "log.roll.ms"): "0 would close a segment with every record",
    ("broker", "log.roll.jitter.ms"): "less than none means nothing",
    ("broker", "offsets.topic.segment.bytes"): "a topic's segment.bytes is not smaller: Kafka fails to make it",
    ("broker", "transaction.state.log.segment.bytes"): "the same",
    ("broker", "share.coordinator.state.topic.segment.bytes"): "the same",
    ("broker", "group.consumer.migration.policy"): "the same four words in any case, checked beside the range",
    ("broker", "compression.gzip.level"): "-1 or 1 to 9: the same, 0 is refused beside the range",
    ("topic", "compression.gzip.level"): "-1 or 1 to 9: the same, 0 is refused beside the range",
}


# New in Kafka 4.4.
DEAD_LETTERS = """\
broker	errors.deadletterqueue.auto.create.topics.enable	BOOLEAN	false		MEDIUM	cluster-wide		false
broker	errors.deadletterqueue.topic.name.prefix	STRING	dlq.		MEDIUM	cluster-wide		false
topic	errors.deadletterqueue.group.enable	BOOLEAN	false		MEDIUM	per-topic		false
"""


def kafka_rows(scope: str) -> dict[str, dict[str, str]]:
    with GOLDEN.open(newline="") as file:
        rows = csv.DictReader([*file, *DEAD_LETTERS.splitlines()], delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row["name"]: row for row in rows if row["scope"] == scope}


def kafka_range(setting: ConfigDef) -> str:
    """A setting's range in the notation of Kafka's validators."""
    if setting.choices:
        return f"[{', '.join(setting.choices)}]"
    if setting.low is not None and setting.high is not None:
        return f"[{setting.low},...,{setting.high}]"
    return f"[{setting.low},...]" if setting.low is not None else ""


ALL = [("broker", each) for each in BROKER_CONFIGS.values()] + [("topic", each) for each in TOPIC_CONFIGS.values()]


@pytest.mark.parametrize(("scope", "setting"), ALL, ids=lambda value: getattr(value, "name", value))
def test_name_type_default_and_range_are_kafkas(scope: str, setting: ConfigDef) -> None:
    unlisted = OF_KAFKA_3 | THROTTLES | OF_THE_AUTHORIZER
    if setting.name in unlisted:
        assert setting.name not in kafka_rows(scope)
        assert (setting.type.name, setting.default) == unlisted[setting.name]
        return
    if (scope, setting.name) in OWN:
        assert setting.name not in kafka_rows(scope)
        return
    row = kafka_rows(scope)[setting.name]
    assert row["type"] == setting.type.name
    default = setting.format(setting.default)
    same = (row["default"] == "\\N" and default is None) or row["default"] == default
    assert same is ((scope, setting.name) not in OTHER_DEFAULTS), (row["default"], default)
    if (scope, setting.name) not in OTHER_RANGES and setting.type is not ConfigType.LIST:
        assert kafka_range(setting) == ("" if ":" in row["valid"] else row["valid"])


def test_each_topic_config_that_is_rejected_has_its_reason() -> None:
    assert {name for name, row in TOPIC_CONFIGS.items() if row.unsupported} == (
        TOPIC_CONFIGS.keys() - SUPPORTED_TOPIC_CONFIGS.keys()
    )


def test_every_topic_config_of_kafka_is_answered() -> None:
    assert TOPIC_CONFIGS.keys() == kafka_rows("topic").keys()


def test_topic_configs_inherit_from_the_broker_configs_that_kafka_names() -> None:
    rows = kafka_rows("topic")
    for name, setting in SUPPORTED_TOPIC_CONFIGS.items():
        theirs = [each for each in rows[name]["synonyms"].split(",") if each in BROKER_CONFIGS]
        assert list(setting.broker_synonyms) == theirs


def test_tables_and_list_name_each_config_of_kafka_once() -> None:
    new = {name for name in kafka_rows("broker") if name.startswith("errors.deadletterqueue.")}
    of_tables = BROKER_CONFIGS.keys() - {name for _, name in OWN} - OF_KAFKA_3.keys() - THROTTLES.keys()
    assert kafka_rows("broker").keys() == UNSUPPORTED_CONFIGS | (of_tables - OF_THE_AUTHORIZER.keys()) | new
    assert UNSUPPORTED_CONFIGS.isdisjoint(BROKER_CONFIGS)


# Those that Kafka lets be changed while a broker runs, and Odradek does not: they are refused then.
ONLY_AT_START = {
    "listeners",
    "listener.security.protocol.map",
    "num.network.threads",
    "log.cleaner.threads",
    "num.replica.fetchers",
}


def test_the_same_configs_as_in_kafka_may_change_while_a_broker_runs() -> None:
    kafkas = {name for name, row in kafka_rows("broker").items() if row["update_mode"] != "read-only"}
    # Kafka changes these for one listener only, and most of them for a new listener only.
    kafkas -= definitions_of(SecurityTable).keys() - {"max.connection.creation.rate"}
    ours = {name for name, setting in BROKER_CONFIGS.items() if setting.dynamic}
    assert ours - THROTTLES.keys() == (kafkas & BROKER_CONFIGS.keys()) - ONLY_AT_START


def test_every_field_but_the_given_names_is_a_config() -> None:
    assert [each.name for each in fields(BrokerConfig) if each.name.replace("_", ".") not in BROKER_CONFIGS] == [
        "listener_configs",
        "given",
        "dynamic",
    ]


def test_defaults_are_the_documented_ones() -> None:
    config = BrokerConfig()
    assert config.endpoints == (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    assert (str(config.data_dir), config.node_id) == ("odradek-data", 1)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("log.segment.bytes", "12", "at least 1048576"),
        ("log.segment.bytes", "1GB", "whole number of 32 bits, at least 1048576"),
        ("log.segment.bytes", "2147483648", "32 bits"),
        ("log.segment.bytes", "9" * 10_000, "32 bits"),
        ("log.segment.bytes", "", "whole number"),
        ("num.partitions", "0", "at least 1"),
        ("num.partitions", "١", "whole number"),
        ("default.replication.factor", "0", "at least 1"),
        ("auto.create.topics.enable", "yes", "true or false"),
        ("log.message.timestamp.type", "createtime", "one of CreateTime, LogAppendTime"),
        ("log.dirs", "/a,/a", "must name each directory once"),
        ("log.dirs", "", "must name a directory"),
        ("listeners", "9092", "NAME://HOST:PORT"),
        ("listeners", "PLAINTEXT://h:65536", "port from 0 to 65535"),
        ("listeners", "PLAINTEXT://a..b:1", "no host can have this name"),
        ("listeners", f"PLAINTEXT://{'a' * 64}:1", "no host can have this name"),
        ("http.listener", "a..b:1", "must be HOST:PORT or a port"),
        ("listeners", "A://h:1,A://h:2", "name of its own"),
        ("listeners", "SSL://h:1,TLS://h:2", "TLS is missing in"),
        ("listeners", "INTERNAL://h:1", "missing in listener.security.protocol.map"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:9092", "clients can connect to"),
        ("advertised.listeners", "OTHER://h:9092", "not one of the listeners"),
        ("listener.security.protocol.map", "PLAINTEXT", "NAME:PROTOCOL"),
        ("group.max.session.timeout.ms", "10", "at most group.max.session.timeout.ms, 10"),
        ("authorizer.class.name", "org.apache.kafka.X", "must be one of org.apache.kafka.metadata.authorizer"),
        ("super.users", "User:a", "needs authorizer.class.name"),
        ("super.users", "a", "as User:admin, not 'a'"),
        ("allow.everyone.if.no.acl.found", "true", "needs authorizer.class.name"),
        ("max.connections", "0", "at least 1"),
        ("max.connection.creation.rate", "0", "at least 1"),
        ("max.connections.per.ip", "0", "only with max.connections.per.ip.overrides"),
        ("log.cleaner.dedupe.buffer.size", "1048576", "at least 1048577"),
        ("log.cleaner.io.max.bytes.per.second", "1_000", "must be a number"),
        ("log.cleaner.io.max.bytes.per.second", "inf", "must be a number"),
        ("max.connections", "\xa05", "must be a whole number"),
    ],
)
def test_the_error_of_a_bad_value_has_name_range_and_value(name: str, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason.replace(".", r"\.")) as caught:
        BrokerConfig.parse({name: text})
    if name != "group.max.session.timeout.ms":
        assert text[:50] in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_a_config_made_in_code_is_checked_as_well() -> None:
    with pytest.raises(ConfigError, match=r"num\.partitions=0"):
        BrokerConfig(num_partitions=0)
    with pytest.raises(ConfigError, match=r"num\.partitions=1: must be a whole number"):
        BrokerConfig(num_partitions="1")  # type: ignore[arg-type]


def test_its_values_are_a_dataclass_that_does_not_change() -> None:
    config = BrokerConfig(num_partitions=3)
    assert config == replace(BrokerConfig(), num_partitions=3) != BrokerConfig()
    assert config == replace(config, given=frozenset({"num.partitions"}))
    with pytest.raises(FrozenInstanceError):
        config.num_partitions = 4  # type: ignore[misc]
    with pytest.raises(TypeError, match="num_partions"):
        BrokerConfig(num_partions=3)  # type: ignore[call-arg]


def test_unsupported_and_misspelt_names_give_different_warnings() -> None:
    _, warnings = BrokerConfig.parse(
        {
            "log.local.retention.ms": "1",
            "process.roles": "broker",
            "foo": "1",
            "log.segmnt.bytes": "1",
            "num.partitions": "2",
        }
    )
    assert warnings == [
        "config log.local.retention.ms: known to Kafka, not acted on by Odradek yet",
        "config foo: unknown",
        "config log.segmnt.bytes: unknown (did you mean log.segment.bytes?)",
    ]


# The settings of config/server.properties in the archive of Apache Kafka 4.4.0.
KAFKAS_OWN_FILE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "log.dirs": "/tmp/kraft-combined-logs",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "2",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}


def test_kafkas_own_file_gives_no_warning() -> None:
    config, warnings = BrokerConfig.parse(KAFKAS_OWN_FILE)
    assert warnings == []
    assert config.data_dir == Path("/tmp/kraft-combined-logs")


def test_what_cannot_keep_others_out_of_zookeeper_is_an_error() -> None:
    with pytest.raises(ConfigError, match="lists of revoked ones"):
        BrokerConfig.parse({"zookeeper.ssl.crl.enable": "true"})
    owned = {"zookeeper.set.acl": "true"}
    certificate = {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.keystore.location": "x.pem"}
    for missing in ({}, {"zookeeper.ssl.client.enable": "true"}, {"zookeeper.ssl.keystore.location": "x.pem"}):
        with pytest.raises(ConfigError, match="needs an identity at ZooKeeper"):
            BrokerConfig.parse(owned | missing)
    for identity in (certificate, {"java.security.auth.login.config": "x.jaas"}):
        assert BrokerConfig.parse(owned | identity)[0].zookeeper_set_acl


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("zookeeper.conect", "zookeeper.connect"),
        ("Zookeeper_Connect", "zookeeper.connect"),
        ("listners", "listeners"),
        ("advertised.listener", "advertised.listeners"),
        ("controller.listner.names", "controller.listener.names"),
        ("brokerid", "broker.id"),
        ("controlled.shutdown.enabled", "controlled.shutdown.enable"),
    ],
)
def test_a_misspelt_name_of_a_listener_or_a_cluster_ends_the_start(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name}=x: unknown \(did you mean {meant}\?\)"):
        BrokerConfig.parse({name: "x"})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("num.partiton", "num.partitions"),
        ("log_dirs", "log.dirs"),
        ("direct.read.max.lease", "direct.read.max.leases"),  # Odradek's own
        ("replica.fetch.wait.max.m", "replica.fetch.wait.max.ms"),  # its beginning is one of names that are not needed
    ],
)
def test_an_unknown_name_gets_the_nearest_and_is_an_error_if_strict(name: str, meant: str) -> None:
    assert BrokerConfig.parse({name: "1"})[1] == [f"config {name}: unknown (did you mean {meant}?)"]
    with pytest.raises(ConfigError, match="unknown"):
        BrokerConfig.parse({name: "1"}, strict=True)


def test_strict_takes_what_kafka_knows() -> None:
    of_a_listener = "listener.name.plaintext.ssl.keystore.location"
    for name in ("log.local.retention.ms", "process.roles", "inter.broker.protocol.version", of_a_listener):
        BrokerConfig.parse({name: "1"}, strict=True)


def test_a_broker_gets_its_number_from_the_cluster_where_none_was_chosen() -> None:
    joins = {"zookeeper.connect": "127.0.0.1:2181"}
    assert BrokerConfig.parse(joins)[0].has_generated_id
    assert not BrokerConfig.parse({})[0].has_generated_id
    for name, number in (("broker.id", 7), ("node.id", 1)):
        config, _ = BrokerConfig.parse({**joins, name: str(number)})
        assert (config.node_id, config.broker_id, config.has_generated_id) == (number, number, False)
    with pytest.raises(ConfigError, match=r"at most reserved.broker.max.id, 1000"):
        BrokerConfig.parse({**joins, "broker.id": "1001"})


def test_a_combined_kafka_node_loses_its_controller_listener() -> None:
    config, _ = BrokerConfig.parse(
        {
            "process.roles": "broker,controller",
            "node.id": "7",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
        }
    )
    assert config.endpoints == (Endpoint("PLAINTEXT", "", 9092),)
    assert config.advertised["PLAINTEXT"] == Endpoint("PLAINTEXT", "localhost", 9092)
    assert config.node_id == config.broker_id == 7


def test_broker_id_is_node_id_under_its_older_name() -> None:
    assert BrokerConfig.parse({"broker.id": "5"})[0].node_id == 5
    assert BrokerConfig.parse({"node.id": "5"})[0].broker_id == 5
    with pytest.raises(ConfigError, match=r"broker\.id=4: must equal node\.id, 5"):
        BrokerConfig.parse({"node.id": "5", "broker.id": "4"})


def test_brokers_reach_each_other_at_the_listener_of_the_configs() -> None:
    texts = {"listeners": "SSL://h:1,IN://h:2", "listener.security.protocol.map": "SSL:SSL,IN:PLAINTEXT"}
    asked = {"inter.broker.listener.name": "in"}
    assert BrokerConfig.parse(texts)[0].inter_broker_listener == "SSL"
    assert BrokerConfig.parse(texts | asked)[0].inter_broker_listener == "IN"
    assert BrokerConfig.parse(texts | {"security.inter.broker.protocol": "SSL"})[0].inter_broker_listener == "SSL"
    with pytest.raises(ConfigError, match="only one of"):
        BrokerConfig.parse(texts | asked | {"security.inter.broker.protocol": "SSL"})
    with pytest.raises(ConfigError, match="must be one of the listeners SSL, IN"):
        BrokerConfig.parse(texts | {"inter.broker.listener.name": "OUT"})


def test_brokers_log_in_to_each_other_by_a_mechanism_of_their_listener() -> None:
    texts = {"listeners": "IN://h:2", "listener.security.protocol.map": "IN:SASL_SSL", "zookeeper.connect": "h:2181"}
    name = "sasl.mechanism.inter.broker.protocol"
    with pytest.raises(ConfigError, match=rf"{name}=GSSAPI: set it to one of PLAIN"):
        BrokerConfig.parse(texts)
    with pytest.raises(ConfigError, match=rf"{name}=OAUTHBEARER: must be one of PLAIN"):
        BrokerConfig.parse(texts | {name: "OAUTHBEARER"})
    with pytest.raises(ConfigError, match=rf"{name}=PLAIN: must be one of sasl.enabled.mechanisms"):
        BrokerConfig.parse(texts | {name: "PLAIN"})
    own = {"listener.name.in.sasl.enabled.mechanisms": "PLAIN"}
    assert BrokerConfig.parse(texts | own | {name: "PLAIN"})[0].sasl_mechanism_inter_broker_protocol == "PLAIN"


def test_an_ipv6_listener_keeps_its_brackets_only_in_text() -> None:
    (endpoint,) = BrokerConfig.parse({"listeners": "PLAINTEXT://[::1]:9092"})[0].endpoints
    assert (endpoint.host, endpoint.address) == ("::1", "[::1]:9092")


@example(BROKER_CONFIGS["log.cleaner.io.max.bytes.per.second"], "nan")
@example(BROKER_CONFIGS["log.cleaner.io.max.bytes.per.second"], "Infinity")
@given(st.sampled_from([each for _, each in ALL]), st.text(max_size=25))
def test_any_text_is_a_value_or_a_typed_error(setting: ConfigDef, text: str) -> None:
    try:
        value = setting.parse(text)
    except ConfigError as error:
        assert error.name == setting.name
    else:
        assert setting.parse(setting.format(value) or "") == value


@given(st.integers(min_value=-(2**70), max_value=2**70))
def test_whole_numbers_are_accepted_exactly_in_their_range(value: int) -> None:
    setting = BROKER_CONFIGS["log.roll.ms"]
    try:
        assert setting.parse(str(value)) == value
        assert 1 <= value < 2**63
    except ConfigError:
        assert not 1 <= value < 2**63


class TestTopic:
    def test_takes_the_brokers_configs_where_it_has_none_of_its_own(self) -> None:
        config = TopicConfig.resolve(BrokerConfig(log_segment_bytes=2 << 20), {"flush.messages": "1"})
        assert (config.segment_bytes, config.flush_messages, config.max_message_bytes) == (2 << 20, 1, 1048588)

    def test_segment_ms_comes_from_milliseconds_before_hours(self) -> None:
        assert TopicConfig.resolve(BrokerConfig(log_roll_hours=2)).segment_ms == 7_200_000
        assert TopicConfig.resolve(BrokerConfig(log_roll_hours=2, log_roll_ms=5)).segment_ms == 5
        assert TopicConfig.resolve(BrokerConfig(log_roll_ms=5), {"segment.ms": "9"}).segment_ms == 9

    def test_defaults_alone_equal_the_declared_ones(self) -> None:
        defaults = {row.attribute: row.default for row in SUPPORTED_TOPIC_CONFIGS.values()}
        assert asdict(TopicConfig.resolve(BrokerConfig())) == defaults

    @pytest.mark.parametrize(
        ("name", "text", "reason"),
        [
            ("segment.bytes", "5", "at least 1048576"),
            ("retention.ms", "-2", "must be a whole number of 64 bits, at least -1"),
            ("local.retention.ms", "1000", "does not act on it yet; the effective value is -2"),
            ("remote.storage.enable", "true", "does not act on it yet"),
            ("cleanup.policy", "nonsense", "one of compact, delete"),
            ("log.segment.bytes", "1048576", "is not a topic config"),
        ],
    )
    def test_rejects_configs_that_nothing_would_act_on(self, name: str, text: str, reason: str) -> None:
        with pytest.raises(ConfigError, match=reason):
            TopicConfig.resolve(BrokerConfig(), {name: text})

    def test_accepts_the_only_value_that_is_true(self) -> None:
        TopicConfig.resolve(
            BrokerConfig(), {"cleanup.policy": "delete", "retention.ms": "-1", "compression.type": "producer"}
        )

    def test_is_described_with_source_and_synonyms_strongest_first(self) -> None:
        broker, _ = BrokerConfig.parse({"log.roll.ms": "7200000"})
        (entry,) = describe_topic(broker, {"segment.ms": "3600000"}, ["segment.ms"])
        assert (entry.value, entry.source, entry.type) == (
            "3600000",
            ConfigSource.DYNAMIC_TOPIC_CONFIG,
            ConfigType.LONG,
        )
        assert entry.synonyms == (
            ConfigSynonym("segment.ms", "3600000", ConfigSource.DYNAMIC_TOPIC_CONFIG),
            ConfigSynonym("log.roll.ms", "7200000", ConfigSource.STATIC_BROKER_CONFIG),
            ConfigSynonym("log.roll.hours", "168", ConfigSource.DEFAULT_CONFIG),
        )

    def test_a_value_from_the_broker_is_shown_in_the_topics_unit(self) -> None:
        (entry,) = describe_topic(BrokerConfig.parse({"log.roll.hours": "2"})[0], {}, ["segment.ms"])
        assert (entry.value, entry.source) == ("7200000", ConfigSource.STATIC_BROKER_CONFIG)

    def test_is_described_whole_but_for_the_internal_config(self) -> None:
        names = [entry.name for entry in describe_topic(BrokerConfig(), {})]
        assert sorted([*names, "internal.segment.bytes"]) == sorted(TOPIC_CONFIGS)


class TestBrokerDescribed:
    def test_a_given_value_stands_before_the_default(self) -> None:
        config, _ = BrokerConfig.parse({"num.partitions": "4"})
        (entry,) = describe_broker(config, ["num.partitions", "not.a.config"])
        assert (entry.value, entry.source) == ("4", ConfigSource.STATIC_BROKER_CONFIG)
        assert entry.synonyms == (
            ConfigSynonym("num.partitions", "4", ConfigSource.STATIC_BROKER_CONFIG),
            ConfigSynonym("num.partitions", "1", ConfigSource.DEFAULT_CONFIG),
        )

    def test_a_value_that_equals_the_default_is_shown_as_set(self) -> None:
        (entry,) = describe_broker(BrokerConfig.parse({"num.partitions": "1"})[0], ["num.partitions"])
        assert entry.source is not ConfigSource.DEFAULT_CONFIG

    def test_all_are_described_with_a_documentation(self) -> None:
        entries = describe_broker(BrokerConfig())
        assert len(entries) == len(BROKER_CONFIGS)
        assert all(entry.documentation for entry in entries)
        assert {entry.name for entry in entries if not entry.read_only} == {
            name for name, setting in BROKER_CONFIGS.items() if setting.dynamic
        }


def test_value_texts_round_trip() -> None:
    values: list[tuple[ConfigType, Value, str]] = [
        (ConfigType.BOOLEAN, True, "true"),
        (ConfigType.DOUBLE, 0.5, "0.5"),
        (ConfigType.LIST, ("a", "b"), "a,b"),
        (ConfigType.LIST, (), ""),
    ]
    for kind, value, text in values:
        setting = ConfigDef("x", kind, value, "")
        assert setting.format(value) == text and setting.parse(text) == value


def test_the_documentation_is_what_the_tables_say() -> None:
    root = Path(__file__).parents[3]
    printed = subprocess.run(
        [sys.executable, root / "tools" / "config_docs.py"], capture_output=True, text=True, check=True
    )
    assert printed.stdout == (root / "docs" / "configs.md").read_text(), (
        "run: python tools/config_docs.py > docs/configs.md"
    )


@pytest.mark.parametrize("name", ["x.y", "listener.name.x.ssl.keystore.location", "listener.name.x.y"])
def test_names_that_no_config_has_are_not_kept(name: str) -> None:
    """Clients invent them."""
    config, name = BrokerConfig(), f"{name}.{time.monotonic_ns()}.ssl.keystore.location"
    before = sys.getrefcount(name)
    assert config.row(name) is None
    assert sys.getrefcount(name) == before


def test_a_value_of_a_file_may_be_longer_than_a_request_can_have() -> None:
    names = ";".join(f"User:{number}" for number in range(10_000))
    given = {"super.users": names, "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    config, _ = BrokerConfig.parse(given)
    assert config.super_users == names


def test_no_name_is_like_a_very_long_one() -> None:
    assert nearest("log.segment.bites" + "s" * 250, ["log.segment.bytes"]) == ("", 0.0)


@pytest.mark.parametrize("limit", ["replica.lag.time.max.ms", "replica.socket.timeout.ms"])
def test_a_fetch_waits_no_longer_than_its_follower_may_lag_or_its_leader_may_be_silent(limit: str) -> None:
    texts = {"replica.fetch.wait.max.ms": "400", limit: "400"}
    BrokerConfig.parse(texts)
    with pytest.raises(ConfigError, match=rf"replica.fetch.wait.max.ms=401: must be at most {limit}, 400"):
        BrokerConfig.parse(texts | {"replica.fetch.wait.max.ms": "401"})
    with pytest.raises(ConfigError, match=rf"replica.fetch.wait.max.ms=500: must be at most {limit}, 499"):
        BrokerConfig.parse({limit: "499"})


def test_the_configs_of_a_controllers_listener_are_only_not_acted_on() -> None:
    own = {"listener.name.controller.ssl.client.auth": "required", "controller.listener.names": "CONTROLLER"}
    assert any("listener.name.controller" in each for each in BrokerConfig.parse(own)[1])


def test_it_shows_what_differs_from_the_defaults_and_no_password() -> None:
    config, _ = BrokerConfig.parse({"log.segment.bytes": "1048576", "ssl.key.password": "keep it"})
    assert repr(config) == "BrokerConfig(broker.id=1, ssl.key.password=[hidden], log.segment.bytes=1048576)"
