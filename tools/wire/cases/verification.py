"""Transactional batches for partitions that were not added to the transaction, with and without verification.

In every version of Produce and TxnOffsetCommit (`transaction.partition.verification.enable`).
"""

from __future__ import annotations

import time
from typing import Any

from ..batches import batch
from ..connection import Wire
from .configs import BROKER, DELETE, SET, UNTIL_IT_HOLDS_S, alter
from .topics import create, topic_id

NAME = "transaction.partition.verification.enable"
TRANSACTIONAL = 0x10
FIRST_BY_ID = 6
UNKNOWN_ID = "11111111-2222-3333-4444-555555555555"


def run(wire: Wire) -> None:
    topic = create(wire, "verified", 32)
    ask_all(wire, "verified", topic, partition=0)
    alter(wire, "switched off", BROKER, "", (NAME, SET, "false"))
    time.sleep(UNTIL_IT_HOLDS_S)
    try:
        ask_all(wire, "not verified", topic, partition=16)
    finally:
        alter(wire, "back", BROKER, "", (NAME, DELETE, None))
        time.sleep(UNTIL_IT_HOLDS_S)


def ask_all(wire: Wire, case: str, topic: str, partition: int) -> None:
    for version in range(8, 14):
        who = begin(wire, f"{case}-{version}")
        produce(wire, f"{case}: not added", version, topic, partition, who)
        added(wire, topic, partition + 1, who)
        produce(wire, f"{case}: added", version, topic, partition + 1, who)
        produce(wire, f"{case}: open, not added", version, topic, partition + 1, who, sequence=1)
        end(wire, f"{case}: ends, not knowing of all", who)
        produce(wire, f"{case}: after the end", version, topic, partition + 1, who, sequence=2)
        partition += 2
    for version in range(3, 7):
        who = begin(wire, f"{case}-offsets-{version}")
        commit(wire, f"{case}: not added", version, topic, who)
        end(wire, f"{case}: offsets end", who)


Who = tuple[str, int, int]


def begin(wire: Wire, name: str) -> Who:
    """Start a producer, and return its transactional id, producer id and epoch."""
    transactional_id = f"{wire.prefix}-{name}"
    body = {"TransactionalId": transactional_id, "TransactionTimeoutMs": 60_000}
    wire.until(_is_well, "FindCoordinator", 2, {"Key": transactional_id, "KeyType": 1})
    answer = wire.until(_is_well, "InitProducerId", 3, body)
    return transactional_id, answer["ProducerId"], answer["ProducerEpoch"]


def _is_well(told: dict[str, Any]) -> bool:
    return not told["ErrorCode"]


def added(wire: Wire, topic: str, partition: int, who: Who) -> None:
    body = dict(zip(("V3AndBelowTransactionalId", "V3AndBelowProducerId", "V3AndBelowProducerEpoch"), who, strict=True))
    topics = [{"Name": topic, "Partitions": [partition]}]
    wire.quiet.ask("", "AddPartitionsToTxn", 3, {**body, "V3AndBelowTopics": topics})


def produce(wire: Wire, case: str, version: int, topic: str, partition: int, who: Who, sequence: int = 0) -> None:
    named: dict[str, Any] = {"Name": topic} if version < 13 else {"TopicId": topic_id(wire, topic)}
    records = batch([b"value"], attributes=TRANSACTIONAL, producer=(*who[1:], sequence))
    data = [{**named, "PartitionData": [{"Index": partition, "Records": records}]}]
    body = {"TransactionalId": who[0], "Acks": -1, "TimeoutMs": 10_000, "TopicData": data}
    wire.ask(case, "Produce", version, body)


def end(wire: Wire, case: str, who: Who) -> None:
    wire.ask(
        case, "EndTxn", 3, {"TransactionalId": who[0], "ProducerId": who[1], "ProducerEpoch": who[2], "Committed": True}
    )
    time.sleep(2 * UNTIL_IT_HOLDS_S)


def commit(wire: Wire, case: str, version: int, topic: str, who: Who) -> None:
    named = {"Name": topic} if version < FIRST_BY_ID else {"TopicId": topic_id(wire, topic)}
    unknown = {"Name": f"{topic}-absent"} if version < FIRST_BY_ID else {"TopicId": UNKNOWN_ID}
    places = [{"PartitionIndex": index, "CommittedOffset": 1, "CommittedMetadata": ""} for index in (0, 99)]
    body = {
        "TransactionalId": who[0], "GroupId": who[0], "ProducerId": who[1], "ProducerEpoch": who[2],
        "Topics": [{**named, "Partitions": places}, {**unknown, "Partitions": places[:1]}],
    }  # fmt: skip
    wire.ask(case, "TxnOffsetCommit", version, body)
    member = {"GenerationIdOrMemberEpoch": 3, "MemberId": "m"}
    wire.ask(f"{case}, no such group", "TxnOffsetCommit", version, {**body, **member, "GroupId": f"{who[0]}-absent"})
    wire.ask(f"{case}, no such producer", "TxnOffsetCommit", version, {**body, **member, "ProducerId": 999_999})
