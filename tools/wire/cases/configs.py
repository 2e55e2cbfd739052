"""CreatePartitions, AlterConfigs, IncrementalAlterConfigs, ListConfigResources, DescribeTopicPartitions.

Every error that was found, and valid requests like it.
"""

from __future__ import annotations

import time
from typing import Any

from ..connection import Wire
from .topics import create

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
# Kafka answers before a change holds.
UNTIL_IT_HOLDS_S = 0.3
DESCRIBED = ("segment.bytes", "cleanup.policy", "message.timestamp.type")


def run(wire: Wire) -> None:
    partitions(wire)
    topics(wire)
    old_way(wire)
    brokers(wire)
    broker_lists(wire)
    brokers_the_old_way(wire)
    several(wire)
    others(wire)
    others_the_old_way(wire)
    described(wire)
    listing(wire)
    pages(wire)


def partitions(wire: Wire) -> None:
    topic = create(wire, "grown", 2)

    def ask(case: str, *asked: dict[str, Any], version: int = 3, **fields: Any) -> None:
        wire.ask(case, "CreatePartitions", version, {"Topics": list(asked), "TimeoutMs": 10_000, **fields})

    def more(count: int, replicas: list[list[int]] | None = None, name: str = topic) -> dict[str, Any]:
        assignments = None if replicas is None else [{"BrokerIds": ids} for ids in replicas]
        return {"Name": name, "Count": count, "Assignments": assignments}

    ask("validated", more(4), ValidateOnly=True)
    ask("fewer", more(1))
    ask("as many", more(2))
    ask("zero", more(0))
    ask("negative", more(-1))
    ask("unknown topic", more(3, name=f"{wire.prefix}-nobody"))
    ask("empty name", more(3, name=""))
    ask("bad name", more(3, name="a b"))
    ask("twice", more(3), more(4))
    ask("one good, one bad", more(3), more(3, name=f"{wire.prefix}-nobody"))
    ask("empty assignments", more(4, []))
    ask("too few assignments", more(5, [[1]]))
    ask("too many assignments", more(4, [[1], [1]]))
    ask("unknown broker", more(4, [[99]]))
    ask("two replicas", more(4, [[1, 1]]))
    ask("no replicas", more(4, [[]]))
    ask("assigned", more(4, [[1]]))
    for version in range(4):
        ask("each version", more(5 + version), version=version)
    ask("none")


def alter(
    wire: Wire, case: str, kind: int, name: str, *changes: tuple[Any, ...], version: int = 1, **fields: Any
) -> None:
    configs = [{"Name": key, "ConfigOperation": how, "Value": value} for key, how, value in changes]
    resource = {"ResourceType": kind, "ResourceName": name, "Configs": configs}
    wire.ask(case, "IncrementalAlterConfigs", version, {"Resources": [resource], **fields})


def describe(wire: Wire, case: str, kind: int, name: str, keys: tuple[str, ...] | None) -> None:
    resource = {"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": None if keys is None else list(keys)}
    fields = {"IncludeSynonyms": True, "IncludeDocumentation": False}
    wire.ask(case, "DescribeConfigs", 4, {"Resources": [resource], **fields})


