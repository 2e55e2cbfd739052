"""Producers of other libraries that send values to one topic until there are none left, idempotently and with acks=all.

What the broker has acknowledged goes to `note` (partition, offset, value). A record that it does not acknowledge fails
the run.

    python keepers.py CLIENT HOST:PORT TOPIC PARTITIONS COUNT    # prints "partition offset number" of each
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import aiokafka
    import confluent_kafka
    import kafka

from odradek.tests.support.brokers.process import java

Note = Callable[[int, int, bytes], None]

# A client that is under way when the broker dies needs so long at most to go on.
PATIENCE_S = 60
# So that a kill finds the producer at work, whatever the machine.
A_BURST = 100
BETWEEN_BURSTS_S = 0.05
IN_FLIGHT = 300
JAVA_RECORDS_A_SECOND = 1_000


def with_librdkafka(address: str, topic: str, partitions: int, values: Iterable[bytes], note: Note) -> None:
    """Send from a thread, some hundred in flight."""

    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        note(message.partition(), message.offset(), message.value())

    options = {"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0}
    producer = confluent_kafka.Producer({**options, "reconnect.backoff.max.ms": 500})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions, on_delivery=delivered)
        if not number % A_BURST:
            producer.poll(BETWEEN_BURSTS_S)
        while len(producer) > IN_FLIGHT:
            producer.poll(BETWEEN_BURSTS_S)
    assert producer.flush(PATIENCE_S) == 0


def with_kafka_python(address: str, topic: str, partitions: int, values: Iterable[bytes], note: Note) -> None:
    """Send from a thread, a burst at a time."""
    producer = kafka.KafkaProducer(bootstrap_servers=address, acks="all", enable_idempotence=True, linger_ms=2)
    for burst in _bursts(values):
        sent = [producer.send(topic, value, partition=at % partitions) for at, value in enumerate(burst)]
        for value, future in zip(burst, sent, strict=True):
            done = future.get(PATIENCE_S)
            note(done.partition, done.offset, value)
    producer.close()


async def with_aiokafka(address: str, topic: str, partitions: int, values: Iterable[bytes], note: Note) -> None:
    """Send a burst at a time."""
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=address, enable_idempotence=True, request_timeout_ms=PATIENCE_S * 1000
    )
    async with producer:
        for burst in _bursts(values):
            sent = [await producer.send(topic, value, partition=at % partitions) for at, value in enumerate(burst)]
            for value, metadata in zip(burst, await asyncio.gather(*sent), strict=True):
                note(metadata.partition, metadata.offset, value)
            await asyncio.sleep(BETWEEN_BURSTS_S)


def _bursts(values: Iterable[bytes]) -> Iterable[list[bytes]]:
    rest = iter(values)
    return iter(lambda: list(itertools.islice(rest, A_BURST)), [])


async def with_java(folder: Path, address: str, topic: str, is_over: Callable[[], bool], note: Note) -> None:
    """Send as sender 7, by Kafka's VerifiableProducer with an options file in `folder`. KAFKA_LIB must be set."""
    # Without these it gives up a record at the first lost connection.
    options = folder / "java-producer.properties"
    options.write_text("retries=2147483647\nenable.idempotence=true\n")
    command = [*java(), "org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", address, "--topic", topic]
    command += ["--command-config", str(options), "--value-prefix", "7"]
    command += ["--throughput", str(JAVA_RECORDS_A_SECOND)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    is_told = False
    try:
        while line := await process.stdout.readline():
            said = json.loads(line)
            assert said["name"] != "producer_send_error", said
            if said["name"] == "producer_send_success":
                note(said["partition"], said["offset"], said["value"].encode())
            if is_over() and not is_told:
                process.terminate()  # it waits for what is under way, and says how that ended
                is_told = True
    finally:
        if process.returncode is None and not is_told:
            process.kill()
        await process.wait()
    assert is_told, f"Java's producer ended by itself, with status {process.returncode}"


def main() -> None:
    warnings.simplefilter("ignore")
    client, address, topic, partitions, count = sys.argv[1:]
    where = address, topic, int(partitions), [b"%d" % number for number in range(int(count))]

    def say(partition: int, offset: int, value: bytes) -> None:
        print(partition, offset, int(value), flush=True)

    if client == "aiokafka":
        asyncio.run(with_aiokafka(*where, say))
    else:
        {"confluent-kafka": with_librdkafka, "kafka-python": with_kafka_python}[client](*where, say)


if __name__ == "__main__":
    main()
