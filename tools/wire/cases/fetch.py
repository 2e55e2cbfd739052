"""Fetch and ListOffsets: every version, limits, sessions (KIP-227), epochs, sentinels."""

from __future__ import annotations

from typing import Any

from ..batches import TIMESTAMP_MS, batch
from ..connection import Wire
from .produce import produce
from .topics import create, topic_id

UNKNOWN_ID = "11111111-2222-3333-4444-555555555555"
SENTINELS = {
    -1: "latest",
    -2: "earliest",
    -3: "largest timestamp",
    -4: "earliest local",
    -5: "latest tiered",
    -6: "unknown",
    -7: "unknown",
}


def run(wire: Wire) -> None:
    topic = create(wire, "fetch", partitions=3)
    for start in range(3):
        values: list[bytes | None] = [b"value %d" % start] * (start + 1)
        produce(wire.quiet, "", topic, batch(values, timestamp_ms=TIMESTAMP_MS + 1000 * start))
    produce(wire.quiet, "", topic, batch([b"other"]), partition=1)
    versions(wire, topic)
    limits(wire, topic)
    refused(wire, topic)
    sessions_by_name(wire, topic)
    sessions_by_id(wire, topic)
    list_offsets(wire, topic)


def place(partition: int = 0, offset: int = 0, **fields: Any) -> dict[str, Any]:
    return {"Partition": partition, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20, **fields}


def fetch(wire: Wire, case: str, version: int, topic: str, *places: dict[str, Any], **fields: Any) -> dict[str, Any]:
    named = {"TopicId": topic if topic == UNKNOWN_ID else topic_id(wire, topic)} if version >= 13 else {"Topic": topic}
    return ask(wire, case, version, [{**named, "Partitions": list(places)}], **fields)


