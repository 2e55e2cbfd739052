"""Consumer groups of KIP-848, by clients that speak it: librdkafka and Java with `group.protocol=consumer`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import confluent_kafka
import pytest
from odradek.tests.support.brokers.lines import Lines
from odradek.tests.support.brokers.process import BrokerProcess, broker_process, java
from odradek.tests.support.clients.kafka_tools import kafka_tool
from odradek.tests.support.clients.others import create_topic, require

WITHIN_S = 30.0
PARTITIONS = 6
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {
        "group_consumer_min_heartbeat_interval_ms": 200,
        "group_consumer_heartbeat_interval_ms": 200,
        "group_consumer_assignment_interval_ms": 0,
    }
    process = broker_process(tmp_path_factory.mktemp("broker"), **settings).start()
    yield process.address
    process.close()


class Member:
    """A consumer of librdkafka in a thread of its own."""

    def __init__(self, address: str, group: str, topics: list[str], **options: object) -> None:
        config = {"bootstrap.servers": address, "group.id": group, "group.protocol": "consumer"}
        self._consumer = confluent_kafka.Consumer({**config, "auto.offset.reset": "earliest", **options})
        self.assigned: set[int] = set()
        self.values: list[bytes] = []
        self._stop = Event()
        self._consumer.subscribe(topics, on_assign=self._take, on_revoke=self._give)
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _take(self, _: confluent_kafka.Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self.assigned |= {each.partition for each in partitions}

    def _give(self, _: confluent_kafka.Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self.assigned -= {each.partition for each in partitions}

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.values.append(message.value() or b"")
        self._consumer.close()

    def leave(self) -> None:
        self._stop.set()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive()


@pytest.fixture
def join(address: str) -> Iterator[Callable[..., Member]]:
    members: list[Member] = []

    def start(group: str, *topics: str, **options: object) -> Member:
        members.append(Member(address, group, list(topics), **options))
        return members[-1]

    yield start
    for each in members:
        each.leave()


def until(holds: Callable[[], bool], what: Callable[[], object]) -> None:
    """Wait until something holds. `what` says how it stands if it does not in time."""
    end = monotonic() + WITHIN_S
    pause = Event()
    while not holds():
        assert monotonic() < end, what()
        pause.wait(0.02)


def produce(address: str, topic: str, count: int, first: int = 0) -> list[bytes]:
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    values = [b"%d" % number for number in range(first, first + count)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(WITHIN_S) == 0
    return values


def test_members_of_librdkafka_share_partitions_and_read_each_record_once(
    address: str, join: Callable[..., Member]
) -> None:
    create_topic(address, "shared", PARTITIONS)
    sent = produce(address, "shared", 120)
    first = join("g", "shared")
    until(lambda: len(first.values) == 120, lambda: first.values)
    second = join("g", "shared")
    until(lambda: len(first.assigned) == len(second.assigned) == 3, lambda: (first.assigned, second.assigned))
    assert not first.assigned & second.assigned
    sent += produce(address, "shared", 120, 120)
    until(lambda: len(first.values) + len(second.values) >= 240, lambda: (len(first.values), len(second.values)))
    second.leave()
    until(lambda: len(first.assigned) == PARTITIONS, lambda: first.assigned)
    first.leave()
    assert sorted(first.values + second.values) == sorted(sent)
    again = join("g", "shared")
    sent = produce(address, "shared", 6, 240)
    until(lambda: len(again.values) == 6, lambda: again.values)
    assert sorted(again.values) == sent


def test_a_new_topic_comes_to_who_subscribes_by_a_regular_expression(address: str, join: Callable[..., Member]) -> None:
    create_topic(address, "log-1", 1)
    member = join("by-regex", "^log-.*")
    produce(address, "log-1", 1)
    until(lambda: member.values == [b"0"], lambda: member.values)
    create_topic(address, "log-2", 2)
    until(lambda: member.assigned == {0, 1}, lambda: member.assigned)


def test_a_static_member_comes_back_to_its_partitions(address: str, join: Callable[..., Member]) -> None:
    create_topic(address, "static", PARTITIONS)
    one = join("static", "static", **{"group.instance.id": "one"})
    two = join("static", "static", **{"group.instance.id": "two"})
    until(lambda: len(one.assigned) == len(two.assigned) == 3, lambda: (one.assigned, two.assigned))
    before = set(one.assigned)
    one.leave()
    back = join("static", "static", **{"group.instance.id": "one"})
    until(lambda: back.assigned == before, lambda: (back.assigned, two.assigned))
    assert two.assigned == set(range(PARTITIONS)) - before


def test_java_and_librdkafka_share_a_group_and_kafkas_tool_shows_it(
    address: str, join: Callable[..., Member], tmp_path: Path
) -> None:
    require("java")
    create_topic(address, "mixed", PARTITIONS)
    produce(address, "mixed", 60)
    command = [*java(), "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", address, "--topic", "mixed"]
    command += ["--group-id", "mixed", "--group-protocol", "consumer", "--reset-policy", "earliest"]
    with (tmp_path / "java.log").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    lines = Lines(process)
    try:
        consumed = 0
        while consumed < 60:
            line = lines.next(WITHIN_S)
            assert line, (tmp_path / "java.log").read_text()[-500:]
            if line.startswith("{"):
                said = json.loads(line)
                consumed += said["count"] if said["name"] == "records_consumed" else 0
        member = join("mixed", "mixed")
        until(lambda: len(member.assigned) == 3, lambda: member.assigned)
        asked = ("--bootstrap-server", address, "--describe", "--group", "mixed")
        shown = kafka_tool(GROUPS, *asked, "--members", "--verbose")
        targets = [row.split()[-1] for row in shown.splitlines() if row.startswith("mixed")]
        assert len(targets) == 2 and all(target.startswith("mixed:") for target in targets), shown
        state = kafka_tool(GROUPS, *asked, "--state")
        assert "uniform" in state and "Stable" in state
    finally:
        process.terminate()
        process.wait(WITHIN_S)
        lines.rest()
    member.leave()
    deleted = kafka_tool(GROUPS, "--bootstrap-server", address, "--delete", "--group", "mixed")
    assert "successful" in deleted
    assert "mixed" not in kafka_tool(GROUPS, "--bootstrap-server", address, "--list")


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_moves_to_the_consumer_protocol_and_back_member_by_member(
    address: str, join: Callable[..., Member], strategy: str
) -> None:
    topic = f"moves-{strategy}"
    classic = {"group.protocol": "classic", "partition.assignment.strategy": strategy, "heartbeat.interval.ms": 200}
    create_topic(address, topic, PARTITIONS)
    members = [join(topic, topic, **classic), join(topic, topic, **classic)]
    gone: list[Member] = []

    def has_all(*members: Member) -> bool:
        parts = [each.assigned for each in members]
        size = PARTITIONS // len(members)
        return all(len(part) == size for part in parts) and len(set[int]().union(*parts)) == PARTITIONS

    def read(count: int, first: int) -> None:
        sent = produce(address, topic, count, first)
        until(lambda: set(sent) <= {value for each in members + gone for value in each.values}, lambda: len(sent))

    until(lambda: has_all(*members), lambda: [each.assigned for each in members])
    read(60, 0)
    for first in (60, 120):
        members.append(join(topic, topic))
        until(lambda: has_all(*members), lambda: [each.assigned for each in members])
        read(60, first)
        gone.append(members.pop(0))
        gone[-1].leave()
        until(lambda: has_all(*members), lambda: [each.assigned for each in members])
    members.append(join(topic, topic, **classic))
    until(lambda: has_all(*members), lambda: [each.assigned for each in members])
    while len(members) > 1:
        gone.append(members.pop(0))
        gone[-1].leave()
    until(lambda: has_all(*members), lambda: members[0].assigned)
    read(60, 180)


def test_a_group_survives_kill_9(broker: BrokerProcess) -> None:
    create_topic(broker.address, "survives", PARTITIONS)
    produce(broker.address, "survives", 60)
    member = Member(broker.address, "survives", ["survives"], **{"topic.metadata.refresh.interval.ms": 1000})
    try:
        until(lambda: len(member.values) == 60, lambda: member.values)
        broker.kill()
        broker.start()
        produce(broker.address, "survives", 60, 60)
        until(lambda: len(member.values) == 120, lambda: len(member.values))
        assert member.assigned == set(range(PARTITIONS))
    finally:
        member.leave()
