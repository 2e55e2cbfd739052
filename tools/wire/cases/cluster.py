"""ApiVersions, Metadata, DescribeCluster, DescribeConfigs, FindCoordinator, InitProducerId."""

from __future__ import annotations

from ..connection import Wire
from .topics import create, topic_id

ZERO = "00000000-0000-0000-0000-000000000000"
UNKNOWN_ID = "11111111-2222-3333-4444-555555555555"
SOME_CONFIGS = [
    "retention.ms",
    "cleanup.policy",
    "max.message.bytes",
    "compression.type",
    "segment.bytes",
    "no.such.config",
]
SOME_BROKER_CONFIGS = ["node.id", "log.retention.ms", "num.network.threads", "message.max.bytes", "compression.type"]
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def run(wire: Wire) -> None:
    api_versions(wire)
    metadata(wire)
    describe_cluster(wire)
    describe_configs(wire)
    find_coordinator(wire)
    init_producer_id(wire)
    quorum(wire)
    log_dirs(wire)


def api_versions(wire: Wire) -> None:
    for version in range(6):
        software = {"ClientSoftwareName": "wire", "ClientSoftwareVersion": "1"} if version >= 3 else {}
        wire.ask("plain", "ApiVersions", version, software)
    for version in (6, 99):
        wire.ask(
            "above our maximum", "ApiVersions", version, {"ClientSoftwareName": "wire", "ClientSoftwareVersion": "1"}
        )
    wire.ask("software without a name", "ApiVersions", 3, {"ClientSoftwareName": "", "ClientSoftwareVersion": "1"})
    wire.ask(
        "software with a bad name", "ApiVersions", 3, {"ClientSoftwareName": "my client!", "ClientSoftwareVersion": "1"}
    )
    wire.ask("twice on a connection", "ApiVersions", 3, {"ClientSoftwareName": "wire", "ClientSoftwareVersion": "1"})

    software = {"ClientSoftwareName": "wire", "ClientSoftwareVersion": "1"}
    this = wire.quiet.ask("", "DescribeCluster", 0, {})["ClusterId"]
    for case, cluster, node in (
        ("this node", this, 1),
        ("another cluster", "x" * 22, 1),
        ("a cluster without a name", "", 1),
        ("another node", this, 2),
        ("a node below 0", this, -5),
        ("a cluster alone", this, -1),
        ("a node alone", None, 1),
    ):
        wire.ask(case, "ApiVersions", 5, {**software, "ClusterId": cluster, "NodeId": node})


def quorum(wire: Wire) -> None:
    topics = [
        {"TopicName": "__cluster_metadata", "Partitions": [{"PartitionIndex": 0}, {"PartitionIndex": 1}]},
        {"TopicName": "other", "Partitions": [{"PartitionIndex": 0}]},
    ]
    for version in range(3):
        wire.ask("the quorum", "DescribeQuorum", version, {"Topics": topics})
        wire.ask("the quorum alone", "DescribeQuorum", version, {"Topics": [
            {"TopicName": "__cluster_metadata", "Partitions": [{"PartitionIndex": 0}]}
        ]})  # fmt: skip
        wire.ask("another topic", "DescribeQuorum", version, {"Topics": topics[1:]})
        wire.ask("no topics", "DescribeQuorum", version, {"Topics": []})


def log_dirs(wire: Wire) -> None:
    topic = create(wire, "log-dirs", partitions=2)
    (here,) = {each["LogDir"] for each in wire.quiet.ask("", "DescribeLogDirs", 4, {"Topics": None})["Results"]}
    for version in (1, 2):
        for case, path, name, index in (
            ("where it is", here, topic, 0),
            ("no such directory", "/nowhere", topic, 0),
            ("a relative path", "nowhere", topic, 0),
            ("no such partition", here, topic, 9),
            ("no such topic", here, f"{wire.prefix}-absent", 0),
            ("neither", "/nowhere", f"{wire.prefix}-absent", 0),
        ):
            dirs = [{"Path": path, "Topics": [{"Name": name, "Partitions": [index]}]}]
            wire.ask(case, "AlterReplicaLogDirs", version, {"Dirs": dirs})
        wire.ask("no directories", "AlterReplicaLogDirs", version, {"Dirs": []})


