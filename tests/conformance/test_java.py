"""Kafka's own VerifiableProducer and VerifiableConsumer, where Java is installed and KAFKA_LIB names Kafka's jars."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.tests.support.brokers.lines import Lines
from odradek.tests.support.brokers.process import BrokerProcess, java
from odradek.tests.support.clients.others import create_topic, require

PARTITIONS = 6
COUNT = 8_000
RECORDS_A_SECOND = 4_000
WITHIN_S = 60.0
A_MOMENT_S = 0.02

Place = tuple[int, int]


@pytest.fixture(autouse=True)
def needs_java() -> None:
    require("java")


class Tool:
    """One of Kafka's verifiable tools, which say what they do in JSON lines."""

    def __init__(self, name: str, log: Path, *arguments: object) -> None:
        command = [*java(), f"org.apache.kafka.tools.{name}", *map(str, arguments)]
        with log.open("w") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.lines = Lines(self.process)
        self.assigned: set[int] = set()
        self.consumed: list[Place] = []
        self.acknowledged: dict[Place, str] = {}

    def listen(self) -> None:
        """Hears what it has said by now."""
        within_s = A_MOMENT_S
        while line := self.lines.next(within_s):
            self.hear(json.loads(line))
            within_s = 0

    def hear(self, said: dict[str, Any]) -> None:
        name = said["name"]
        if name == "producer_send_success":
            self.acknowledged[said["partition"], said["offset"]] = said["value"]
        elif name == "producer_send_error":
            raise AssertionError(said)
        elif name == "partitions_revoked":
            self.assigned -= {place["partition"] for place in said["partitions"]}
        elif name == "partitions_assigned":
            self.assigned |= {place["partition"] for place in said["partitions"]}
        elif name == "records_consumed":
            for part in said["partitions"]:
                self.consumed += [(part["partition"], at) for at in range(part["minOffset"], part["maxOffset"] + 1)]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.lines.rest()


Start = Callable[..., Tool]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts tools, and ends them behind the test."""
    started: list[Tool] = []

    def run(name: str, *arguments: object) -> Tool:
        started.append(Tool(name, tmp_path / f"tool-{len(started)}.log", *arguments))
        return started[-1]

    yield run
    for tool in started:
        tool.end()


def wait_until(tools: list[Tool], condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        states = [(sorted(tool.assigned), len(tool.consumed), len(tool.acknowledged)) for tool in tools]
        assert time.monotonic() < deadline, f"not within {WITHIN_S} s: {what}; {states}"
        for tool in tools:
            tool.listen()


def consumer(start: Start, address: str, topic: str, group: str) -> Tool:
    where = ("--bootstrap-server", address, "--topic", topic, "--group-id", group)
    return start("VerifiableConsumer", *where, "--reset-policy", "earliest", "--session-timeout", 6000)


def producer(start: Start, address: str, topic: str, count: int, *options: object) -> Tool:
    where = ("--bootstrap-server", address, "--topic", topic, "--acks", -1)
    return start("VerifiableProducer", *where, "--max-messages", count, "--throughput", RECORDS_A_SECOND, *options)


def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(
    broker: BrokerProcess, start: Start, tmp_path: Path
) -> None:
    topic = create_topic(broker.address, "java", PARTITIONS)
    retrying = tmp_path / "producer.properties"
    retrying.write_text("retries=2147483647\n")  # The tool's own default is to give up at once.
    source = producer(start, broker.address, topic, COUNT, "--command-config", retrying)
    wait_until([source], lambda: len(source.acknowledged) >= COUNT // 3, "a third is acknowledged")
    broker.kill()
    broker.start()
    wait_until([source], lambda: len(source.acknowledged) >= COUNT * 2 // 3, "two thirds are acknowledged")
    broker.stop()
    broker.start()
    wait_until([source], lambda: len(source.acknowledged) == COUNT, "all is acknowledged")
    assert sorted(map(int, source.acknowledged.values())) == list(range(COUNT))
    sink = consumer(start, broker.address, topic, "java")
    wait_until([sink], lambda: len(sink.consumed) >= COUNT, "all is consumed")
    assert sorted(sink.consumed) == sorted(source.acknowledged), "each record once, where it was said to be"


def test_three_share_one_leaves_one_is_killed(address: str, start: Start) -> None:
    topic = create_topic(address, "three-of-java", PARTITIONS)
    three = [consumer(start, address, topic, "three-of-java") for _ in range(3)]
    stays, leaves, killed = three

    def shared_by(*members: Tool) -> Callable[[], bool]:
        part = PARTITIONS // len(members)
        return lambda: (
            all(len(member.assigned) == part for member in members)
            and set().union(*(member.assigned for member in members)) == set(range(PARTITIONS))
        )

    wait_until(three, shared_by(*three), "three share the partitions")
    first = producer(start, address, topic, 1_000)
    wait_until([*three, first], lambda: len(consumed_by(three)) == 1_000, "three consume a wave")
    leaves.process.terminate()
    wait_until([stays, killed], shared_by(stays, killed), "two share what three had")
    killed.process.kill()
    second = producer(start, address, topic, 1_000)
    wait_until([stays, second], shared_by(stays), "one has what two had")
    wait_until([stays, second], lambda: len(consumed_by(three)) == 2_000, "the last consumes the second wave")


def consumed_by(tools: list[Tool]) -> set[Place]:
    return {place for tool in tools for place in tool.consumed}