def ask(wire: Wire, case: str, version: int, topics: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    body = {"MaxWaitMs": 0, "MinBytes": 1, "MaxBytes": 1 << 20, "Topics": topics, **fields}
    return wire.ask(case, "Fetch", version, body)


def versions(wire: Wire, topic: str) -> None:
    for version in range(4):
        wire.ask("before v4", "Fetch", version, {"ReplicaId": -1, "MaxWaitMs": 0, "MinBytes": 0, "Topics": []})
    for version in range(4, 19):
        fetch(wire, "plain", version, topic, place())
        fetch(wire, "at the end", version, topic, place(offset=6))
        fetch(wire, "read committed", version, topic, place(offset=3), IsolationLevel=1)


def limits(wire: Wire, topic: str) -> None:
    fetch(wire, "from the middle of a batch", 12, topic, place(offset=4))
    fetch(wire, "one byte of a partition", 12, topic, place(PartitionMaxBytes=1))
    fetch(wire, "one byte in all", 12, topic, place(), place(1), MaxBytes=1)
    fetch(wire, "one byte in all, empty partition first", 12, topic, place(2), place(), place(1), MaxBytes=1)
    fetch(wire, "no bytes of a partition", 12, topic, place(PartitionMaxBytes=0))
    fetch(wire, "no bytes in all", 12, topic, place(), MaxBytes=0)
    fetch(wire, "room for one batch and a half", 12, topic, place(PartitionMaxBytes=130))
    fetch(wire, "room for two of two partitions", 12, topic, place(), place(1), MaxBytes=150)
    fetch(wire, "waits in vain", 12, topic, place(offset=6), MaxWaitMs=50, MinBytes=1)
    fetch(wire, "waits for more than there is", 12, topic, place(), MaxWaitMs=50, MinBytes=1 << 19)
    fetch(wire, "three partitions", 12, topic, place(), place(1), place(2))
    fetch(wire, "the partition twice", 12, topic, place(), place(offset=3))
    ask(wire, "no topics", 12, [])


def refused(wire: Wire, topic: str) -> None:
    for version in (4, 12, 13, 18):
        fetch(wire, "beyond the end", version, topic, place(offset=99), MaxWaitMs=5_000, MinBytes=1)
        fetch(wire, "negative offset", version, topic, place(offset=-1))
        fetch(wire, "unknown partition", version, topic, place(9))
        fetch(wire, "unknown and known partition", version, topic, place(9), place(0))
    fetch(wire, "unknown topic", 12, f"{wire.prefix}-absent", place())
    fetch(wire, "bad topic name", 12, "bad name!", place())
    fetch(wire, "unknown id", 13, UNKNOWN_ID, place())
    for epoch in (0, 1, 9, -2):
        fetch(wire, f"leader epoch {epoch}", 12, topic, place(CurrentLeaderEpoch=epoch))
    fetch(wire, "last fetched epoch 0", 12, topic, place(offset=3, LastFetchedEpoch=0, CurrentLeaderEpoch=0))
    fetch(wire, "as a follower we do not know", 12, topic, place(), ReplicaId=77)
    fetch(wire, "with a rack", 12, topic, place(), RackId="r1")


def sessions_by_name(wire: Wire, topic: str) -> None:
    for version in (7, 12):
        opened = fetch(wire, "session opens", version, topic, place(), place(1), SessionEpoch=0)
        session = opened["SessionId"]

        def step(
            case: str, epoch: int, *topics: dict[str, Any], _id: int = session, _version: int = version, **fields: Any
        ) -> None:
            ask(wire, case, _version, list(topics), SessionId=_id, SessionEpoch=epoch, **fields)

        step("session goes on, nothing new", 1)
        step("session moves a partition", 2, {"Topic": topic, "Partitions": [place(offset=6)]})
        step("session adds a partition", 3, {"Topic": topic, "Partitions": [place(2)]})
        step("session adds an unknown partition", 4, {"Topic": topic, "Partitions": [place(9)]})
        step("session repeats the error", 5)
        step("session forgets a partition", 6, ForgottenTopicsData=[{"Topic": topic, "Partitions": [9, 1]}])
        step("session with a wrong epoch", 3)
        step("session goes on after that", 7)
        step("session unknown", 1, _id=12_345)
        step("session closes", -1)
        step("session is gone", 8)
        fetch(wire, "no session wanted", version, topic, place(), SessionEpoch=-1)
        opened = ask(wire, "session opens empty", version, [], SessionEpoch=0)
        ask(wire, "session stays empty", version, [], SessionId=opened["SessionId"], SessionEpoch=1)
        opened = fetch(wire, "session opens again", version, topic, place(), SessionEpoch=0)
        fetch(
            wire, "full fetch names a session", version, topic, place(), SessionId=opened["SessionId"], SessionEpoch=0
        )


def sessions_by_id(wire: Wire, topic: str) -> None:
    known = topic_id(wire, topic)
    for version in (13, 16, 18):
        opened = fetch(wire, "session opens", version, topic, place(), place(1), SessionEpoch=0)
        session = opened["SessionId"]

        def step(
            case: str, epoch: int, *topics: dict[str, Any], _id: int = session, _version: int = version, **fields: Any
        ) -> None:
            ask(wire, case, _version, list(topics), SessionId=_id, SessionEpoch=epoch, **fields)

        step("session goes on, nothing new", 1)
        step("session adds an unknown id", 2, {"TopicId": UNKNOWN_ID, "Partitions": [place(0)]})
        step("session repeats the error", 3)
        step("session forgets", 4, ForgottenTopicsData=[{"TopicId": UNKNOWN_ID, "Partitions": [0]}])
        step("session forgets what it has", 5, ForgottenTopicsData=[{"TopicId": known, "Partitions": [0, 1]}])
        ask(
            wire,
            "session drops to names",
            12,
            [{"Topic": topic, "Partitions": [place()]}],
            SessionId=session,
            SessionEpoch=6,
        )
        step("session closes", -1)
    opened = fetch(wire, "session by name opens", 12, topic, place(), SessionEpoch=0)
    ask(wire, "session by name goes on by id", 13, [], SessionId=opened["SessionId"], SessionEpoch=1)


def list_offsets(wire: Wire, topic: str) -> None:
    def ask(case: str, version: int, *places: dict[str, Any], name: str = topic, **fields: Any) -> None:
        body = {"ReplicaId": -1, "Topics": [{"Name": name, "Partitions": list(places)}], **fields}
        wire.ask(case, "ListOffsets", version, body)

    for version in range(1, 12):
        for timestamp, meaning in SENTINELS.items():
            ask(f"{meaning} ({timestamp})", version, {"PartitionIndex": 0, "Timestamp": timestamp})
        ask("empty partition, earliest and latest", version, {"PartitionIndex": 2, "Timestamp": -2})
        ask("by timestamp", version, {"PartitionIndex": 0, "Timestamp": TIMESTAMP_MS + 1})
    for case, timestamp in (
        ("at 0", 0),
        ("second of a batch", TIMESTAMP_MS + 1001),
        ("the last", TIMESTAMP_MS + 2002),
        ("after all", TIMESTAMP_MS * 2),
    ):
        ask(f"timestamp {case}", 5, {"PartitionIndex": 0, "Timestamp": timestamp})
    for timestamp, meaning in SENTINELS.items():
        ask(f"empty partition, {meaning} ({timestamp})", 8, {"PartitionIndex": 2, "Timestamp": timestamp})
    for version in (1, 5, 11):
        ask("unknown partition", version, {"PartitionIndex": 9, "Timestamp": -1})
        ask("unknown topic", version, {"PartitionIndex": 0, "Timestamp": -1}, name=f"{wire.prefix}-absent")
        ask("bad topic name", version, {"PartitionIndex": 0, "Timestamp": -1}, name="bad name!")
        ask(
            "the partition twice",
            version,
            {"PartitionIndex": 0, "Timestamp": -1},
            {"PartitionIndex": 0, "Timestamp": -2},
        )
    for epoch in (0, 1, 9):
        ask(f"leader epoch {epoch}", 5, {"PartitionIndex": 0, "Timestamp": -1, "CurrentLeaderEpoch": epoch})
    ask("read committed", 5, {"PartitionIndex": 0, "Timestamp": -1}, IsolationLevel=1)
    ask("as a follower we do not know", 5, {"PartitionIndex": 0, "Timestamp": -1}, ReplicaId=77)
    ask("as a debugger", 5, {"PartitionIndex": 0, "Timestamp": -1}, ReplicaId=-2)
    ask("with a time-out", 10, {"PartitionIndex": 0, "Timestamp": -1}, TimeoutMs=1000)
    wire.ask("no topics", "ListOffsets", 5, {"ReplicaId": -1, "Topics": []})
