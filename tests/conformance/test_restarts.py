"""The broker is killed and restarted under producers: what was acknowledged is there, once, where it was said to be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from odradek.tests.support.brokers.lines import Lines
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clients import keepers
from odradek.tests.support.clients.others import create_topic, messages

COUNT = 3_000
PARTITIONS = 2
WITHIN_S = 40.0

Place = tuple[int, int]


@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python", "aiokafka"])
def test_nothing_acknowledged_is_lost_and_nothing_comes_twice(
    broker: BrokerProcess, tmp_path: Path, client: str
) -> None:
    topic = create_topic(broker.address, "steady", PARTITIONS)
    command = [sys.executable, keepers.__file__, client, broker.address, topic, str(PARTITIONS), str(COUNT)]
    acknowledged: dict[Place, int] = {}
    with (tmp_path / "producer.log").open("w") as errors:
        producer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    lines = Lines(producer)
    try:
        acknowledge(lines, acknowledged, COUNT // 3)
        broker.kill()
        broker.start()
        acknowledge(lines, acknowledged, COUNT * 2 // 3)
        broker.stop()
        broker.start()
        acknowledge(lines, acknowledged, COUNT)
        assert producer.wait(WITHIN_S) == 0
    finally:
        producer.kill()
        producer.wait()
        lines.rest()
        print((tmp_path / "producer.log").read_text()[-3000:])
    found = messages(broker.address, topic, range(PARTITIONS))
    stored = {(each.partition(), each.offset()): int(each.value()) for each in found}
    assert acknowledged.items() <= stored.items(), "an acknowledged record is not where it was said to be"
    assert sorted(stored.values()) == list(range(COUNT)), "a number is missing or comes twice"


def acknowledge(lines: Lines, acknowledged: dict[Place, int], up_to: int) -> None:
    """Reads the acknowledgements until there are `up_to`."""
    while len(acknowledged) < up_to:
        line = lines.next(WITHIN_S)
        assert line, f"the producer {'waits' if line is None else 'ended'} after {len(acknowledged)}"
        partition, offset, number = map(int, line.split())
        acknowledged[partition, offset] = number
