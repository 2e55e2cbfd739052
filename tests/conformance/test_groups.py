"""A group of three members, each another client: one leaves, one is killed, the last has everything."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from odradek.tests.support.brokers.lines import Lines
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clients import crowd
from odradek.tests.support.clients.others import create_topic

PARTITIONS = 6
A_WAVE = 300
WITHIN_S = 30.0
SESSION_TIMEOUT_MS = "3000"
CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka")

Place = tuple[int, int]


class Member:
    """A member's process and what it said so far."""

    def __init__(self, client: str, address: str, group: str, topic: str, log: Path) -> None:
        command = [sys.executable, crowd.__file__, client, "1", address, group, topic, SESSION_TIMEOUT_MS, "calm"]
        self.client = client
        with log.open("w") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.assigned: list[int] = []
        self.consumed: list[Place] = []
        self.has_ended = False
        self._lines = Lines(self.process)

    def listen(self, within_s: float) -> None:
        """Hears what it has said by now, or says in time."""
        while line := self._lines.next(within_s):
            self.hear(line)
            within_s = 0

    def hear(self, line: str) -> None:
        said = json.loads(line)
        assert "failed" not in said, said["failed"]
        self.assigned = said.get("assigned", self.assigned)
        self.consumed += [(partition, offset) for partition, offset in said.get("consumed", [])]

    def leave(self) -> None:
        self.process.terminate()
        assert self.process.wait(WITHIN_S) == 0, f"{self.client} did not leave in order"

    def end(self) -> None:
        """Kills it if it still runs, and hears what it said last. A second call does nothing."""
        self.process.kill()
        self.process.wait()
        if not self.has_ended:
            self.has_ended = True
            for line in self._lines.rest():
                self.hear(line)


# join(client, group, topic)
Join = Callable[[str, str, str], Member]


@pytest.fixture
def join(address: str, tmp_path: Path) -> Iterator[Join]:
    """Starts members, and ends them behind the test."""
    started: list[Member] = []

    def start(client: str, group: str, topic: str) -> Member:
        member = Member(client, address, group, topic, tmp_path / f"{group.strip('^.*')}-{client}.log")
        started.append(member)
        return member

    yield start
    for member in started:
        member.end()


def side_by_side(case: Callable[[str], None]) -> None:
    """Run a case for each client at the same time: their members mostly wait. Raises what the first to fail raises."""
    with ThreadPoolExecutor(len(CLIENTS)) as pool:
        for ended in [pool.submit(case, client) for client in CLIENTS]:
            ended.result()


def wait_until(members: list[Member], condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {WITHIN_S} s: {what}; " + ", ".join(
            f"{member.client} has {member.assigned}, consumed {len(member.consumed)}" for member in members
        )
        for member in members:
            member.listen(0.05)


def share_all(members: list[Member], *counts: int) -> Callable[[], bool]:
    """They have, in equal parts, all partitions of one topic, or of topics with so many partitions each."""
    everything = sorted(partition for count in counts or (PARTITIONS,) for partition in range(count))

    def condition() -> bool:
        parts = [member.assigned for member in members]
        given = sorted(partition for part in parts for partition in part)
        return given == everything and len({len(part) for part in parts}) == 1

    return condition


def produce_wave(address: str, topic: str) -> dict[int, int]:
    """A wave of records over all partitions; the end offset of each partition."""
    ends: dict[int, int] = {}

    def delivered(error: object, message: confluent_kafka.Message) -> None:
        assert error is None
        ends[message.partition()] = max(ends.get(message.partition(), 0), message.offset() + 1)

    producer = confluent_kafka.Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for number in range(A_WAVE):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=delivered)
    assert producer.flush(WITHIN_S) == 0
    return ends


def test_three_share_one_leaves_one_is_killed(address: str, join: Join) -> None:
    side_by_side(lambda client: three_share(address, join, CLIENTS.index(client)))


