"""Java's share consumers against this broker, where Java is installed and KAFKA_LIB names Kafka's jars."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from typing import Any

import pytest
from odradek.client.blocking import Producer
from odradek.tests.support.clients import create_topic, require
from odradek.tests.support.process import java

TOOLS = "org.apache.kafka.tools."
WITHIN_S = 90
COUNT = 1_000


def ran(address: str, tool: str, *arguments: str) -> str:
    """Return what a tool prints; it must end well."""
    require("java")
    command = [*java(), TOOLS + tool, "--bootstrap-server", address, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def filled(address: str, topic: str) -> str:
    create_topic(address, topic, 2)
    with Producer(address) as producer:
        producer.send_many(topic, ((None, b"%d" % number) for number in range(COUNT)))
    return topic


def offsets(lines: list[dict[str, Any]], name: str) -> Counter[tuple[int, int]]:
    """Return how often each record is told of, by partition and offset."""
    told = (part for line in lines if line["name"] == name for part in line["partitions"])
    return Counter((part["partition"], offset) for part in told for offset in part["offsets"])


@pytest.mark.parametrize("mode", ["auto", "sync", "async"])
def test_verifiable_share_consumer(address: str, mode: str) -> None:
    topic = filled(address, f"share-{mode}")
    arguments = ["--topic", topic, "--group-id", topic, "--offset-reset-strategy", "earliest"]
    arguments += ["--max-messages", str(COUNT), "--acknowledgement-mode", mode]
    lines = [json.loads(line) for line in ran(address, "VerifiableShareConsumer", *arguments).splitlines()]
    for name in ("records_consumed", "offsets_acknowledged"):
        seen = offsets(lines, name)
        assert (len(seen), set(seen.values())) == (COUNT, {1}), name
    described = ran(address, "consumer.group.ShareGroupCommand", "--describe", "--group", topic)
    lags = [line.split()[-1] for line in described.splitlines() if line.startswith(topic)]
    assert lags == ["0", "0"]


def test_console_share_consumer(address: str) -> None:
    topic = filled(address, "share-console")
    configs = ["--alter", "--entity-type", "groups", "--entity-name", topic]
    configs += ["--add-config", "share.auto.offset.reset=earliest"]
    require("java")
    subprocess.run(
        [*java(), "kafka.admin.ConfigCommand", "--bootstrap-server", address, *configs], check=True, timeout=WITHIN_S
    )
    arguments = ["--topic", topic, "--group", topic, "--max-messages", str(COUNT)]
    printed = ran(address, "consumer.ConsoleShareConsumer", *arguments)
    assert sorted(printed.split()) == sorted(str(number) for number in range(COUNT))
