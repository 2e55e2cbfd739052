"""CreateTopics and DeleteTopics, and the set-up that the other cases share."""

from __future__ import annotations

from typing import Any

from ..connection import Wire

ZERO = "00000000-0000-0000-0000-000000000000"
TOPIC_ALREADY_EXISTS = 36
UNKNOWN_ID = "11111111-2222-3333-4444-555555555555"


class RefusedError(Exception):
    """The broker does not create such a topic. Cases that need it are left out."""


def run(wire: Wire) -> None:
    create_versions(wire)
    create_refused(wire)
    create_assigned(wire)
    create_named(wire)
    delete(wire)


def create(wire: Wire, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> str:
    """Create a topic without recording it, wait for its leaders, and return its full name."""
    full = f"{wire.prefix}-{name}"
    topic = new(full, NumPartitions=partitions)
    topic["Configs"] = [{"Name": key, "Value": value} for key, value in (configs or {}).items()]
    answer = wire.quiet.ask("", "CreateTopics", 5, {"Topics": [topic], "timeoutMs": 10_000})["Topics"][0]
    if answer["ErrorCode"] not in (0, TOPIC_ALREADY_EXISTS):
        raise RefusedError(f"{full}: error {answer['ErrorCode']}, {answer['ErrorMessage']}")
    topic_id(wire, full)
    for partition in range(partitions):
        # Metadata names the leader a moment before it serves.
        places = [{"Name": full, "Partitions": [{"PartitionIndex": partition, "Timestamp": -1}]}]
        wire.until(_is_led, "ListOffsets", 1, {"ReplicaId": -1, "Topics": places})
    return full


def topic_id(wire: Wire, topic: str) -> str:
    """Return the id of a topic once all its partitions have a leader, without recording the requests."""
    named = {"Topics": [{"Name": topic}], "AllowAutoTopicCreation": False}
    return wire.until(_is_led, "Metadata", 12, named)["Topics"][0]["TopicId"]


def _is_led(told: dict[str, Any]) -> bool:
    """Tell whether an answer about a topic has no error, also of none of its partitions."""
    topic = told["Topics"][0]
    return not any(each.get("ErrorCode") for each in (topic, *topic["Partitions"]))


def new(name: str, **fields: Any) -> dict[str, Any]:
    return {"Name": name, "NumPartitions": 1, "ReplicationFactor": 1, **fields}


def ask_create(wire: Wire, case: str, version: int, *topics: dict[str, Any], **fields: Any) -> None:
    wire.ask(case, "CreateTopics", version, {"Topics": list(topics), "timeoutMs": 10_000, **fields})


def create_versions(wire: Wire) -> None:
    for version in range(2, 8):
        configs = [{"Name": "max.message.bytes", "Value": "60000"}]
        ask_create(wire, "plain", version, new(f"{wire.prefix}-create-{version}", NumPartitions=2, Configs=configs))
        ask_create(wire, "exists", version, new(f"{wire.prefix}-create-{version}"))
        ask_create(wire, "validate only", version, new(f"{wire.prefix}-validated-{version}"), validateOnly=True)
        assigned = [{"PartitionIndex": 0, "BrokerIds": [1]}]
        topic = new(f"{wire.prefix}-assigned-{version}", NumPartitions=-1, ReplicationFactor=-1, Assignments=assigned)
        ask_create(wire, "assigned", version, topic)
        defaults = new(f"{wire.prefix}-defaults-{version}", NumPartitions=-1, ReplicationFactor=-1)
        ask_create(wire, "defaults", version, defaults)
        ask_create(wire, "no topics", version)


def create_refused(wire: Wire) -> None:
    prefix = wire.prefix
    create(wire, "dotted.name")

    def refused(case: str, *topics: dict[str, Any], **fields: Any) -> None:
        ask_create(wire, case, 7, *topics, **fields)

    for name in ("bad name!", "", ".", "..", "x" * 250, "ü"):
        refused(f"name {name[:12]!r}", new(name))
    refused("collides with a dot", new(f"{prefix}-dotted_name"))
    refused("no partitions", new(f"{prefix}-r1", NumPartitions=0))
    refused("fewer than no partitions", new(f"{prefix}-r1", NumPartitions=-2))
    refused("no replicas", new(f"{prefix}-r2", ReplicationFactor=0))
    refused("fewer than no replicas", new(f"{prefix}-r2", ReplicationFactor=-2))
    refused("more replicas than brokers", new(f"{prefix}-r3", ReplicationFactor=3))
    refused("the same topic twice", new(f"{prefix}-r4"), new(f"{prefix}-r4"), new(f"{prefix}-r4-other"))
    refused("unknown config", new(f"{prefix}-r5", Configs=[{"Name": "no.such.config", "Value": "1"}]))
    refused("bad config value", new(f"{prefix}-r6", Configs=[{"Name": "retention.ms", "Value": "soon"}]))
    refused("config out of range", new(f"{prefix}-r6", Configs=[{"Name": "retention.ms", "Value": "-7"}]))
    refused("config without value", new(f"{prefix}-r7", Configs=[{"Name": "retention.ms", "Value": None}]))
    twice = [{"Name": "max.message.bytes", "Value": "1000"}, {"Name": "max.message.bytes", "Value": "2000"}]
    refused("config given twice", new(f"{prefix}-r7b", Configs=twice))
    refused("retention", new(f"{prefix}-r7e", Configs=[{"Name": "retention.ms", "Value": "60000"}]))
    small = [{"Name": "segment.bytes", "Value": "1000"}]
    refused("small segments", new(f"{prefix}-r7c", Configs=small))
    policy = [{"Name": "cleanup.policy", "Value": "compact,nothing"}]
    refused("bad cleanup policy", new(f"{prefix}-r7d", Configs=policy))
    one = [{"PartitionIndex": 0, "BrokerIds": [1]}]
    refused("assignment and count", new(f"{prefix}-r8", Assignments=one))
    both = {"NumPartitions": -1, "ReplicationFactor": -1}
    refused(
        "assigned to unknown broker", new(f"{prefix}-r9", **both, Assignments=[{"PartitionIndex": 0, "BrokerIds": [9]}])
    )
    refused(
        "assignment with a hole", new(f"{prefix}-r10", **both, Assignments=[{"PartitionIndex": 1, "BrokerIds": [1]}])
    )
    refused("assigned to nobody", new(f"{prefix}-r11", **both, Assignments=[{"PartitionIndex": 0, "BrokerIds": []}]))
    refused("assigned twice", new(f"{prefix}-r12", **both, Assignments=[{"PartitionIndex": 0, "BrokerIds": [1, 1]}]))
    refused("validate only, bad", new(f"{prefix}-r13", NumPartitions=0), validateOnly=True)
    refused("good and bad", new(f"{prefix}-good"), new(f"{prefix}-bad", NumPartitions=0))
    refused("an internal topic", new("__consumer_offsets", NumPartitions=50))


def create_assigned(wire: Wire) -> None:
    """Create topics with named replicas: gaps, repetitions, brokers that do not exist, counts beside them."""

    def ask(
        case: str, replicas: list[tuple[int, list[int]]], *, version: int = 7, only: bool = True, **fields: Any
    ) -> None:
        name = f"{wire.prefix}-manual-{len(wire.exchanges)}"
        assigned = [{"PartitionIndex": index, "BrokerIds": ids} for index, ids in replicas]
        counts = {"NumPartitions": -1, "ReplicationFactor": -1, **fields}
        ask_create(wire, f"assigned: {case}", version, new(name, **counts, Assignments=assigned), validateOnly=only)

    for version in (2, 4, 5, 7):
        ask("two partitions", [(0, [1]), (1, [1])], version=version)
    ask("in another order", [(2, [1]), (0, [1]), (1, [1])], only=False)
    ask("a partition twice", [(0, [1]), (0, [1])])
    ask("a partition twice, a gap", [(0, [1]), (2, [1]), (2, [1])])
    ask("a gap", [(0, [1]), (2, [1])])
    ask("not from 0", [(1, [1]), (2, [1])])
    ask("a negative partition", [(-1, [1]), (0, [1])])
    ask("a broker that does not exist", [(0, [1]), (1, [99])])
    ask("a negative broker", [(0, [-1])])
    ask("a broker twice", [(0, [1, 1])])
    ask("one broker too many", [(0, [1, 2])])
    ask("nobody", [(0, [])])
    ask("one with nobody", [(0, [1]), (1, [])])
    ask("different numbers of replicas", [(0, [1]), (1, [1, 2])])
    ask("none", [])
    for count in (0, 1, 2, -2):
        ask(f"and {count} partitions", [(0, [1])], NumPartitions=count)
        ask(f"and replication factor {count}", [(0, [1])], ReplicationFactor=count)
    ask("and both counts", [(0, [1])], NumPartitions=1, ReplicationFactor=1)
    for partitions in (-1, 0, -2, 1, -(2**31)):
        for replicas in (-1, 0, -2, 2, -(2**15)):
            ask(
                f"not, {partitions} partitions, {replicas} replicas",
                [],
                NumPartitions=partitions,
                ReplicationFactor=replicas,
            )


def create_named(wire: Wire) -> None:
    """Create topics with existing, colliding or the longest names, and several topics in one request."""
    prefix = wire.prefix

    def ask(case: str, *topics: dict[str, Any], **fields: Any) -> None:
        ask_create(wire, f"named: {case}", 7, *topics, **fields)

    ask("as long as can be", new(f"{prefix}-{'x' * (248 - len(prefix))}"))
    ask("one longer", new(f"{prefix}-{'x' * (249 - len(prefix))}"))
    create(wire, "under_score")
    create(wire, "both.and_more")
    ask("a dot for an underscore", new(f"{prefix}-under.score"))
    ask("a dot for an underscore, validated", new(f"{prefix}-under.score"), validateOnly=True)
    ask("both exchanged", new(f"{prefix}-both_and.more"))
    ask("collide with each other", new(f"{prefix}-new.one"), new(f"{prefix}-new_one"))
    ask("collide with each other, validated", new(f"{prefix}-newer.one"), new(f"{prefix}-newer_one"), validateOnly=True)
    ask("exists, validated", new(f"{prefix}-under_score"), validateOnly=True)
    ask("exists, and no partitions", new(f"{prefix}-under_score", NumPartitions=0))
    ask("exists, and a bad config", new(f"{prefix}-under_score", Configs=[{"Name": "no.such", "Value": "1"}]))
    ask("bad name, and no partitions", new("bad name!", NumPartitions=0))
    ask(
        "no partitions, no replicas, a bad config",
        new(f"{prefix}-bad", NumPartitions=0, ReplicationFactor=0, Configs=[{"Name": "no.such", "Value": "1"}]),
    )
    ask(
        "no replicas, a bad config",
        new(f"{prefix}-bad", ReplicationFactor=0, Configs=[{"Name": "no.such", "Value": "1"}]),
    )
    ask("three times the same", *[new(f"{prefix}-thrice")] * 3)
    ask("twice the same, both bad", new("bad name!"), new("bad name!", NumPartitions=0))
    ask("twice the same that exists", *[new(f"{prefix}-under_score")] * 2)
    ask("case matters", new(f"{prefix}-UNDER_SCORE"))
    ask("empty among others", new(""), new(f"{prefix}-beside"))
    ask("no time", new(f"{prefix}-hurried"), timeoutMs=0)
    ask(
        "configs in Kafka's order",
        new(
            f"{prefix}-listed",
            Configs=[
                {"Name": "cleanup.policy", "Value": " compact , delete "},
                {"Name": "retention.ms", "Value": " 5000 "},
            ],
        ),
    )
    ask("an empty value", new(f"{prefix}-blank", Configs=[{"Name": "cleanup.policy", "Value": ""}]))
    ask("an empty number", new(f"{prefix}-blank2", Configs=[{"Name": "retention.ms", "Value": ""}]))
    ask("an empty name of a config", new(f"{prefix}-blank3", Configs=[{"Name": "", "Value": "1"}]))


def delete(wire: Wire) -> None:
    for version in range(1, 6):
        topic = create(wire, f"delete-{version}")
        wire.ask(
            "known and unknown", "DeleteTopics", version, {"TopicNames": [topic, "wire-absent"], "TimeoutMs": 10_000}
        )
        wire.ask("no topics", "DeleteTopics", version, {"TopicNames": [], "TimeoutMs": 10_000})
        wire.ask("bad name", "DeleteTopics", version, {"TopicNames": ["bad name!"], "TimeoutMs": 10_000})

    def ask(case: str, *topics: dict[str, Any]) -> None:
        wire.ask(case, "DeleteTopics", 6, {"Topics": list(topics), "TimeoutMs": 10_000})

    topic = create(wire, "delete-6")
    ask("by name", {"Name": topic, "TopicId": ZERO}, {"Name": "wire-absent", "TopicId": ZERO})
    topic = create(wire, "delete-6")
    known = topic_id(wire, topic)
    ask("by unknown id", {"Name": None, "TopicId": UNKNOWN_ID})
    ask("by neither", {"Name": None, "TopicId": ZERO})
    ask("by both", {"Name": topic, "TopicId": known})
    ask("twice", {"Name": topic, "TopicId": ZERO}, {"Name": topic, "TopicId": ZERO})
    ask("by id and by name", {"Name": None, "TopicId": known}, {"Name": topic, "TopicId": ZERO})
    ask("by id", {"Name": None, "TopicId": known})
    ask("deleted before", {"Name": None, "TopicId": known})