def metadata(wire: Wire) -> None:
    topic = create(wire, "metadata", partitions=2)
    named = [{"Name": topic}]
    for version in range(14):
        no_creation = {"AllowAutoTopicCreation": False} if version >= 4 else {}
        wire.ask("known", "Metadata", version, {"Topics": named, **no_creation})
        if version >= 1:
            wire.ask("no topics", "Metadata", version, {"Topics": [], **no_creation})
        if version >= 4:
            wire.ask("unknown", "Metadata", version, {"Topics": [{"Name": f"{wire.prefix}-absent"}], **no_creation})
    for version in (1, 5, 13):
        for name in ("bad name!", ".", "..", "x" * 250, ""):
            wire.ask(f"name {name[:12]!r}", "Metadata", version, {"Topics": [{"Name": name}]})
    wire.ask("the same topic twice", "Metadata", 9, {"Topics": named * 2, "AllowAutoTopicCreation": False})
    wire.ask(
        "known and unknown",
        "Metadata",
        9,
        {"Topics": [{"Name": "wire-absent"}, *named], "AllowAutoTopicCreation": False},
    )
    authorized = {"IncludeTopicAuthorizedOperations": True}
    for version in range(8, 14):
        cluster = {"IncludeClusterAuthorizedOperations": True} if version <= 10 else {}
        for case, fields in (("topic", authorized), ("cluster", cluster), ("both", {**authorized, **cluster})):
            bad = [{"Name": f"{wire.prefix}-absent"}], [{"Name": "bad name!"}]
            for topics, of in ((named, "one"), ([], "no"), (bad[0], "unknown"), (bad[1], "badly named")):
                body = {"Topics": topics, "AllowAutoTopicCreation": False, **fields}
                wire.ask(f"authorized operations: {case}, {of} topic", "Metadata", version, body)
    by_unknown_id = [{"TopicId": UNKNOWN_ID, "Name": None}]
    wire.ask("authorized operations: unknown id", "Metadata", 12, {"Topics": by_unknown_id, **authorized})
    known = topic_id(wire, topic)
    for version in (10, 11, 12, 13):
        wire.ask("by id", "Metadata", version, {"Topics": [{"TopicId": known, "Name": None}]})
        wire.ask("by unknown id", "Metadata", version, {"Topics": [{"TopicId": UNKNOWN_ID, "Name": None}]})
        wire.ask("by id and name", "Metadata", version, {"Topics": [{"TopicId": known, "Name": topic}]})
        wire.ask("by neither", "Metadata", version, {"Topics": [{"TopicId": ZERO, "Name": None}]})
        wire.ask("by id, then by name", "Metadata", version, {"Topics": [{"TopicId": known, "Name": None}, *named]})
    auto_creation(wire)


def auto_creation(wire: Wire) -> None:
    for version in (1, 4, 9, 13):
        name = f"{wire.prefix}-auto-{version}"
        wire.ask("auto-creation", "Metadata", version, {"Topics": [{"Name": name}]})
        topic_id(wire, name)
        wire.ask("after auto-creation", "Metadata", version, {"Topics": [{"Name": name}]})


def describe_cluster(wire: Wire) -> None:
    for version in range(3):
        wire.ask("plain", "DescribeCluster", version, {})
        wire.ask("authorized operations", "DescribeCluster", version, {"IncludeClusterAuthorizedOperations": True})
    for kind in (2, 9):
        wire.ask(f"endpoint type {kind}", "DescribeCluster", 1, {"EndpointType": kind})
    wire.ask("fenced brokers too", "DescribeCluster", 2, {"IncludeFencedBrokers": True})


