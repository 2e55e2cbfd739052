"""Measure transactions a second, and the cost of idempotence for a produce.

    python -m benchmarks.transactions 127.0.0.1:9092 --producers 50 --seconds 4     by librdkafka, 10 records each
    python -m benchmarks.transactions 127.0.0.1:9092 --idempotence PID              by raw frames, in pairs

Each prints a line of JSON. Works against any Kafka broker.

The cost of idempotence is CPU time of the broker's process (PID), measured in pairs of runs: one with producer id and
sequences, one without. All else is equal, by raw frames: bursts of five requests, which is the most that an idempotent
client may have in flight. librdkafka cannot be used for this: with idempotence it sends the five one by one, without it
together, and that difference costs a broker far more than idempotence does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time

import confluent_kafka
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record

from .brokers import Broker, cpu_s, of_broker
from .load import Wire, create_topic, in_own_process, produce_batch

RECORDS = 10
WITHIN_S = 60.0
# Requests of one run, and how many of them wait for their answer at a time.
REQUESTS = 1000
IN_FLIGHT = 5
ROUNDS = 60
# Of a batch: one record is where a request costs least, so that idempotence weighs most; 16 KB is a batch of Java's
# producer as it comes (batch.size).
RECORD_BYTES = 100
BATCH_BYTES = 16_000


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--producers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--idempotence", type=int, metavar="PID", help="the broker's process")
    parser.add_argument("--record-bytes", type=int, default=RECORD_BYTES)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="pairs of plain and idempotent runs")
    arguments = parser.parse_args()
    if arguments.idempotence:
        figures = idempotence(arguments.address, arguments.idempotence, arguments.record_bytes, arguments.rounds)
    else:
        figures = transactions(arguments.address, arguments.producers, arguments.seconds)
    print(json.dumps(figures))


@of_broker
def load(broker: Broker, producers: int) -> float:
    """Return the transactions a second of so many producers, in a process of their own."""
    return in_own_process("transactions", broker.address, "--producers", producers)["transactions_per_s"]


@of_broker
def cost(broker: Broker, record_bytes: int) -> float:
    """Return the CPU time of idempotent requests of one record, divided by that of plain ones."""
    options = "--idempotence", broker.pid, "--record-bytes", record_bytes
    return in_own_process("transactions", broker.address, *options)["times_plain"]


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


def idempotence(address: str, pid: int, record_bytes: int, rounds: int) -> dict[str, float]:
    """Return the broker's CPU time of a plain request in us, and the ratio of an idempotent one: medians of pairs."""
    wire = Wire(address)
    topic = f"idempotence-{time.time_ns()}"
    create_topic(wire, topic)
    plain = _frames(topic, -1, record_bytes)
    _send(wire, plain)
    pairs: list[tuple[float, float]] = []
    for number in range(rounds):
        asked = InitProducerIdRequest(None, 60_000)
        producer_id = wire.ask(ApiKey.INIT_PRODUCER_ID, 4, asked, InitProducerIdResponse).producer_id
        idempotent = _frames(topic, producer_id, record_bytes)
        # The order changes, so that an effect of the first run on the second hits both sides.
        if number % 2:
            with_it = _cpu_us(pid, wire, idempotent)
            pairs.append((_cpu_us(pid, wire, plain), with_it))
        else:
            pairs.append((_cpu_us(pid, wire, plain), _cpu_us(pid, wire, idempotent)))
    return {
        "plain_us": statistics.median(without for without, _ in pairs),
        "times_plain": statistics.median(with_it / without for without, with_it in pairs),
    }


def _cpu_us(pid: int, wire: Wire, bursts: list[bytes]) -> float:
    """Return the CPU time of one request."""
    before = cpu_s(pid)
    _send(wire, bursts)
    return (cpu_s(pid) - before) / REQUESTS * 1e6


def _frames(topic: str, producer_id: int, record_bytes: int) -> list[bytes]:
    """Return bursts of requests of one record each."""
    frames = [_frame(topic, producer_id, sequence, record_bytes) for sequence in range(REQUESTS)]
    return [b"".join(frames[first : first + IN_FLIGHT]) for first in range(0, REQUESTS, IN_FLIGHT)]


def _frame(topic: str, producer_id: int, sequence: int, record_bytes: int) -> bytes:
    epoch, first = (0, sequence) if producer_id >= 0 else (-1, -1)
    records = [Record(0, int(time.time() * 1000), None, b"x" * record_bytes)]
    batch = encode_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=first)
    return produce_batch(topic, batch)


def _send(wire: Wire, bursts: list[bytes]) -> None:
    """Send each burst when the one before is answered, so that every run wakes the broker equally often."""
    for burst in bursts:
        wire.send(burst)
        for _ in range(IN_FLIGHT):
            wire.receive()


if __name__ == "__main__":
    main()
