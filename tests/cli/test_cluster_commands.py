"""Commands of a cluster: it is started, its replicas are moved, and it is stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from odradek.cli.cluster import _SHARE, _share
from odradek.cli.cluster_moves import listed, plan_drain, throttled
from odradek.cli.errors import CliError
from odradek.cli.lag import replica_lags
from odradek.cli.topics import _trouble, _troubled
from odradek.cli.topics import command as topics_command
from odradek.client import Admin, ConfigResource, OffsetAndTimestamp, TopicPartition
from odradek.client.admin.health import PlacedPartition, check_partitions
from odradek.client.core.descriptions import ClusterDescription, ConfigEntry
from odradek.client.core.metadata import Node, PartitionInfo, TopicInfo
from odradek.client.errors import ConnectionLost, ErrorCode, ItemsFailed, KafkaError
from odradek.tests.support.brokers.lines import Lines
from odradek.tests.support.brokers.process import free_port
from odradek.tests.support.clusters.zookeeper import why_missing, zookeeper
from odradek.tests.support.documents.command import run, threaded_broker

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
            shares = odradek("cluster", "describe", "--json", *at)
            columns = "broker", "replicas", "out_of_sync", "max_lag"
            assert [tuple(each[name] for name in columns) for each in shares] == [(1, 1, 0, 0), (2, 1, 0, 0)]
            assert odradek("topics", "describe", "--under-replicated", "--unavailable", "--json", *at) == []
            moves = odradek("cluster", "drain", "2", "--json", *at)
            assert [(each["topic"], each["from"], each["to"]) for each in moves] == [("t", [2], [1])]
            odradek("cluster", "reassign", "t", "0", "--to", "2", "--throttle", "1GB", *at)
            for resource in (("--topic", "t"), ("--broker", "1")):
                shown = odradek("config", "describe", "--changed", *resource, "--json", *at)
                assert not [each for each in shown if "throttled" in each["config"]], "they end with the move"
            assert odradek("cluster", "elect-leaders", "--json", *at) == []
        finally:
            running.send_signal(signal.SIGTERM)
            assert running.wait(60) == 0
            assert running.stdout is not None
            running.stdout.close()


def test_a_broker_without_replicas_has_nothing_to_drain(tmp_path: Path) -> None:
    with threaded_broker(tmp_path / "data") as broker:
        ended = run("cluster", "drain", "9", "-b", broker.address)
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert ended.stderr == "nothing to move: broker 9 holds no replica\n"


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


def start(*arguments: str) -> str:
    """Start a cluster that cannot start; what the command says."""
    command = [*ODRADEK, "cluster", "start", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def test_a_broker_that_does_not_start_says_why(tmp_path: Path) -> None:
    data = ("--nodes", "1", "--data-dir", str(tmp_path / "data"))
    nobody = f"127.0.0.1:{free_port()}"
    patience = ("--set", "zookeeper.connection.timeout.ms=300")
    said = start(*data, "--zookeeper", nobody, *patience)
    assert f"a broker did not start: no ZooKeeper answers at {nobody} within 0.3 s" in said
    assert "broker-1.log" in said
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = start(*data, "--port", str(port + 1))
    assert f"port {port}, the one below --port, is taken, and ZooKeeper needs it" in said


def topic(*replicas: tuple[int, ...]) -> TopicInfo:
    """A topic with these replicas."""
    partitions = tuple(PartitionInfo(at, each[0], 0, each) for at, each in enumerate(replicas))
    return TopicInfo("t", bytes(16), partitions)


def test_a_drain_moves_replicas_to_the_brokers_that_have_the_fewest() -> None:
    moves = plan_drain([topic((3, 1), (1, 3), (1, 2))], 3, [1, 2, 4])
    assert [after for _, after in moves.values()] == [[4, 1], [1, 2]]


def test_a_throttle_lists_what_is_read_and_what_is_written() -> None:
    moves = {TopicPartition("t", 0): ([1, 2], [2, 3]), TopicPartition("t", 1): ([3], [1])}
    assert listed(moves) == {"t": {"leader": ["0:1", "0:2", "1:3"], "follower": ["0:3", "1:1"]}}


async def test_a_throttle_adds_to_what_was_set_and_puts_it_back() -> None:
    admin = FakeAdmin()
    topic, broker = ConfigResource.topic("t"), ConfigResource.broker(2)
    admin.own[topic] = {"leader.replication.throttled.replicas": "7:1", "follower.replication.throttled.replicas": "*"}
    admin.own[broker] = {"leader.replication.throttled.rate": "5"}
    before = {each: dict(configs) for each, configs in admin.own.items()}
    with pytest.raises(CliError):
        async with throttled(cast("Admin", admin), {TopicPartition("t", 0): ([1, 9], [2])}, 1000):
            assert admin.own[topic] == {
                "leader.replication.throttled.replicas": "7:1,0:1,0:9",
                "follower.replication.throttled.replicas": "*",
            }
            rates = {"leader.replication.throttled.rate": "1000", "follower.replication.throttled.rate": "1000"}
            assert admin.own[broker] == admin.own[ConfigResource.broker(1)] == rates
            assert ConfigResource.broker(9) not in admin.own, "a broker that is away has no copies to bound"
            raise CliError("the move fails")
    assert {each: configs for each, configs in admin.own.items() if configs} == before


async def test_a_throttle_that_was_set_in_part_is_taken_back() -> None:
    admin = FakeAdmin()
    admin.fails_behind = 1
    with pytest.raises(KafkaError, match="broker 2 does not answer"):
        async with throttled(cast("Admin", admin), {TopicPartition("t", 0): ([1], [2])}, 1000):
            raise AssertionError("nothing moves")
    assert not any(admin.own.values())


async def test_a_throttle_of_very_many_replicas_lists_all_of_the_topic() -> None:
    admin, topic = FakeAdmin(), ConfigResource.topic("t")
    moves = {TopicPartition("t", each): ([1, 2, 3], [2, 3, 4]) for each in range(2000)}
    async with throttled(cast("Admin", admin), moves, 1000):
        assert admin.own[topic]["leader.replication.throttled.replicas"] == "*"
        assert admin.own[topic]["follower.replication.throttled.replicas"].count(":4") == 2000


class FakeAdmin:
    """Brokers 1 and 2 with configs."""

    def __init__(self) -> None:
        self.own: dict[ConfigResource, dict[str, str]] = {}
        # After how many resources the next change of configs fails.
        self.fails_behind: int | None = None

    async def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("c", 1, (Node(1, "h", 1, None), Node(2, "h", 2, None)))

    async def describe_configs(self, resources: Any, *, names: Any) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        def entry(resource: ConfigResource, name: str) -> ConfigEntry:
            own = self.own.get(resource, {}).get(name)
            return ConfigEntry(name, own, 5 if own is None else 1 if resource.type == 2 else 2)

        return {resource: {name: entry(resource, name) for name in names} for resource in resources}

    async def alter_configs(self, changes: Any) -> None:
        fails_behind, self.fails_behind = self.fails_behind, None
        for number, (resource, some) in enumerate(changes.items()):
            if number == fails_behind:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "broker 2 does not answer")
            own = self.own.setdefault(resource, {})
            for each in some:
                own.pop(each.name, None)
                if each.operation == "set":
                    own[each.name] = each.value


def test_a_drain_needs_a_free_broker() -> None:
    with pytest.raises(CliError, match="t-0 has a replica on every other broker"):
        plan_drain([topic((1, 2))], 2, [1])


def test_partitions_in_trouble_are_those_that_lack_replicas_or_a_leader() -> None:
    whole = PartitionInfo(0, 1, 0, (1, 2), (1, 2))
    behind = PartitionInfo(1, 1, 0, (1, 2), (1,), (2,))
    dead = PartitionInfo(2, -1, 0, (2,), (2,), (2,))
    topics = [TopicInfo("t", bytes(16), (whole, behind, dead))]

    def found(*, under_replicated: bool = False, unavailable: bool = False) -> list[int]:
        return [each.partition for each in _troubled(topics, under_replicated, unavailable)]

    assert found(under_replicated=True) == [1]
    assert found(unavailable=True) == [2]
    assert found(under_replicated=True, unavailable=True) == [1, 2]
    place = TopicPartition("t", 2)
    assert _trouble(place, dead, {}) == ("t", 2, None, (2,), (2,), (2,), [None])


class Ends:
    """An Admin of brokers whose logs end at 10 and 7. The third is not there, and a replica of the second fails."""

    async def list_offsets(self, wanted: dict[TopicPartition, int], *, node_id: int) -> dict[TopicPartition, Any]:
        if node_id == 3:
            raise ConnectionLost("gone")
        ends = {each: OffsetAndTimestamp(10 if node_id == 1 else 7, -1, 0) for each in wanted}
        if node_id == 2:
            raise ItemsFailed({**ends, TopicPartition("t", 1): KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "broken")})
        return ends


async def test_a_lag_is_left_out_where_a_replica_does_not_answer() -> None:
    first, second, third = (TopicPartition("t", each) for each in range(3))
    placed = {
        first: PartitionInfo(0, 1, 0, (1, 2, 3), (1,)),
        second: PartitionInfo(1, 1, 0, (1, 2), (1,)),
        # Its leader does not answer, so nobody knows what the others lack.
        third: PartitionInfo(2, 3, 0, (3, 1), (3,)),
    }
    lags = await replica_lags(cast("Admin", Ends()), placed)
    assert lags == {(1, first): 0, (2, first): 3, (1, second): 0}
    assert _trouble(first, placed[first], lags)[-1] == [0, 3, None]
    share = _share(2, None, 1, [PlacedPartition(each.topic, info, 1) for each, info in placed.items()], lags)
    assert share[-1] == 3


@pytest.mark.parametrize(
    ("arguments", "why"),
    [((), "name a TOPIC"), (("t", "--configs", "--unavailable"), "--configs prints no partitions")],
)
def test_describe_says_what_does_not_go_together(arguments: tuple[str, ...], why: str) -> None:
    done = CliRunner().invoke(topics_command, ["describe", *arguments])
    assert done.exit_code == 2
    assert why in done.output


def test_a_share_counts_what_a_broker_leads_holds_and_lacks() -> None:
    partitions = [PartitionInfo(0, 1, 0, (1, 2), (1, 2)), PartitionInfo(1, 1, 0, (2, 1), (1,))]
    placed = [PlacedPartition("t", each, 2) for each in partitions]
    expected = {"broker": 2, "rack": "r", "controller": False, "leaders": 0, "preferred": 1, "replicas": 2}
    expected |= {"out_of_sync": 1, "under_replicated": 0, "under_min_isr": 0, "max_lag": None}
    assert dict(zip(_SHARE, _share(2, "r", 1, placed, {}), strict=True)) == expected
    led = dict(zip(_SHARE, _share(1, "r", 1, placed, {}), strict=True))
    assert (led["leaders"], led["under_replicated"], led["under_min_isr"]) == (2, 1, 1)


def test_health_names_the_partitions_that_reject_acks_all() -> None:
    placed = [
        PlacedPartition("strict", PartitionInfo(0, 1, 0, (1, 2, 3), (1,)), 2),
        PlacedPartition("loose", PartitionInfo(0, 1, 0, (1, 2, 3), (1,)), 1),
        # More than there are replicas is never asked for.
        PlacedPartition("single", PartitionInfo(0, 1, 0, (1,), (1,)), 2),
    ]
    found = {each.check: (each.healthy, each.finding) for each in check_partitions(placed)}
    assert found["min.insync.replicas"] == (False, "1 that reject acks=all: strict-0")
    assert found["replicas"] == (False, "2 with replicas missing: strict-0, loose-0")
    assert found["leaders"] == (True, "all 3 partitions have one")