def describe_configs(wire: Wire) -> None:
    topic = create(wire, "configs", configs={"max.message.bytes": "1000", "message.timestamp.type": "LogAppendTime"})
    for version in range(1, 5):
        for synonyms in (False, True):
            some = [{"ResourceType": TOPIC, "ResourceName": topic, "ConfigurationKeys": SOME_CONFIGS}]
            case = "some of a topic" + (" with synonyms" if synonyms else "")
            wire.ask(case, "DescribeConfigs", version, {"Resources": some, "IncludeSynonyms": synonyms})
            some = [{"ResourceType": BROKER, "ResourceName": "1", "ConfigurationKeys": SOME_BROKER_CONFIGS}]
            case = "some of a broker" + (" with synonyms" if synonyms else "")
            wire.ask(case, "DescribeConfigs", version, {"Resources": some, "IncludeSynonyms": synonyms})
    for kind, name, case in (
        (TOPIC, topic, "all of a topic"),
        (BROKER, "1", "all of a broker"),
        (BROKER, "", "cluster default"),
        (GROUP, "some-group", "a group"),
        (CLIENT_METRICS, "some-metrics", "client metrics"),
        (TOPIC, f"{wire.prefix}-absent", "unknown topic"),
        (TOPIC, "bad name!", "bad topic name"),
        (TOPIC, "", "empty topic name"),
        (BROKER, "99", "another broker"),
        (BROKER, "x", "broker that is no number"),
        (GROUP, "", "group without a name"),
        (9, "x", "unknown resource type"),
    ):
        resource = {"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": None}
        wire.ask(case, "DescribeConfigs", 4, {"Resources": [resource], "IncludeSynonyms": True})
    empty = {"ResourceType": TOPIC, "ResourceName": topic, "ConfigurationKeys": []}
    wire.ask("an empty list of keys", "DescribeConfigs", 4, {"Resources": [empty]})
    wire.ask("the same resource twice", "DescribeConfigs", 4, {"Resources": [empty, empty]})


def find_coordinator(wire: Wire) -> None:
    create_offsets_topic(wire)
    for version in range(7):
        if version < 4:
            wire.ask("group", "FindCoordinator", version, {"Key": f"{wire.prefix}-group"})
        else:
            wire.ask("groups", "FindCoordinator", version, {"CoordinatorKeys": [f"{wire.prefix}-group", "another"]})
    wire.ask("empty key", "FindCoordinator", 2, {"Key": ""})
    wire.ask("empty key among others", "FindCoordinator", 4, {"CoordinatorKeys": ["", "another"]})
    wire.ask("no keys", "FindCoordinator", 4, {"CoordinatorKeys": []})
    wire.ask("unknown key type", "FindCoordinator", 2, {"Key": "x", "KeyType": 9})
    wire.ask("unknown key type", "FindCoordinator", 4, {"CoordinatorKeys": ["x"], "KeyType": 9})
    wire.ask("share group below its version", "FindCoordinator", 5, {"CoordinatorKeys": ["x"], "KeyType": 2})


def create_offsets_topic(wire: Wire) -> None:
    """Wait for __consumer_offsets. Kafka creates it at the first request, and answers COORDINATOR_NOT_AVAILABLE."""
    wire.until(lambda told: told["ErrorCode"] == 0, "FindCoordinator", 2, {"Key": f"{wire.prefix}-group"})


def init_producer_id(wire: Wire) -> None:
    for version in range(6):
        wire.ask("idempotent", "InitProducerId", version, {"TransactionalId": None, "TransactionTimeoutMs": 60_000})
    wire.ask("empty transactional id", "InitProducerId", 4, {"TransactionalId": "", "TransactionTimeoutMs": 60_000})
    body = {"TransactionalId": None, "TransactionTimeoutMs": 60_000}
    wire.ask("id without epoch", "InitProducerId", 4, {**body, "ProducerId": 7})
    wire.ask("epoch without id", "InitProducerId", 4, {**body, "ProducerEpoch": 7})
    wire.ask("id and epoch, no transaction", "InitProducerId", 4, {**body, "ProducerId": 7, "ProducerEpoch": 0})
    wire.ask("no time-out", "InitProducerId", 4, {"TransactionalId": None, "TransactionTimeoutMs": 0})
    wire.ask("two-phase commit", "InitProducerId", 6, {**body, "Enable2Pc": True})