def topics(wire: Wire) -> None:
    topic = create(wire, "altered")

    def ask(case: str, *changes: tuple[Any, ...], name: str = topic, **fields: Any) -> None:
        alter(wire, case, TOPIC, name, *changes, **fields)
        time.sleep(UNTIL_IT_HOLDS_S if changes else 0)
        describe(wire, f"after {case}", TOPIC, name, DESCRIBED)

    ask("set", ("segment.bytes", SET, "2097152"))
    ask("set with blanks", ("segment.bytes", SET, " 2097152 "))
    ask("delete", ("segment.bytes", DELETE, None))
    ask("delete what is not set", ("segment.bytes", DELETE, None))
    ask("delete with a value", ("segment.bytes", DELETE, "17"))
    ask("set null", ("segment.bytes", SET, None))
    ask("set nothing", ("segment.bytes", SET, ""))
    ask("out of range", ("segment.bytes", SET, "1"))
    ask("no number", ("segment.bytes", SET, "many"))
    ask("unknown", ("no.such.config", SET, "1"))
    ask("delete unknown", ("no.such.config", DELETE, None))
    ask("append to no list", ("segment.bytes", APPEND, "1"))
    ask("subtract from no list", ("segment.bytes", SUBTRACT, "1"))
    ask("operation unknown", ("segment.bytes", 9, "1"))
    ask("operation negative", ("segment.bytes", -1, "1"))
    ask("append", ("cleanup.policy", APPEND, "compact"))
    ask("append again", ("cleanup.policy", APPEND, "compact"))
    ask("append two", ("cleanup.policy", APPEND, "delete,compact"))
    ask("append what is none", ("cleanup.policy", APPEND, "shred"))
    ask("append null", ("cleanup.policy", APPEND, None))
    ask("subtract", ("cleanup.policy", SUBTRACT, "delete"))
    ask("subtract what is not in it", ("cleanup.policy", SUBTRACT, "delete"))
    ask("subtract the last", ("cleanup.policy", SUBTRACT, "compact"))
    ask("back", ("cleanup.policy", DELETE, None))
    ask("the same twice", ("retention.ms", SET, "1000"), ("retention.ms", SET, "2000"))
    ask("set and delete", ("retention.ms", SET, "1000"), ("retention.ms", DELETE, None))
    ask("one good, one bad", ("retention.ms", SET, "1000"), ("segment.bytes", SET, "1"))
    ask("validated", ("retention.ms", SET, "1000"), ValidateOnly=True)
    ask("validated and bad", ("segment.bytes", SET, "1"), ValidateOnly=True)
    ask("several", ("retention.ms", SET, "5000"), ("message.timestamp.type", SET, "LogAppendTime"))
    ask("nothing")
    ask("version 0", ("retention.ms", SET, "6000"), version=0)
    ask("unknown topic", ("retention.ms", SET, "1000"), name=f"{wire.prefix}-nobody")
    ask("unknown topic, bad value", ("retention.ms", SET, "x"), name=f"{wire.prefix}-nobody")
    ask("empty topic", ("retention.ms", SET, "1000"), name="")
    ask("bad topic", ("retention.ms", SET, "1000"), name="a b")
    twice = {"ResourceType": TOPIC, "ResourceName": topic, "Configs": [{"Name": "retention.ms", "Value": "1"}]}
    wire.ask("resource twice", "IncrementalAlterConfigs", 1, {"Resources": [twice, twice]})
    wire.ask("no resources", "IncrementalAlterConfigs", 1, {"Resources": []})


def old_way(wire: Wire) -> None:
    topic = create(wire, "old-way", configs={"retention.ms": "77"})

    def ask(case: str, kind: int, name: str, version: int = 2, only: bool = False, **configs: str | None) -> None:
        values = [{"Name": key.replace("_", "."), "Value": value} for key, value in configs.items()]
        resource = {"ResourceType": kind, "ResourceName": name, "Configs": values}
        wire.ask(case, "AlterConfigs", version, {"Resources": [resource], "ValidateOnly": only})
        describe(wire, f"after {case}", kind, name, DESCRIBED)

    for version in range(3):
        ask("replaces all", TOPIC, topic, version, segment_bytes="2097152")
    ask("validated", TOPIC, topic, only=True, retention_ms="5")
    ask("null", TOPIC, topic, retention_ms=None)
    ask("bad", TOPIC, topic, segment_bytes="1")
    ask("unknown", TOPIC, topic, no_such="1")
    ask("none", TOPIC, topic)
    ask("unknown topic", TOPIC, f"{wire.prefix}-nobody", retention_ms="5")
    ask("unknown topic, bad value", TOPIC, f"{wire.prefix}-nobody", retention_ms="x")
    ask("read-only of the broker", BROKER, "1", log_dirs="/x")
    twice = {"ResourceType": TOPIC, "ResourceName": topic, "Configs": [{"Name": "retention.ms", "Value": "1"}]}
    wire.ask("resource twice", "AlterConfigs", 2, {"Resources": [twice, twice]})


