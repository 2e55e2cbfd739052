"""The tools of Apache Kafka 3.9.1 on a cluster of ours: topics, configs, reassignments and elections.

Needs Java and the jars of Kafka 3.9.1 (KAFKA39_LIB).
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from odradek.tests.support.clusters.cluster import cluster_processes
from odradek.tests.support.clusters.zookeeper import why_missing

WAIT_S = 60
WITHOUT_JARS = why_missing() or ("" if os.environ.get("KAFKA39_LIB") else "set KAFKA39_LIB")
pytestmark = pytest.mark.skipif(bool(WITHOUT_JARS), reason=WITHOUT_JARS)


def java(*arguments: str) -> list[str]:
    """The command that runs a class of Kafka 3.9.1."""
    return ["java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-cp", f"{os.environ['KAFKA39_LIB']}/*", *arguments]


def until(is_true: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.2)


def test_kafkas_tools_work_on_our_cluster(tmp_path: Path) -> None:
    with cluster_processes(tmp_path) as cluster:

        def tool(name: str, *arguments: str) -> str:
            command = java(name, "--bootstrap-server", cluster.addresses, *arguments)
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        topics, configs = "org.apache.kafka.tools.TopicCommand", "kafka.admin.ConfigCommand"
        moves = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
        assert "Created topic t." in tool(topics, "--create", "--topic", "t", "--replica-assignment", "1:2,2:3")
        added = tool(
            configs, "--alter", "--entity-type", "topics", "--entity-name", "t", "--add-config", "retention.ms=99000"
        )
        assert "Completed updating" in added
        tool(
            configs,
            "--alter",
            "--entity-type",
            "brokers",
            "--entity-default",
            "--add-config",
            "message.max.bytes=200000",
        )
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2]}]}))
        begun = tool(moves, "--reassignment-json-file", str(plan), "--execute", "--throttle", "1000000")
        assert "Successfully started" in begun and "throttle" in begun
        assert "throttled.rate=1000000" in tool(configs, "--describe", "--entity-type", "brokers", "--entity-name", "3")
        # The end of the move removes the throttles.
        until(lambda: "is completed" in tool(moves, "--reassignment-json-file", str(plan), "--verify"))
        for entity in (("topics", "t"), ("brokers", "3")):
            left = tool(configs, "--describe", "--entity-type", entity[0], "--entity-name", entity[1])
            assert "throttled" not in left
        tool("org.apache.kafka.tools.LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
        described = tool(topics, "--describe", "--topic", "t")
        assert "Replicas: 3,2" in described and "retention.ms=99000" in described
        tool(topics, "--alter", "--topic", "t", "--partitions", "4")
        tool(topics, "--delete", "--topic", "t")
