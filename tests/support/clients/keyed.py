"""Other people's clients on a compacted topic, with one interface: write, with or without transactions, and read.

`write(client, address, topic, rounds)` sends rounds of (key, value) pairs to partition 0 and returns the offset of each
pair, in order. A round with the `end` "commit" or "abort" is a transaction, one with "plain" is not; a call never mixes
the two kinds. `read_to_end(client, ...)` returns all that a reader of an isolation level sees now.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from odradek.tests.support.clients.others import WITHIN_S, read

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # What these use of Python is their own affair.
    import aiokafka
    import kafka

Pair = tuple[bytes | None, bytes | None]

KEYED_CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka")


class Round(NamedTuple):
    """Pairs that are sent together, and how the round ends: plain, commit, abort."""

    end: str
    pairs: Sequence[Pair]


class Kept(NamedTuple):
    """A record as a reader gets it."""

    offset: int
    key: bytes | None
    value: bytes | None


SEGMENT_BYTES = 2000
COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": str(SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.01",
}
FILLER = b"filler"
# More than a segment of them: whatever was written before lies in closed segments then.
ROLL = Round("plain", [(FILLER, b"x" * 500)] * 6)


def write(client: str, address: str, topic: str, rounds: list[Round]) -> list[int]:
    """Send the rounds, and return when every record is acknowledged. Raises the client's errors."""
    kinds = {each.end == "plain" for each in rounds}
    assert len(kinds) == 1, "transactions and plain records do not mix in one producer"
    return _WRITE[client](address, topic, rounds, None if kinds.pop() else f"{topic}-{client}")


def read_to_end(client: str, address: str, topic: str, isolation: str = "read_uncommitted") -> list[Kept]:
    """Return the records of partition 0 from its first offset to the last that this isolation level may see."""
    return [Kept(*each[:3]) for each in read(client, address, topic, isolation)]


def compacted(address: str, topic: str, **more: str) -> str:
    admin = AdminClient({"bootstrap.servers": address})
    config = COMPACTED | {name.replace("_", "."): value for name, value in more.items()}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(WITHIN_S)
    return topic


def last_of(pairs: list[Pair], offsets: list[int]) -> list[Kept]:
    """Return the last pair of each key, with its offset."""
    last = {key: Kept(offset, key, value) for (key, value), offset in zip(pairs, offsets, strict=True)}
    return sorted(last.values())


def seen(client: str, address: str, topic: str, isolation: str = "read_uncommitted") -> list[Kept]:
    """Return all records but those that were written to close a segment."""
    return [each for each in read_to_end(client, address, topic, isolation) if each.key != FILLER]


def until_cleaned(address: str, topic: str, expected: list[Kept], meanwhile: Callable[[], object] = int) -> None:
    """Look until the topic is cleaned, and call `meanwhile` in between."""
    deadline = time.monotonic() + WITHIN_S
    while (found := seen("confluent-kafka", address, topic)) != expected:
        assert time.monotonic() < deadline, f"{found} and not {expected}"
        meanwhile()


# Writers.


def _write_confluent(address: str, topic: str, rounds: list[Round], transactional_id: str | None) -> list[int]:
    settings: dict[str, Any] = {"bootstrap.servers": address, "linger.ms": 0}
    if transactional_id is not None:
        settings["transactional.id"] = transactional_id
    producer = confluent_kafka.Producer(settings)
    if transactional_id is not None:
        producer.init_transactions(WITHIN_S)
    offsets: list[int] = []
    failed: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        offsets.append(message.offset())
        if error is not None:
            failed.append(error)

    for end, pairs in rounds:
        if end != "plain":
            producer.begin_transaction()
        for key, value in pairs:
            producer.produce(topic, value, key, 0, on_delivery=delivered)
            # One a batch, as the others do it: what lies together is what was sent together.
            assert producer.flush(WITHIN_S) == 0
            if failed:
                raise confluent_kafka.KafkaException(failed[0])
        if end != "plain":
            (producer.commit_transaction if end == "commit" else producer.abort_transaction)(WITHIN_S)
    return offsets


def _write_kafka_python(address: str, topic: str, rounds: list[Round], transactional_id: str | None) -> list[int]:
    producer = kafka.KafkaProducer(bootstrap_servers=address, transactional_id=transactional_id)
    try:
        if transactional_id is not None:
            producer.init_transactions()
        offsets: list[int] = []
        for end, pairs in rounds:
            if end != "plain":
                producer.begin_transaction()
            for key, value in pairs:
                offsets.append(producer.send(topic, value, key, partition=0).get(WITHIN_S).offset)
            if end != "plain":
                (producer.commit_transaction if end == "commit" else producer.abort_transaction)()
        return offsets
    finally:
        producer.close()


def _write_aiokafka(address: str, topic: str, rounds: list[Round], transactional_id: str | None) -> list[int]:
    async def run() -> list[int]:
        offsets: list[int] = []
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=address, acks="all", transactional_id=transactional_id
        ) as producer:
            for end, pairs in rounds:
                if end != "plain":
                    await producer.begin_transaction()
                for key, value in pairs:
                    sent = producer.send_and_wait(topic, value, key, partition=0)
                    offsets.append((await asyncio.wait_for(sent, WITHIN_S)).offset)
                if end != "plain":
                    await (producer.commit_transaction if end == "commit" else producer.abort_transaction)()
        return offsets

    return asyncio.run(run())


_WRITE: dict[str, Callable[[str, str, list[Round], str | None], list[int]]] = {
    "confluent-kafka": _write_confluent,
    "kafka-python": _write_kafka_python,
    "aiokafka": _write_aiokafka,
}
