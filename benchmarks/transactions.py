"""Measure transactions a second, by librdkafka, 10 records each. Works against any Kafka broker.

    python -m benchmarks.transactions 127.0.0.1:9092 --producers 50 --seconds 4

It prints a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import threading
import time

import confluent_kafka

from .brokers import Broker, of_broker
from .load import Wire, create_topic, in_own_process

RECORDS = 10
WITHIN_S = 60.0


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--producers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4.0)
    arguments = parser.parse_args()
    print(json.dumps(transactions(arguments.address, arguments.producers, arguments.seconds)))


@of_broker
def load(broker: Broker, producers: int) -> float:
    """Return the transactions a second of so many producers, in a process of their own."""
    return in_own_process("transactions", broker.address, "--producers", producers)["transactions_per_s"]


def transactions(address: str, producers: int, seconds: float) -> dict[str, float]:
    """Return the committed transactions a second of all producers. Each producer commits one after the other."""
    topic = f"transactions-{time.time_ns()}"
    create_topic(Wire(address), topic)
    ready = threading.Barrier(producers + 1)
    counts = [0] * producers
    threads = [
        threading.Thread(target=_commit_for, args=(address, topic, index, seconds, ready, counts))
        for index in range(producers)
    ]
    for thread in threads:
        thread.start()
    ready.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    return {"transactions_per_s": sum(counts) / (time.perf_counter() - started)}


def _commit_for(
    address: str, topic: str, index: int, seconds: float, ready: threading.Barrier, counts: list[int]
) -> None:
    settings = {"bootstrap.servers": address, "transactional.id": f"{topic}-{index}", "linger.ms": 0}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(WITHIN_S)
    _commit_one(producer, topic)
    ready.wait()
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        _commit_one(producer, topic)
        counts[index] += 1


def _commit_one(producer: confluent_kafka.Producer, topic: str) -> None:
    producer.begin_transaction()
    for _ in range(RECORDS):
        producer.produce(topic, b"x" * 100, partition=0)
    producer.commit_transaction(WITHIN_S)


if __name__ == "__main__":
    main()
