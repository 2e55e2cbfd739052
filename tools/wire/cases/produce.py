"""Produce: every version, every acks, rejected batches, and the sequence rules of idempotent producers."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ..batches import TIMESTAMP_MS, batch, message_set
from ..connection import Wire
from .topics import RefusedError, create, topic_id

UNKNOWN_ID = "11111111-2222-3333-4444-555555555555"
CONTROL, TRANSACTIONAL, LOG_APPEND_TIME, GZIP, ZSTD = 0x20, 0x10, 0x08, 1, 4


def run(wire: Wire) -> None:
    topic = create(wire, "produce", partitions=2)
    versions(wire, topic)
    acks(wire, topic)
    places(wire, topic)
    bad_batches(wire, topic)
    topic_rules(wire)
    idempotence(wire)


def produce(
    wire: Wire, case: str, topic: str, records: bytes | None, *, version: int = 9, acks: int = -1, partition: int = 0
) -> None:
    partitions = [{"Index": partition, "Records": records}]
    ask(wire, case, version, [{**name(wire, topic, version), "PartitionData": partitions}], acks)


def name(wire: Wire, topic: str, version: int) -> dict[str, Any]:
    return {"TopicId": topic_id(wire, topic)} if version >= 13 else {"Name": topic}


def ask(wire: Wire, case: str, version: int, topics: list[dict[str, Any]], acks: int = -1, **fields: Any) -> None:
    body = {"Acks": acks, "TimeoutMs": 5_000, "TopicData": topics, **fields}
    wire.ask(case, "Produce", version, body, answered=acks != 0)


def versions(wire: Wire, topic: str) -> None:
    for version in range(3):
        wire.ask("before v3", "Produce", version, {"Acks": 1, "TimeoutMs": 5_000, "TopicData": []})
    for version in range(3, 14):
        produce(wire, "plain", topic, batch([b"one", b"two"]), version=version)
        produce(wire, "unknown partition", topic, batch([b"x"]), version=version, partition=7)


def acks(wire: Wire, topic: str) -> None:
    produce(wire, "acks=1", topic, batch([b"x"]), acks=1)
    produce(wire, "acks=0", topic, batch([b"x"]), acks=0)
    produce(wire, "after acks=0", topic, batch([b"x"]))
    for count in (2, -2):
        produce(wire, f"acks={count}", topic, batch([b"x"]), acks=count)
    produce(wire, "acks=0 to an unknown partition", topic, batch([b"x"]), acks=0, partition=7)
    wire.hangs_up("acks=0 refused: hangs up")
    produce(wire, "acks=0, another batch with a wrong CRC", topic, batch([b"x"], crc_error=1), acks=0)
    wire.hangs_up("acks=0 corrupt: hangs up")


def places(wire: Wire, topic: str) -> None:
    good, other = {"Index": 0, "Records": batch([b"x"])}, {"Index": 1, "Records": batch([b"y"])}
    far = {"Index": 99, "Records": batch([b"z"])}
    ask(wire, "two partitions", 9, [{"Name": topic, "PartitionData": [good, other]}])
    ask(wire, "one good, one unknown", 9, [{"Name": topic, "PartitionData": [good, far]}])
    ask(
        wire,
        "the topic twice",
        9,
        [{"Name": topic, "PartitionData": [good]}, {"Name": topic, "PartitionData": [other]}],
    )
    ask(wire, "no topics", 9, [])
    ask(wire, "no partitions", 9, [{"Name": topic, "PartitionData": []}])
    ask(wire, "unknown id", 13, [{"TopicId": UNKNOWN_ID, "PartitionData": [good]}])
    ask(wire, "negative partition", 9, [{"Name": topic, "PartitionData": [{"Index": -1, "Records": batch([b"x"])}]}])
    produce(wire, "topic that is not there", f"{wire.prefix}-absent", batch([b"x"]))
    produce(wire, "bad topic name", "bad name!", batch([b"x"]))
    produce(wire, "empty topic name", "", batch([b"x"]))


def bad_batches(wire: Wire, topic: str) -> None:
    good = batch([b"one", b"two"])
    for case, records in (
        ("wrong CRC", batch([b"x"], crc_error=1)),
        ("no records at all", b""),
        ("two batches", good + good),
        ("empty batch", batch([])),
        ("count too large", batch([b"x"], count_error=1)),
        ("count too small", batch([b"x", b"y"], count_error=-1)),
        ("one record more than it holds", batch([b"x", b"y"], count_error=1, last_delta_error=1)),
        ("many records more than it holds", batch([b"x"] * 100, count_error=1, last_delta_error=1)),
        ("one record less than it holds", batch([b"x", b"y"], count_error=-1, last_delta_error=-1)),
        ("billions of records", batch([b"x"], count_error=2_000_000_000, last_delta_error=2_000_000_000)),
        ("count negative", batch([b"x"], count_error=-2)),
        ("last delta wrong", batch([b"x"], last_delta_error=3)),
        ("length too large", batch([b"x"], length_error=5)),
        ("length too small", batch([b"x"], length_error=-1)),
        ("length below a header", batch([b"x"], length_error=-60)),
        ("length negative", batch([b"x"], length_error=-1000)),
        ("cut in the header", good[:30]),
        ("cut in the records", good[:-3]),
        ("bytes behind the batch", good + b"\0\0\0"),
        ("garbage", b"\xfe" * 100),
        ("base offset 5", batch([b"x"], base_offset=5)),
        ("base offset negative", batch([b"x"], base_offset=-5)),
        ("magic 3", batch([b"x"], magic=3)),
        ("magic 1", message_set([b"x"], 1)),
        ("magic 0", message_set([b"x"], 0)),
        ("control batch", batch([b"x"], attributes=CONTROL)),
        ("transactional without a producer", batch([b"x"], attributes=TRANSACTIONAL)),
        ("unknown codec", batch([b"x"], attributes=7)),
        ("says gzip, is none", batch([b"x"], attributes=GZIP)),
        ("log append time", batch([b"x"], attributes=LOG_APPEND_TIME)),
        ("timestamp in the far future", batch([b"x"], timestamp_ms=TIMESTAMP_MS * 10)),
        ("timestamp negative", batch([b"x"], timestamp_ms=-5)),
        ("no timestamp", batch([b"x"], timestamp_ms=-1)),
        ("record without key and value", batch([None], key=None)),
    ):
        produce(wire, case, topic, records)
    produce(wire, "zstd before v7", topic, batch([b"x"], attributes=ZSTD), version=6)
    produce(wire, "good after all that", topic, good)


def topic_rules(wire: Wire) -> None:
    small = create(wire, "small", configs={"max.message.bytes": "200"})
    produce(wire, "larger than max.message.bytes", small, batch([b"x" * 300]))
    produce(wire, "within max.message.bytes", small, batch([b"x" * 10]))
    stamped = create(wire, "stamped", configs={"message.timestamp.type": "LogAppendTime"})
    produce(wire, "stamped by the broker", stamped, batch([b"x"]))
    with suppress(RefusedError):
        compacted = create(wire, "compacted", configs={"cleanup.policy": "compact"})
        produce(wire, "compacted, no key", compacted, batch([b"x"], key=None))
        produce(wire, "compacted, key", compacted, batch([b"x"]))
    with suppress(RefusedError):
        strict = create(wire, "strict", configs={"message.timestamp.before.max.ms": "1000"})
        produce(wire, "older than the topic allows", strict, batch([b"x"]))


def idempotence(wire: Wire) -> None:
    topic = create(wire, "idempotent")
    ids = [
        wire.ask("id", "InitProducerId", 4, {"TransactionalId": None, "TransactionTimeoutMs": 1000})["ProducerId"]
        for _ in "123"
    ]
    for producer_id in ids[:2]:
        sequences(wire, topic, producer_id)
    for case, producer in (
        ("starts with a sequence above 0", (ids[2], 0, 5)),
        ("id nobody was given", (987_654_321, 0, 0)),
        ("id without epoch", (ids[2], -1, 0)),
        ("id without sequence", (ids[2], 0, -1)),
    ):
        produce(wire, case, topic, batch([b"x"], producer=producer))


def sequences(wire: Wire, topic: str, producer_id: int) -> None:
    steps = [
        ("first", 0, 0),
        ("second", 0, 1),
        ("second again", 0, 1),
        ("first again", 0, 0),
        ("gap", 0, 5),
        ("third", 0, 2),
    ]
    steps += [(f"number {sequence}", 0, sequence) for sequence in range(3, 8)]
    steps += [
        ("six batches back", 0, 1),
        ("five batches back", 0, 3),
        ("epoch 1 starts above 0", 1, 3),
        ("epoch 1", 1, 0),
        ("epoch 0", 0, 8),
    ]
    for case, epoch, sequence in steps:
        produce(wire, case, topic, batch([b"x"], producer=(producer_id, epoch, sequence)))
    produce(wire, "two records, half seen", topic, batch([b"x", b"y"], producer=(producer_id, 1, 0)))
    produce(wire, "v13 after all that", topic, batch([b"x", b"y"], producer=(producer_id, 1, 1)), version=13)