def three_share(address: str, join: Join, stays: int) -> None:
    stay, leave, kill = (CLIENTS[(stays + turn) % 3] for turn in range(3))
    topic, group = create_topic(address, f"three-{stays}", PARTITIONS), f"three-{stays}"
    three = [join(client, group, topic) for client in (stay, leave, kill)]
    staying, leaving, killed = three
    wait_until(three, share_all(three), "three share the partitions")
    produce_wave(address, topic)
    everything = {(partition, offset) for partition in range(PARTITIONS) for offset in range(A_WAVE // PARTITIONS)}
    wait_until(three, lambda: everything <= consumed_by(three), "three consume a wave")
    assert sum(len(member.consumed) for member in three) == A_WAVE, "in a quiet group nothing comes twice"

    leaving.leave()
    wait_until([staying, killed], share_all([staying, killed]), "two share what three had")
    killed.process.kill()
    ends = produce_wave(address, topic)
    wait_until([staying], share_all([staying]), "one has what two had")
    everything = {(partition, offset) for partition, end in ends.items() for offset in range(end)}
    wait_until([staying], lambda: everything <= consumed_by(three), "the last consumes the second wave")
    leaving.end()
    assert len(staying.consumed) == len(set(staying.consumed)), "nothing comes twice to the same member"


def consumed_by(members: list[Member]) -> set[Place]:
    return {place for member in members for place in member.consumed}


def test_a_raised_partition_count_is_shared_out(address: str, join: Join) -> None:
    raised = PARTITIONS + 2
    admin = AdminClient({"bootstrap.servers": address})

    def raise_count(leads: str) -> None:
        topic = create_topic(address, f"raised-{leads}", PARTITIONS)
        two = led_by(leads, join, topic)
        admin.create_partitions([NewPartitions(topic, raised)])[topic].result(WITHIN_S)
        wait_until(two, share_all(two, raised), f"{leads} shares out the new partitions")

    side_by_side(raise_count)


def test_a_new_topic_that_fits_the_pattern_is_shared_out(address: str, join: Join) -> None:
    def add_topic(leads: str) -> None:
        create_topic(address, f"fits-{leads}-1", PARTITIONS)
        two = led_by(leads, join, f"^fits-{leads}-.*")
        create_topic(address, f"fits-{leads}-2", 2)
        wait_until(two, share_all(two, PARTITIONS, 2), f"{leads} shares out the new topic")

    side_by_side(add_topic)


def led_by(leads: str, join: Join, topic: str) -> list[Member]:
    """A member of that client, and another one who came later, in a group of two."""
    other = CLIENTS[(CLIENTS.index(leads) + 1) % len(CLIENTS)]
    leader = join(leads, f"group-of-{topic.lstrip('^')}", topic)
    wait_until([leader], share_all([leader]), "the first has everything")
    two = [leader, join(other, f"group-of-{topic.lstrip('^')}", topic)]
    wait_until(two, share_all(two), "two share the partitions")
    return two


def test_a_group_lives_on_when_the_broker_is_killed(broker: BrokerProcess, tmp_path: Path) -> None:
    topic = create_topic(broker.address, "survives", PARTITIONS)
    two = [
        Member(client, broker.address, "survivors", topic, tmp_path / f"{client}.log")
        for client in ("confluent-kafka", "kafka-python")
    ]
    try:
        wait_until(two, share_all(two), "two share the partitions")
        produce_wave(broker.address, topic)
        everything = {(partition, offset) for partition in range(PARTITIONS) for offset in range(A_WAVE // PARTITIONS)}
        wait_until(two, lambda: everything <= consumed_by(two), "two consume a wave")
        broker.kill()
        broker.start()
        ends = produce_wave(broker.address, topic)
        everything = {(partition, offset) for partition, end in ends.items() for offset in range(end)}
        wait_until(two, lambda: everything <= consumed_by(two), "two consume the second wave")
        assert sum(len(member.consumed) for member in two) == 2 * A_WAVE, "committed offsets are not consumed again"
    finally:
        for member in two:
            member.end()
