"""Commands of a cluster: it is started, its replicas are moved, and it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from odradek.cli.cluster_moves import plan_drain
from odradek.cli.errors import CliError
from odradek.client.metadata import PartitionInfo, TopicInfo
from odradek.tests.support.lines import Lines
from odradek.tests.support.process import free_port
from odradek.tests.support.zookeeper import why_missing, zookeeper

ODRADEK = [sys.executable, "-m", "odradek"]


def odradek(*arguments: str) -> list[Any]:
    """Run a command and return its rows."""
    done = subprocess.run([*ODRADEK, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.skipif(bool(why_missing()), reason=why_missing())
def test_a_cluster_is_started_drained_and_stopped(tmp_path: Path) -> None:
    with zookeeper(tmp_path / "zookeeper") as ensemble:
        command = ["cluster", "start", "--nodes", "2", "--port", str(free_port()), "--data-dir", str(tmp_path / "data")]
        running = subprocess.Popen(
            [*ODRADEK, *command, "--zookeeper", ensemble.address], stdout=subprocess.PIPE, text=True
        )
        try:
            word, _, addresses = (Lines(running).next(60) or "").strip().partition(" ")
            assert word == "ready" and addresses.count(",") == 1
            at = ("-b", addresses)
            odradek("topics", "create", "t", "--partitions", "2", "--replication-factor", "1", *at)
            assert {each["broker"] for each in odradek("cluster", "info", "--json", *at)} == {1, 2}
            moves = odradek("cluster", "drain", "2", "--json", *at)
            assert [(each["topic"], each["from"], each["to"]) for each in moves] == [("t", [2], [1])]
            odradek("cluster", "reassign", "t", "0", "--to", "2", *at)
            assert odradek("cluster", "elect-leaders", "--json", *at) == []
        finally:
            running.send_signal(signal.SIGTERM)
            assert running.wait(60) == 0
            assert running.stdout is not None
            running.stdout.close()


def test_without_a_zookeeper_the_command_says_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [*ODRADEK, "cluster", "start", "--data-dir", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": str(tmp_path)},
    )
    assert done.returncode == 1
    assert "ZooKeeper needs Java, and there is none: install it, or give --zookeeper HOST:PORT" in done.stderr


def topic(*replicas: tuple[int, ...]) -> TopicInfo:
    """A topic with these replicas."""
    partitions = tuple(PartitionInfo(at, each[0], 0, each) for at, each in enumerate(replicas))
    return TopicInfo("t", bytes(16), partitions)


def test_a_drain_moves_replicas_to_the_brokers_that_have_the_fewest() -> None:
    moves = plan_drain([topic((3, 1), (1, 3), (1, 2))], 3, [1, 2, 4])
    assert [after for _, after in moves.values()] == [[4, 1], [1, 2]]


def test_a_drain_needs_a_free_broker() -> None:
    with pytest.raises(CliError, match="t-0 has a replica on every other broker"):
        plan_drain([topic((1, 2))], 2, [1])