def brokers(wire: Wire) -> None:
    shown = ("message.max.bytes", "log.flush.interval.messages", "max.connections")
    create(wire, "inherits")

    def ask(case: str, name: str, *changes: tuple[Any, ...], **fields: Any) -> None:
        alter(wire, case, BROKER, name, *changes, **fields)
        time.sleep(UNTIL_IT_HOLDS_S)
        describe(wire, f"after {case}: broker", BROKER, "1", shown)
        describe(wire, f"after {case}: default", BROKER, "", shown)
        describe(
            wire, f"after {case}: topic", TOPIC, f"{wire.prefix}-inherits", ("max.message.bytes", "flush.messages")
        )

    ask("default set", "", ("message.max.bytes", SET, "2000000"))
    ask("broker set", "1", ("message.max.bytes", SET, "3000000"))
    ask("default deleted", "", ("message.max.bytes", DELETE, None))
    ask("broker deleted", "1", ("message.max.bytes", DELETE, None))
    ask("out of range", "1", ("message.max.bytes", SET, "-5"))
    ask("no number", "", ("message.max.bytes", SET, "big"))
    ask("read only", "1", ("node.id", SET, "7"))
    ask("read only default", "", ("num.partitions", SET, "7"))
    ask("read only deleted", "1", ("num.partitions", DELETE, None))
    ask("per broker as default", "", ("listeners", SET, "PLAINTEXT://:1"))
    ask("unknown", "1", ("no.such.config", SET, "1"))
    ask("unknown default", "", ("no.such.config", SET, "1"))
    ask("validated", "1", ("message.max.bytes", SET, "2000000"), ValidateOnly=True)
    ask("other broker", "99", ("message.max.bytes", SET, "2000000"))
    ask("no broker", "me", ("message.max.bytes", SET, "2000000"))
    ask("append to no list", "1", ("message.max.bytes", APPEND, "2000000"))
    ask("one good, one bad", "1", ("message.max.bytes", SET, "2000000"), ("node.id", SET, "2"))


def broker_lists(wire: Wire) -> None:
    """Set a list of the broker's, append to it and subtract from it, on both layers."""
    name = "log.cleanup.policy"

    def ask(case: str, node: str, *changes: tuple[Any, ...], **fields: Any) -> None:
        alter(wire, f"list: {case}", BROKER, node, *changes, **fields)
        time.sleep(UNTIL_IT_HOLDS_S)
        for each in ("1", ""):
            describe(wire, f"list: after {case}: {each or 'default'}", BROKER, each, (name,))
        describe(wire, f"list: after {case}: topic", TOPIC, f"{wire.prefix}-inherits", ("cleanup.policy",))

    for node in ("", "1"):
        word = "broker" if node else "default"
        ask(f"{word}: append to what is not set", node, (name, APPEND, "compact"))
        ask(f"{word}: append again", node, (name, APPEND, "compact"))
        ask(f"{word}: subtract", node, (name, SUBTRACT, "delete"))
        ask(f"{word}: subtract what is not there", node, (name, SUBTRACT, "delete"))
        ask(f"{word}: append what is none", node, (name, APPEND, "shred"))
        ask(f"{word}: null", node, (name, APPEND, None))
        ask(f"{word}: set null", node, (name, SET, None))
        ask(f"{word}: set nothing", node, (name, SET, ""))
        ask(f"{word}: delete with a value", node, (name, DELETE, "compact"))
        ask(f"{word}: delete what is not set", node, (name, DELETE, None))
        ask(f"{word}: twice", node, (name, SET, "compact"), (name, DELETE, None))


