"""Kills a broker process (-9) under an idempotent producer, by a seed; then checks that acknowledged records are there.

`run(folder, seed)`: two kills at random moments while confluent-kafka sends numbers with acks=all over small segments.
Every number must be there once, in order, at the offset of its acknowledgement. Afterwards the broker stops cleanly,
and `odradek log verify` finds no fault.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import confluent_kafka
from odradek.storage.checkpoints import RECOVERY_POINT, read_offsets
from odradek.storage.integrity import verify
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clients.others import create_topic, messages

COUNT = 4_000
PARTITIONS = 2
KILLS = 2
WITHIN_S = 60.0
# Small enough that some segments fill up.
SETTINGS = {
    "log_segment_bytes": 1 << 20,
    "log_flush_offset_checkpoint_interval_ms": 100,
    "group_initial_rebalance_delay_ms": 0,
}

Place = tuple[int, int]


class Load:
    """A producer, and the acknowledgements that it got."""

    def __init__(self, address: str, topic: str, chance: random.Random) -> None:
        self.acknowledged: dict[Place, int] = {}
        self._errors: list[str] = []
        self._topic = topic
        self._chance = chance
        self._next = 0
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": address, "enable.idempotence": True, "acks": "all", "linger.ms": 1, "log_level": 0,
             "reconnect.backoff.max.ms": 200}
        )  # fmt: skip

    def send(self, up_to: int, acknowledged: int) -> None:
        """Send so many numbers, some hundred in flight, and return when all are acknowledged."""
        deadline = time.monotonic() + WITHIN_S
        while self._next < up_to or len(self.acknowledged) < acknowledged:
            assert not self._errors, self._errors[:3]
            assert time.monotonic() < deadline, f"{len(self.acknowledged)} of {acknowledged} in {WITHIN_S} s"
            if self._next < up_to and len(self._producer) < 300:
                value = b"%d " % self._next + b"x" * self._chance.randrange(1500)
                self._producer.produce(
                    self._topic, value, partition=self._next % PARTITIONS, on_delivery=self._delivered
                )
                self._next += 1
            self._producer.poll(0 if self._next % 50 and self._next < up_to else 0.01)

    def _delivered(self, error: Any, message: confluent_kafka.Message) -> None:
        if error:
            self._errors.append(str(error))
            return
        place = message.partition(), message.offset()
        assert place not in self.acknowledged, f"two records at {place}"
        self.acknowledged[place] = number_in(message)


def number_in(message: confluent_kafka.Message) -> int:
    return int(message.value().split(b" ", 1)[0])


def everything(address: str, topic: str) -> dict[Place, int]:
    """Return all records of the topic by partition and offset, after a check of their CRCs."""
    return {(each.partition(), each.offset()): number_in(each) for each in messages(address, topic, range(PARTITIONS))}


def run(folder: Path, seed: int) -> None:
    """Run it. Raises AssertionError if an acknowledged number is missing, comes twice, or is at another offset."""
    chance = random.Random(seed)
    broker = BrokerProcess(folder, **SETTINGS).start()
    try:
        topic = create_topic(broker.address, "killed", PARTITIONS)
        load = Load(broker.address, topic, chance)
        for moment in sorted(chance.randrange(100, COUNT - 100) for _ in range(KILLS)):
            load.send(min(moment + 300, COUNT), moment)
            broker.kill()
            broker.start()
        load.send(COUNT, COUNT)
        stored = everything(broker.address, topic)
        assert load.acknowledged == stored, "an acknowledged record is not where it was said to be"
        for partition in range(PARTITIONS):
            numbers = [stored[place] for place in sorted(stored) if place[0] == partition]
            assert numbers == list(range(partition, COUNT, PARTITIONS)), "a number is missing, twice or out of order"
    finally:
        broker.close()
    points = read_offsets(broker.data_dir / RECOVERY_POINT)
    for index in range(PARTITIONS):
        assert list(verify(broker.data_dir / f"{topic}-{index}", points[topic, index])) == []
