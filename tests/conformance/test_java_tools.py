"""Kafka's own administration tools, unmodified, where Java is installed and KAFKA_LIB names Kafka's jars."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.tests.support.brokers.process import BrokerProcess, java
from odradek.tests.support.clients.kafka_tools import config_command
from odradek.tests.support.clients.others import require

TOOLS = "org.apache.kafka.tools."
CONFIGS = config_command()
WITHIN_S = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require("java")
    process = BrokerProcess(tmp_path_factory.mktemp("broker")).start()
    yield process.address
    process.close()


def said(broker: str, tool: str, *arguments: str) -> str:
    """What a tool prints; it must end well."""
    name = tool if "." in tool else TOOLS + tool
    command = [*java(), name, *arguments, "--bootstrap-server", broker]
    if tool == "TransactionsCommand":
        command = [*java(), name, "--bootstrap-server", broker, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_topics(broker: str) -> None:
    said(broker, "TopicCommand", "--create", "--topic", "j", "--partitions", "2", "--config", "retention.ms=7000")
    said(broker, "TopicCommand", "--alter", "--topic", "j", "--partitions", "3")
    described = said(broker, "TopicCommand", "--describe", "--topic", "j")
    assert "PartitionCount: 3" in described and "retention.ms=7000" in described
    assert said(broker, "GetOffsetShell", "--topic", "j").split() == ["j:0:0", "j:1:0", "j:2:0"]
    said(broker, "TopicCommand", "--delete", "--topic", "j")
    assert said(broker, "TopicCommand", "--list").split() == []


def test_configs(broker: str) -> None:
    said(broker, "TopicCommand", "--create", "--topic", "c", "--partitions", "1")
    topic = ("--entity-type", "topics", "--entity-name", "c")
    said(broker, CONFIGS, "--alter", *topic, "--add-config", "segment.bytes=2000000,cleanup.policy=[compact,delete]")
    described = said(broker, CONFIGS, "--describe", *topic)
    assert "segment.bytes=2000000" in described and "cleanup.policy=compact,delete" in described
    said(broker, CONFIGS, "--alter", *topic, "--delete-config", "segment.bytes")
    assert "segment.bytes" not in said(broker, CONFIGS, "--describe", *topic)
    everyone = ("--entity-type", "brokers", "--entity-default")
    said(broker, CONFIGS, "--alter", *everyone, "--add-config", "message.max.bytes=3000000")
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=3000000" in said(broker, CONFIGS, "--describe", *everyone)
    said(broker, "TopicCommand", "--delete", "--topic", "c")


def test_records_and_the_cluster(broker: str, tmp_path: Path) -> None:
    said(broker, "TopicCommand", "--create", "--topic", "r", "--partitions", "1")
    wanted = tmp_path / "wanted.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": "r", "partition": 0, "offset": -1}], "version": 1}))
    assert "low_watermark: 0" in said(broker, "DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert "TransactionalId" in said(broker, "TransactionsCommand", "list")
    assert "ProducerId" in said(broker, "TransactionsCommand", "describe-producers", "--topic", "r", "--partition", "0")
    assert "Cluster ID" in said(broker, "ClusterTool", "cluster-id")
    said(broker, "TopicCommand", "--delete", "--topic", "r")