def brokers_the_old_way(wire: Wire) -> None:
    shown = ("message.max.bytes", "log.flush.interval.messages")

    def ask(case: str, node: str, *values: tuple[str, str | None], only: bool = False) -> None:
        configs = [{"Name": key, "Value": value} for key, value in values]
        resource = {"ResourceType": BROKER, "ResourceName": node, "Configs": configs}
        wire.ask(f"old way: {case}", "AlterConfigs", 2, {"Resources": [resource], "ValidateOnly": only})
        time.sleep(UNTIL_IT_HOLDS_S)
        for each in ("1", ""):
            describe(wire, f"old way: after {case}: {each or 'default'}", BROKER, each, shown)

    # Kafka itself has set min.insync.replicas for every broker, and lets nobody take that away.
    ask("sets", "1", ("message.max.bytes", "2000000"))
    ask("replaces", "1", ("log.flush.interval.messages", "5000"))
    ask("validated", "1", ("message.max.bytes", "3000000"), only=True)
    ask("null", "1", ("message.max.bytes", None))
    ask("the same twice", "1", ("message.max.bytes", "1"), ("message.max.bytes", "2"))
    ask("out of range", "1", ("message.max.bytes", "-5"))
    ask("read only", "1", ("num.partitions", "5"))
    ask("none", "1")
    ask("another broker", "99", ("message.max.bytes", "2000000"))
    ask("no broker", "me", ("message.max.bytes", "2000000"))


def several(wire: Wire) -> None:
    """Alter several resources in one request. An error of one leaves the others alone."""
    topic = create(wire, "several")

    def resource(kind: int, name: str, key: str, value: str | None) -> dict[str, Any]:
        configs = [{"Name": key, "ConfigOperation": SET, "Value": value}]
        return {"ResourceType": kind, "ResourceName": name, "Configs": configs}

    good = resource(TOPIC, topic, "retention.ms", "7000")
    node = resource(BROKER, "1", "message.max.bytes", "1500000")
    default = resource(BROKER, "", "message.max.bytes", "1600000")
    missing = resource(TOPIC, f"{wire.prefix}-nobody", "retention.ms", "7000")
    for case, resources in (
        ("topic and broker", [good, node]),
        ("broker and default", [node, default]),
        ("good and unknown", [good, missing]),
        ("unknown and broker", [missing, node]),
        ("another broker beside", [resource(BROKER, "99", "message.max.bytes", "1"), good]),
        ("a bad type beside", [resource(99, "x", "y", "1"), good]),
    ):
        wire.ask(f"several: {case}", "IncrementalAlterConfigs", 1, {"Resources": resources})
        time.sleep(UNTIL_IT_HOLDS_S)
        describe(wire, f"several: after {case}", TOPIC, topic, ("retention.ms",))
        describe(wire, f"several: after {case}", BROKER, "1", ("message.max.bytes",))
    for each in ("1", ""):
        alter(wire, f"several: back {each}", BROKER, each, ("message.max.bytes", DELETE, None))
    time.sleep(UNTIL_IT_HOLDS_S)


def others_the_old_way(wire: Wire) -> None:
    for kind, name in ((GROUP, "g"), (METRICS, "m"), (LOGGER, "1"), (3, "x"), (0, "x"), (99, "x")):
        for key in ((), ("no.such.config",)):
            configs = [{"Name": each, "Value": "1"} for each in key]
            resource = {"ResourceType": kind, "ResourceName": name, "Configs": configs}
            body = {"Resources": [resource], "ValidateOnly": True}
            wire.ask(f"old way: type {kind} with {len(key)}", "AlterConfigs", 2, body)
            alter(
                wire, f"type {kind} with {len(key)}", kind, name, *((each, SET, "1") for each in key), ValidateOnly=True
            )


