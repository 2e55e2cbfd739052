"""A transactional producer that prints what it does, one JSON event a line, for tests/support/history.py.

    python txn_writer.py HOST:PORT NAME FIRST COUNT SEED

Runs COUNT transactions, numbered from FIRST, over the partitions of topic `history`. It aborts some. For some it does
not print the outcome, as if it had been killed before. Any error ends it with status 1.
"""

from __future__ import annotations

import json
import random
import sys
import time

import confluent_kafka

TOPIC = "history"
PARTITIONS = 3
MAX_RECORDS = 8
WITHIN_S = 20.0


def say(kind: str, number: int, *facts: object) -> None:
    print(json.dumps([kind, number, *facts]), flush=True)


def main() -> None:
    address, name, first, count, seed = sys.argv[1:]
    chance = random.Random(seed)
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
    for number in range(int(first), int(first) + int(count)):
        one_transaction(producer, name, number, chance)


def one_transaction(producer: confluent_kafka.Producer, name: str, number: int, chance: random.Random) -> None:
    producer.begin_transaction()
    for index in range(chance.randint(1, MAX_RECORDS)):
        partition = chance.randrange(PARTITIONS)
        value = f"{name}:{number}:{index}"
        say("wrote", number, partition, value)
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


if __name__ == "__main__":
    main()
