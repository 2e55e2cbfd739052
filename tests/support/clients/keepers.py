"""Producers of other libraries that send numbered records to one topic until they are told to end.

A value is the number of its sender, a space (a dot from Java) and the number of the record. What the broker has
acknowledged goes to `note` (partition, offset, value). A record that it does not acknowledge fails the run.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
from odradek.tests.support.brokers.process import java

Note = Callable[[int, int, bytes], None]

# A client that is under way when the broker dies needs so long at most to go on.
PATIENCE_S = 60
A_BURST = 100
BETWEEN_BURSTS_S = 0.05
PADDING = b" " * 500
JAVA_RECORDS_A_SECOND = 1_000


def with_librdkafka(address: str, topic: str, partitions: int, is_over: Callable[[], bool], note: Note) -> None:
    """Send as sender 9, from a thread."""

    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        note(message.partition(), message.offset(), message.value().rstrip())

    options = {"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0}
    producer = confluent_kafka.Producer({**options, "reconnect.backoff.max.ms": 500})
    for number in itertools.count():
        if is_over():
            break
        producer.produce(topic, b"9 %d" % number + PADDING, partition=number % partitions, on_delivery=delivered)
        if not number % A_BURST:
            producer.poll(BETWEEN_BURSTS_S)
    assert producer.flush(PATIENCE_S) == 0


async def with_aiokafka(address: str, topic: str, partitions: int, is_over: Callable[[], bool], note: Note) -> None:
    """Send as sender 8, a burst at a time."""
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=address, enable_idempotence=True, request_timeout_ms=PATIENCE_S * 1000
    )
    async with producer:
        for first in itertools.count(step=A_BURST):
            if is_over():
                return
            values = [b"8 %d" % number for number in range(first, first + A_BURST)]
            sent = [
                await producer.send(topic, each + PADDING, partition=at % partitions) for at, each in enumerate(values)
            ]
            for value, metadata in zip(values, await asyncio.gather(*sent), strict=True):
                note(metadata.partition, metadata.offset, value)
            await asyncio.sleep(BETWEEN_BURSTS_S)


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
