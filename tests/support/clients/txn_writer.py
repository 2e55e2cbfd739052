"""A transactional producer that prints what it does, one JSON event a line, for tests/support/histories/history.py.

    python txn_writer.py CLIENT HOST:PORT NAME FIRST COUNT SEED

Runs COUNT transactions, numbered from FIRST, over the partitions of topic `history`. It aborts some. For some it does
not print the outcome, as if it had been killed before. Any error ends it with status 1.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Iterator

import confluent_kafka
from odradek.client import Producer

TOPIC = "history"
PARTITIONS = 3
MAX_RECORDS = 8
WITHIN_S = 20.0


def say(kind: str, number: int, *facts: object) -> None:
    print(json.dumps([kind, number, *facts]), flush=True)


def with_confluent(address: str, name: str, numbers: range, chance: random.Random) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": name,
            "log_level": 0,
            "reconnect.backoff.max.ms": 200,
            # So that one transaction has several batches a partition.
            "batch.num.messages": 2,
        }
    )
    producer.init_transactions(WITHIN_S)
    for number in numbers:
        one_transaction(producer, name, number, chance)


def one_transaction(producer: confluent_kafka.Producer, name: str, number: int, chance: random.Random) -> None:
    producer.begin_transaction()
    for partition, value in records(name, number, chance):
        producer.produce(TOPIC, value, partition=partition)
    if chance.random() < 0.5:
        # All is on the broker while the transaction is open still: readers must not see it.
        producer.flush(WITHIN_S)
        time.sleep(chance.random() / 50)
    if chance.random() < 0.3:
        producer.abort_transaction(WITHIN_S)
        say("ended", number, "aborted")
        return
    say("committing", number, time.monotonic_ns())
    producer.commit_transaction(WITHIN_S)
    if chance.random() < 0.7:
        say("ended", number, "committed")


def records(name: str, number: int, chance: random.Random) -> Iterator[tuple[int, str]]:
    """Yield partition and value of each record, said before it is sent."""
    for index in range(chance.randint(1, MAX_RECORDS)):
        partition = chance.randrange(PARTITIONS)
        value = f"{name}:{number}:{index}"
        say("wrote", number, partition, value)
        yield partition, value


async def with_odradek(address: str, name: str, numbers: range, chance: random.Random) -> None:
    # Small batches, so that one transaction has several a partition.
    quick = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 200, "batch_size": 150, "max_block_ms": WITHIN_S * 1000}
    async with Producer(address, transactional_id=name, **quick) as producer:
        for number in numbers:
            await one_transaction_of_ours(producer, name, number, chance)


async def one_transaction_of_ours(producer: Producer, name: str, number: int, chance: random.Random) -> None:
    await producer.begin_transaction()
    for partition, value in records(name, number, chance):
        await producer.send(TOPIC, value.encode(), partition=partition)
    if chance.random() < 0.5:
        await producer.flush()
        await asyncio.sleep(chance.random() / 50)
    if chance.random() < 0.3:
        await producer.abort_transaction()
        say("ended", number, "aborted")
        return
    say("committing", number, time.monotonic_ns())
    await producer.commit_transaction()
    if chance.random() < 0.7:
        say("ended", number, "committed")


def main() -> None:
    client, address, name, first, count, seed = sys.argv[1:]
    numbers, chance = range(int(first), int(first) + int(count)), random.Random(seed)
    if client == "odradek":
        asyncio.run(with_odradek(address, name, numbers, chance))
    else:
        with_confluent(address, name, numbers, chance)


if __name__ == "__main__":
    main()
