"""Transactions a second, and what idempotence costs a produce.

    python -m benchmarks.transactions 127.0.0.1:9092 --producers 50 --seconds 4     by librdkafka, 10 records each
    python -m benchmarks.transactions 127.0.0.1:9092 --idempotence                  by raw frames, in pairs

Each prints a line of JSON. Works against any Kafka broker.
"""

import argparse
import json
import statistics
import threading
import time

import confluent_kafka
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record

from .load import Wire, create_topic, request

RECORDS = 10
WITHIN_S = 60.0
# Requests of one measurement of idempotence, and how many of them wait for their answer at a time.
REQUESTS = 16_000
BURST = 32


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--producers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--idempotence", action="store_true")
    parser.add_argument("--rounds", type=int, default=9, help="pairs of plain and idempotent runs")
    arguments = parser.parse_args()
    if arguments.idempotence:
        print(json.dumps(idempotence(arguments.address, arguments.rounds)))
    else:
        print(json.dumps(transactions(arguments.address, arguments.producers, arguments.seconds)))


def transactions(address: str, producers: int, seconds: float) -> dict[str, float]:
    """Committed transactions a second, all producers together, each of which commits one after the other."""
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


def idempotence(address: str, rounds: int) -> dict[str, float]:
    """How much longer idempotent requests take than plain ones, in percent: the median over pairs of runs."""
    wire = Wire(address)
    topic = f"idempotence-{time.time_ns()}"
    create_topic(wire, topic)
    plain = _frames(topic, -1)
    _send(wire, plain)
    overheads: list[float] = []
    for _ in range(rounds):
        asked = InitProducerIdRequest(None, 60_000)
        producer_id = wire.ask(ApiKey.INIT_PRODUCER_ID, 4, asked, InitProducerIdResponse).producer_id
        idempotent = _frames(topic, producer_id)
        overheads.append(_send(wire, idempotent) / _send(wire, plain) * 100 - 100)
    return {"overhead_percent": statistics.median(overheads)}


def _frames(topic: str, producer_id: int) -> list[bytes]:
    """Bursts of requests of one record each."""
    frames = [_frame(topic, producer_id, sequence) for sequence in range(REQUESTS)]
    return [b"".join(frames[first : first + BURST]) for first in range(0, REQUESTS, BURST)]


def _frame(topic: str, producer_id: int, sequence: int) -> bytes:
    epoch, first = (0, sequence) if producer_id >= 0 else (-1, -1)
    records = [Record(0, int(time.time() * 1000), None, b"x" * 100)]
    batch = encode_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=first)
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
    return request(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=30000, topic_data=[data]))


def _send(wire: Wire, bursts: list[bytes]) -> float:
    """Seconds for all of them, two bursts in flight."""
    started = time.perf_counter()
    wire.send(bursts[0])
    for burst in bursts[1:]:
        wire.send(burst)
        for _ in range(BURST):
            wire.receive()
    for _ in range(BURST):
        wire.receive()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