def described(wire: Wire) -> None:
    """Describe some configs and all of them."""
    topic = create(wire, "described", configs={"retention.ms": "5000"})

    def ask(case: str, kind: int, name: str, keys: list[str] | None, version: int = 4, **fields: Any) -> None:
        resource = {"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": keys}
        wire.ask(f"described: {case}", "DescribeConfigs", version, {"Resources": [resource], **fields})

    for version in range(1, 5):
        for documented in (False, True) if version >= 3 else (False,):
            fields = {"IncludeSynonyms": True, **({"IncludeDocumentation": documented} if version >= 3 else {})}
            case = "with documentation" if documented else "plain"
            ask(f"topic {case}", TOPIC, topic, ["retention.ms", "cleanup.policy"], version, **fields)
            ask(f"broker {case}", BROKER, "1", ["message.max.bytes", "log.cleanup.policy"], version, **fields)
    ask("unknown name", TOPIC, topic, ["no.such.config"])
    ask("unknown name of a broker", BROKER, "1", ["no.such.config"])
    ask("unknown name of every broker", BROKER, "", ["no.such.config"])
    ask("a name twice", TOPIC, topic, ["retention.ms", "retention.ms"])
    ask("names in another order", TOPIC, topic, ["segment.ms", "retention.ms", "cleanup.policy"])
    ask("the empty name", TOPIC, topic, [""])
    ask("broker with a blank", BROKER, " 1", None)
    ask("broker with a zero", BROKER, "01", ["message.max.bytes"])
    ask("a read-only one", BROKER, "1", ["num.partitions", "auto.create.topics.enable"], IncludeSynonyms=True)
    wire.ask("described: nothing", "DescribeConfigs", 4, {"Resources": []})


def others(wire: Wire) -> None:
    for kind, word, key in (
        (GROUP, "group", "consumer.session.timeout.ms"),
        (METRICS, "metrics", "interval.ms"),
        (LOGGER, "logger", "kafka"),
        (3, "group type of before", "x"),
        (0, "unknown", "x"),
    ):
        name = "1" if kind == LOGGER else f"{wire.prefix}-g"
        alter(wire, f"{word} unknown config", kind, name, ("no.such.config", SET, "1"))
        if kind != LOGGER:
            describe(wire, f"{word} described", kind, name, (key,))
        describe(wire, f"{word} without a name", kind, "", (key,))
        alter(wire, f"{word} without a name", kind, "", (key, SET, "50000"))


def listing(wire: Wire) -> None:
    wire.ask("version 0", "ListConfigResources", 0, {})
    for kind in (BROKER, LOGGER, METRICS, GROUP, 0, 3, 64):
        wire.ask(f"type {kind}", "ListConfigResources", 1, {"ResourceTypes": [kind]})
    wire.ask("good and bad", "ListConfigResources", 1, {"ResourceTypes": [BROKER, 99]})


def pages(wire: Wire) -> None:
    names = [create(wire, f"page-{letter}", 3) for letter in "ab"]

    def ask(case: str, *asked: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> None:
        at = None if cursor is None else {"TopicName": cursor[0], "PartitionIndex": cursor[1]}
        fields = {"Topics": [{"Name": name} for name in asked], "ResponsePartitionLimit": limit, "Cursor": at}
        wire.ask(case, "DescribeTopicPartitions", 0, fields)

    ask("both", *names)
    ask("other order", *reversed(names))
    ask("twice", names[0], names[0])
    ask("limit 2", *names, limit=2)
    ask("limit 3", *names, limit=3)
    ask("limit 4", *names, limit=4)
    ask("limit 0", *names, limit=0)
    ask("limit -1", *names, limit=-1)
    ask("from the middle", *names, cursor=(names[0], 2))
    ask("from the second", *names, cursor=(names[1], 0))
    ask("from behind the first's end", *names, cursor=(names[0], 3))
    ask("from far behind", *names, cursor=(names[0], 99))
    ask("from a negative partition", *names, cursor=(names[0], -1))
    ask("from an unknown topic between", *names, cursor=(f"{names[0]}x", 0))
    ask("from the end", *names, cursor=("zzzz", 0))
    ask("all from there with a limit", limit=1, cursor=(names[0], 1))
    ask("unknown topic", f"{wire.prefix}-nobody", names[0])
    ask("unknown topic and a limit", f"{wire.prefix}-nobody", names[0], limit=1)
    ask("bad name", "a b")
    ask("empty name", "")
    ask("empty cursor name", *names, cursor=("", 0))
    ask("internal", "__consumer_offsets", limit=1)
