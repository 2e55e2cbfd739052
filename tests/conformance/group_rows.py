"""Rows of the conformance table on groups: the transcripts against this broker and a real Kafka, and Kafka's command
for groups (ConsumerGroupCommand) against this broker.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
from odradek.tests.support.brokers.process import BrokerProcess, KafkaProcess, java
from odradek.tests.support.clients.others import create_topic, jars

ROOT = Path(__file__).parents[2]
TRANSCRIPTS = "tests/broker/coordination/groups/test_on_the_wire.py"
TRANSCRIPTS_WITHIN_S = 300
COMMAND_WITHIN_S = 60
CONSUMED_WITHIN_S = 30.0
PARTITIONS, RECORDS = 2, 20
TOPIC, GROUP = "commanded", "commanded"

Row = tuple[str, str]


def rows(process: BrokerProcess) -> Iterator[Row]:
    """Differences that are meant stand in docs/differences-from-kafka.md, and unlike_kafka.txt is not played."""
    yield "Transcripts of groups: this broker", played(process.address)
    if not jars():
        yield "Transcripts of groups: Kafka", "skipped: no KAFKA_LIB"
        yield "ConsumerGroupCommand", "skipped: no KAFKA_LIB"
        return
    with tempfile.TemporaryDirectory() as folder:
        kafka = KafkaProcess(Path(folder), group_initial_rebalance_delay_ms=0).start()
        try:
            yield "Transcripts of groups: Kafka", played(kafka.address)
        finally:
            kafka.close()
    yield from commands(process.address)


def played(address: str) -> str:
    """Every scene that a client can play, played against the broker at `address`."""
    environment = os.environ | {"ODRADEK_TEST_GROUPS_AT": address, "COLUMNS": "200"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TRANSCRIPTS]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TRANSCRIPTS_WITHIN_S, check=False
    )
    passed = re.search(r"(\d+) passed", done.stdout)
    if done.returncode == 0 and passed:
        return f"passed: {passed[1]} scenes"
    failed = re.findall(r"^FAILED \S+?\[(\S+?)\]", done.stdout, re.MULTILINE)
    return f"failed: {', '.join(failed) or done.stdout[-200:]}"


def commands(address: str) -> Iterator[Row]:
    """A group with two members and a lag, then without members."""
    topic = create_topic(address, TOPIC, PARTITIONS)
    produce(address, topic)
    members = [member(address, topic) for _ in range(2)]
    try:
        wait_until_shared(members)
        told = tool(address, "--list")
        yield row("--list", [GROUP] if GROUP in told.split() else [], [GROUP])
        told = tool(address, "--describe", "--group", GROUP, "--members", "--verbose")
        yield row("--describe --members --verbose", sorted(re.findall(r"commanded\(([01])\)|:([01])\b", told)), 2)
        told = tool(address, "--describe", "--group", GROUP, "--state")
        yield row(
            "--describe --state", re.findall(r"(\S+)\s+(Stable)\s+(2)\s*$", told, re.M), [("range", "Stable", "2")]
        )
        yield row("--describe --offsets", sorted(offsets(address)), [("0", "5", "10", "5"), ("1", "10", "10", "0")])
    finally:
        for each in members:
            each.close()
    told = tool(address, *reset("--to-earliest", "--dry-run"))
    yield row("--reset-offsets --dry-run", new_offsets(told), {"0": "0", "1": "0"})
    yield row("nothing was changed by it", sorted(offsets(address))[0][1], "5")
    told = tool(address, *reset("--shift-by", "-3", "--execute"))
    yield row("--reset-offsets --execute", new_offsets(told), {"0": "2", "1": "7"})
    yield row("it was done", [each[1] for each in sorted(offsets(address))], ["2", "7"])
    told = tool(address, "--delete-offsets", "--group", GROUP, "--topic", f"{TOPIC}:0")
    yield row("--delete-offsets", [each[:2] for each in offsets(address) if each[1] != "-"], [("1", "7")])
    tool(address, "--delete", "--group", GROUP)
    yield row("--delete", GROUP in tool(address, "--list").split(), False)


def row(name: str, found: object, expected: object) -> Row:
    """An expected number means so many of them."""
    as_expected = len(found) == expected if type(expected) is int and isinstance(found, list) else found == expected
    return f"ConsumerGroupCommand {name}", "passed" if as_expected else f"failed: {found}, not {expected}"


def reset(*how: str) -> list[str]:
    return ["--reset-offsets", "--group", GROUP, "--topic", TOPIC, *how]


def tool(address: str, *arguments: str) -> str:
    command = [*java(), "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"]
    command += ["--bootstrap-server", address, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_WITHIN_S, check=False)
    assert done.returncode == 0 and "Error" not in done.stdout, (
        f"{arguments[0]}: {done.stdout[-300:]}{done.stderr[-300:]}"
    )
    return done.stdout


def offsets(address: str) -> list[tuple[str, str, str, str]]:
    """(partition, committed, end, lag) as `--describe --offsets` shows them."""
    told = tool(address, "--describe", "--group", GROUP, "--offsets")
    return re.findall(rf"{TOPIC}\s+(\d+)\s+(\d+|-)\s+(\d+)\s+(\d+|-)", told)


def new_offsets(told: str) -> dict[str, str]:
    return dict(re.findall(rf"{TOPIC}\s+(\d+)\s+(\d+)", told))


def produce(address: str, topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    for number in range(RECORDS):
        producer.produce(topic, b"x", partition=number % PARTITIONS)
    assert producer.flush(CONSUMED_WITHIN_S) == 0


def member(address: str, topic: str) -> confluent_kafka.Consumer:
    settings = {"bootstrap.servers": address, "group.id": GROUP, "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings | {"partition.assignment.strategy": "range"})
    consumer.subscribe([topic])
    return consumer


def wait_until_shared(members: list[confluent_kafka.Consumer]) -> None:
    """Each has a partition; half of partition 0 is committed, and all of partition 1."""
    for _ in range(int(CONSUMED_WITHIN_S / 0.2)):
        for each in members:
            each.poll(0.1)
        if all(len(each.assignment()) == 1 for each in members):
            break
    for each in members:
        for place in each.assignment():
            place.offset = RECORDS // PARTITIONS // (1 if place.partition else 2)
            each.commit(offsets=[place], asynchronous=False)
