"""A producer that must not lose or repeat anything: python steady_producer.py CLIENT HOST:PORT TOPIC COUNT

Sends the numbers 0 to COUNT-1 over all partitions, idempotently and with acks=all, a few hundred in flight. Prints
"partition offset number" for each as it is acknowledged, and ends with status 0 when all are.
"""

from __future__ import annotations

import asyncio
import sys
import time
import warnings
from typing import Any

IN_FLIGHT = 300
# So that a kill in the middle finds the producer at work, whatever the machine.
A_BURST = 100
BETWEEN_BURSTS_S = 0.02
WITHIN_S = 60


def say(partition: int, offset: int, number: int) -> None:
    print(partition, offset, number, flush=True)


def with_confluent(address: str, topic: str, count: int) -> None:
    import confluent_kafka

    def delivered(error: Any, message: confluent_kafka.Message) -> None:
        if error:
            sys.exit(f"{message.value()!r}: {error}")
        say(message.partition(), message.offset(), int(message.value()))

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 2, "log_level": 0}
    )
    for number in range(count):
        producer.produce(topic, b"%d" % number, b"%d" % number, on_delivery=delivered)
        if number % A_BURST == 0:
            producer.poll(BETWEEN_BURSTS_S)
        while len(producer) > IN_FLIGHT:
            producer.poll(BETWEEN_BURSTS_S)
    if producer.flush(WITHIN_S):
        sys.exit("not all were acknowledged")


def with_kafka_python(address: str, topic: str, count: int) -> None:
    import kafka

    producer = kafka.KafkaProducer(bootstrap_servers=address, acks="all", enable_idempotence=True, linger_ms=2)
    waiting: list[tuple[int, Any]] = []

    def settle(up_to: int) -> None:
        while len(waiting) > up_to:
            number, future = waiting.pop(0)
            done = future.get(WITHIN_S)
            say(done.partition, done.offset, number)

    for number in range(count):
        waiting.append((number, producer.send(topic, b"%d" % number, b"%d" % number)))
        settle(IN_FLIGHT)
        if number % A_BURST == 0:
            time.sleep(BETWEEN_BURSTS_S)
    settle(0)
    producer.close()


def with_aiokafka(address: str, topic: str, count: int) -> None:
    import aiokafka

    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True, linger_ms=2)
        await producer.start()
        waiting: list[tuple[int, Any]] = []

        async def settle(up_to: int) -> None:
            while len(waiting) > up_to:
                number, future = waiting.pop(0)
                done = await asyncio.wait_for(future, WITHIN_S)
                say(done.partition, done.offset, number)

        for number in range(count):
            waiting.append((number, await producer.send(topic, b"%d" % number, b"%d" % number)))
            await settle(IN_FLIGHT)
            if number % A_BURST == 0:
                await asyncio.sleep(BETWEEN_BURSTS_S)
        await settle(0)
        await producer.stop()

    asyncio.run(run())


def main() -> None:
    warnings.simplefilter("ignore")
    clients = {"confluent-kafka": with_confluent, "kafka-python": with_kafka_python, "aiokafka": with_aiokafka}
    clients[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]))


if __name__ == "__main__":
    main()
