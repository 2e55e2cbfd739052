"""A read_committed consumer that prints each record it gets, one JSON event a line: python txn_reader.py HOST:PORT NAME

Reads every partition of topic `history` from offset 0 until SIGTERM. Its fetches are small, so that they cut
transactions everywhere.
"""

from __future__ import annotations

import json
import signal
import sys
import time

import confluent_kafka
from odradek.tests.support.txn_writer import PARTITIONS, TOPIC


def main() -> None:
    address, name = sys.argv[1:]
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
            value = message.value().decode()
            print(json.dumps([message.partition(), message.offset(), value, time.monotonic_ns()]), flush=True)
    consumer.close()


if __name__ == "__main__":
    main()
