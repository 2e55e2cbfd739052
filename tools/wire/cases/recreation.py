"""A topic that is deleted, and created again under its name: the responses to clients that know the old topic.

Requests by name and by id, within fetch sessions and without. Also OffsetForLeaderEpoch.
"""

from __future__ import annotations

from typing import Any

from ..batches import batch
from ..connection import Wire
from .fetch import ask as ask_fetch
from .fetch import place
from .topics import ZERO, create, topic_id

BY_NAME, BY_ID = 12, 13
DELETED = "deleted"
UNKNOWN_TOPIC_OR_PARTITION = 3


def run(wire: Wire) -> None:
    leader_epochs(wire)
    for again in (False, True):
        name = f"again-{again}"
        topic = create(wire, name, partitions=2)
        produce(wire, "", topic, version=9)
        old = topic_id(wire, topic)
        sessions = opened(wire, topic, old)
        delete(wire, topic)
        if again:
            create(wire, name, partitions=1)
        case = "created again" if again else DELETED
        by_name(wire, case, topic)
        by_id(wire, case, topic, old)
        for version, (connection, session) in sessions.items():
            for epoch in (1, 2):
                fields = {"SessionId": session, "SessionEpoch": epoch}
                ask_fetch(connection, f"{case}: a session goes on", version, [], **fields)
            connection.close()


def leader_epochs(wire: Wire) -> None:
    topic = create(wire, "epochs", partitions=2)
    produce(wire, "", topic, version=9)

    def ask(case: str, version: int, *places: dict[str, Any], name: str = topic, replica: int = -1) -> None:
        fields = {"ReplicaId": replica} if version >= 3 else {}
        body = {**fields, "Topics": [{"Topic": name, "Partitions": list(places)}]}
        wire.ask(case, "OffsetForLeaderEpoch", version, body)

    def of(epoch: int, partition: int = 0, current: int = -1) -> dict[str, Any]:
        return {"Partition": partition, "CurrentLeaderEpoch": current, "LeaderEpoch": epoch}

    for version in (2, 3, 4):
        for epoch in (0, 1, 9, -1, -2, 2**31 - 1):
            ask(f"epoch {epoch}", version, of(epoch))
        ask("empty partition", version, of(0, 1))
        ask("unknown partition", version, of(0, 9))
        ask("negative partition", version, of(0, -1))
        ask("unknown topic", version, of(0), name=f"{wire.prefix}-absent")
        ask("bad topic name", version, of(0), name="bad name!")
        ask("known and unknown", version, of(0), of(0, 9))
        ask("the partition twice", version, of(0), of(1))
        for current in (0, 1, -2):
            ask(f"current epoch {current}", version, of(0, current=current))
    ask("as a follower", 4, of(0), replica=77)
    ask("as a debugger", 4, of(0), replica=-2)
    wire.ask("no topics", "OffsetForLeaderEpoch", 4, {"ReplicaId": -1, "Topics": []})


def opened(wire: Wire, topic: str, known: str) -> dict[int, tuple[Wire, int]]:
    """Open fetch sessions on both partitions, each on a connection of its own: (connection, session) by version."""
    sessions: dict[int, tuple[Wire, int]] = {}
    for version in (7, BY_NAME, BY_ID, 18):
        connection = wire.twin()
        named = {"Topic": topic} if version < BY_ID else {"TopicId": known}
        topics = [{**named, "Partitions": [place(), place(1)]}]
        answer = ask_fetch(connection, "a session opens", version, topics, SessionEpoch=0)
        sessions[version] = connection, answer["SessionId"]
    return sessions


def produce(wire: Wire, case: str, topic: str, version: int, partition: int = 0, **named: Any) -> None:
    data = {"Index": partition, "Records": batch([b"value"])}
    body = {"TransactionalId": None, "Acks": -1, "TimeoutMs": 10_000}
    topics = [{**(named or {"Name": topic}), "PartitionData": [data]}]
    (wire if case else wire.quiet).ask(case, "Produce", version, {**body, "TopicData": topics})


