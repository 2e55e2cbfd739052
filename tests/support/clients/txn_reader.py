"""A read_committed consumer that prints each record it gets, one JSON event a line: txn_reader.py CLIENT HOST:PORT NAME

Reads every partition of topic `history` from offset 0 until SIGTERM. Its fetches are small, so that they cut
transactions everywhere.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time

import confluent_kafka
from odradek.client import Consumer, TopicPartition
from odradek.tests.support.clients.txn_writer import PARTITIONS, TOPIC


def say(partition: int, offset: int, value: bytes) -> None:
    print(json.dumps([partition, offset, value.decode(), time.monotonic_ns()]), flush=True)


def with_confluent(address: str, name: str) -> None:
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": name,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
            "reconnect.backoff.max.ms": 200,
            "fetch.message.max.bytes": 300,
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    while not stopped:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            say(message.partition(), message.offset(), message.value())
    consumer.close()


async def with_odradek(address: str) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    quick = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 200, "fetch_max_wait_ms": 50}
    consumer = Consumer(
        bootstrap_servers=address, isolation_level="read_committed", max_partition_fetch_bytes=300, **quick
    )
    async with consumer:
        consumer.assign([TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)])
        for partition in range(PARTITIONS):
            consumer.seek(TopicPartition(TOPIC, partition), 0)
        while not stopped.is_set():
            for records in (await consumer.getmany(timeout_ms=100)).values():
                for record in records:
                    say(record.partition, record.offset, record.value or b"")


def main() -> None:
    client, address, name = sys.argv[1:]
    if client == "odradek":
        asyncio.run(with_odradek(address))
    else:
        with_confluent(address, name)


if __name__ == "__main__":
    main()
