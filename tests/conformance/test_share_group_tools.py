"""Share groups with Kafka's own consumers and tools, where Java is installed and KAFKA_LIB names its jars."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from odradek.client import ConfigResource, NewTopic, TopicPartition
from odradek.client.blocking import Admin, Consumer, Producer
from odradek.tests.conformance.test_java_tools import CONFIGS, TOOLS, said
from odradek.tests.support.brokers.process import BrokerProcess, java
from odradek.tests.support.clients.others import require

GROUPS = "consumer.group.ShareGroupCommand"
RECORDS = 1000
WITHIN_S = 90


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require("java")
    process = BrokerProcess(tmp_path_factory.mktemp("broker")).start()
    yield process.address
    process.close()


def tool(broker: str, *arguments: str) -> list[str]:
    """The lines that kafka-share-groups prints, without blank ones."""
    return [line for line in said(broker, TOOLS + GROUPS, *arguments).splitlines() if line.strip()]


def offsets(broker: str) -> dict[str, tuple[str, str]]:
    """Partition -> (start offset, lag) of group sg, as the tool prints them."""
    rows = [line.split() for line in tool(broker, "--describe", "--group", "sg") if line.startswith("sg ")]
    return {row[2]: (row[3], row[4]) for row in rows}


def consume(broker: str, *arguments: str) -> list[Any]:
    """What Java's share consumer says of its work, as JSON."""
    command = [*java(), f"{TOOLS}VerifiableShareConsumer", "--bootstrap-server", broker, "--topic", "j", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=True)
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]


def test_a_share_group_from_its_first_record_to_its_deletion(broker: str) -> None:
    said(broker, "TopicCommand", "--create", "--topic", "j", "--partitions", "2")
    group = ("--entity-type", "groups", "--entity-name", "sg")
    said(broker, CONFIGS, "--alter", *group, "--add-config", "share.auto.offset.reset=earliest")
    with Producer(broker) as producer:
        producer.send_many("j", ((None, b"%d" % number) for number in range(RECORDS)))
    heard = consume(broker, "--group-id", "sg", "--max-messages", str(RECORDS), "--acknowledgement-mode", "sync")
    counts = {name: sum(each["count"] for each in heard if each["name"] == name)
              for name in ("records_consumed", "offsets_acknowledged")}  # fmt: skip
    assert counts == {"records_consumed": RECORDS, "offsets_acknowledged": RECORDS}

    assert tool(broker, "--list") == ["sg"]
    assert {lag for _, lag in offsets(broker).values()} == {"0"}
    assert "Empty" in tool(broker, "--describe", "--group", "sg", "--state")[-1]
    assert "Share" in said(broker, "GroupsCommand", "--list")
    tool(broker, "--reset-offsets", "--group", "sg", "--topic", "j", "--to-earliest", "--execute")
    assert sum(int(lag) for _, lag in offsets(broker).values()) == RECORDS

    again = consume(broker, "--group-id", "sg", "--max-messages", str(RECORDS), "--acknowledgement-mode", "async")
    assert sum(each["count"] for each in again if each["name"] == "records_consumed") == RECORDS
    tool(broker, "--delete-offsets", "--group", "sg", "--topic", "j")
    assert offsets(broker) == {}
    tool(broker, "--delete", "--group", "sg")
    assert tool(broker, "--list") == []


def test_what_javas_consumer_rejects_is_a_dead_letter(broker: str) -> None:
    flag = {"errors.deadletterqueue.group.enable": "true"}
    configs = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": "dlq.r"}
    with Admin(broker) as admin:
        admin.create_topics([NewTopic("r", 1), NewTopic("dlq.r", 1, configs=flag)])
        admin.alter_configs({ConfigResource.group("rg"): configs})
    with Producer(broker) as producer:
        producer.send_many("r", ((None, b"%d" % number) for number in range(5)))
    command = [*java(), f"{TOOLS}consumer.ConsoleShareConsumer", "--bootstrap-server", broker, "--topic", "r"]
    command += ["--group", "rg", "--reject", "--max-messages", "5", "--timeout-ms", "60000"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=True)
    assert ended.stdout.split() == ["0", "1", "2", "3", "4"]
    with Consumer(bootstrap_servers=broker, auto_offset_reset="earliest") as reader:
        reader.assign([TopicPartition("dlq.r", 0)])
        headers = [dict(reader.getone().headers) for _ in range(5)]
    assert [each["__dlq.errors.offset"] for each in headers] == [b"0", b"1", b"2", b"3", b"4"]
    assert {each["__dlq.errors.message"] for each in headers} == {b"Offset rejected by client."}