def delete(wire: Wire, topic: str) -> None:
    """Delete the topic, and return when no response names it any more."""
    wire.ask("goes", "DeleteTopics", 6, {"Topics": [{"Name": topic, "TopicId": ZERO}], "TimeoutMs": 10_000})
    places = {"Name": topic, "Partitions": [{"PartitionIndex": 0, "Timestamp": -1}]}
    offsets = {"ReplicaId": -1, "Topics": [places]}
    wire.until(lambda told: _is_gone(told["Topics"][0]["Partitions"][0]), "ListOffsets", 1, offsets)
    named = {"Topics": [{"Name": topic}], "AllowAutoTopicCreation": False}
    wire.until(lambda told: _is_gone(told["Topics"][0]), "Metadata", 12, named)


def _is_gone(told: dict[str, Any]) -> bool:
    return told["ErrorCode"] == UNKNOWN_TOPIC_OR_PARTITION


def by_name(wire: Wire, case: str, topic: str) -> None:
    """Ask by name. Only the old topic had the second partition."""
    named = {"Topics": [{"Name": topic}], "AllowAutoTopicCreation": False}
    wire.ask(f"{case}: name", "Metadata", 12, named)
    ask_fetch(wire, f"{case}: name", BY_NAME, [{"Topic": topic, "Partitions": [place(), place(1)]}], MaxWaitMs=5_000)
    for partition in (0, 1):
        offsets = {"Name": topic, "Partitions": [{"PartitionIndex": partition, "Timestamp": -1}]}
        wire.ask(f"{case}: partition {partition}", "ListOffsets", 8, {"ReplicaId": -1, "Topics": [offsets]})
        epochs = {"Topic": topic, "Partitions": [{"Partition": partition, "LeaderEpoch": 0}]}
        wire.ask(f"{case}: partition {partition}", "OffsetForLeaderEpoch", 4, {"ReplicaId": -1, "Topics": [epochs]})
        records = {"Name": topic, "Partitions": [{"PartitionIndex": partition, "Offset": 0}]}
        wire.ask(f"{case}: partition {partition}", "DeleteRecords", 2, {"Topics": [records], "TimeoutMs": 1_000})
    produce(wire, f"{case}: partition 1", topic, 9, 1)
    resource = {"ResourceType": 2, "ResourceName": topic, "ConfigurationKeys": ["retention.ms"]}
    wire.ask(f"{case}: name", "DescribeConfigs", 4, {"Resources": [resource]})
    pages = {"Topics": [{"Name": topic}], "ResponsePartitionLimit": 10, "Cursor": None}
    wire.ask(f"{case}: name", "DescribeTopicPartitions", 0, pages)
    if case == DELETED:
        wire.ask(f"{case}: again", "DeleteTopics", 5, {"TopicNames": [topic], "TimeoutMs": 1_000})


def by_id(wire: Wire, case: str, topic: str, old: str) -> None:
    """Ask by the id of the old topic, whose name belongs to another one now."""
    wire.ask(f"{case}: id", "Metadata", 12, {"Topics": [{"TopicId": old, "Name": None}]})
    for version in (BY_ID, 18):
        topics = [{"TopicId": old, "Partitions": [place(), place(1)]}]
        ask_fetch(wire, f"{case}: id", version, topics, MaxWaitMs=5_000)
        ask_fetch(wire, f"{case}: id, in a new session", version, topics, SessionEpoch=0)
    produce(wire, f"{case}: id", topic, 13, TopicId=old)
    wire.ask(f"{case}: id", "DeleteTopics", 6, {"Topics": [{"Name": None, "TopicId": old}], "TimeoutMs": 1_000})
    for version in (9, 10):
        named = {"Name": topic} if version < 10 else {"TopicId": old}
        places = [{"PartitionIndex": 0, "CommittedOffset": 1, "CommittedMetadata": ""}]
        body = {"GroupId": f"{wire.prefix}-again", "Topics": [{**named, "Partitions": places}]}
        wire.ask(f"{case}: id", "OffsetCommit", version, body)
    groups = [{"GroupId": f"{wire.prefix}-again", "Topics": [{"TopicId": old, "PartitionIndexes": [0]}]}]
    wire.ask(f"{case}: id", "OffsetFetch", 10, {"Groups": groups, "RequireStable": False})
