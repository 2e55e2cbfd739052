"""`odradek doctor` and `odradek cluster`: what is wrong is found, with a remedy."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.configs.properties import load
from odradek.broker.log_dirs.data_dir import StartError
from odradek.broker.log_dirs.log_dirs import LogDirs
from odradek.cli import doctor as diagnoses
from odradek.cli.doctor import check_cluster_security, check_config
from odradek.kernel import door
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult
from odradek.protocol.messages.list_groups import ListGroupsResponse
from odradek.protocol.messages.list_transactions import ListTransactionsResponse
from odradek.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.tests.support.brokers.process import free_port
from odradek.tests.support.documents.command import rows, run, threaded_broker
from odradek.tests.support.fakes.fake_cluster import Call, FakeCluster
from odradek.tests.support.security.tls import Authority


def doctor(*args: str | Path) -> tuple[int, dict[str, dict[str, str]]]:
    """The status, and what was found by check; of several, the worst."""
    ended = run("doctor", "--json", *args)
    found: dict[str, dict[str, str]] = {}
    for each in map(json.loads, ended.stdout.splitlines()):
        if found.get(each["check"], {"result": "ok"})["result"] == "ok":
            found[each["check"]] = each
    assert all(each["remedy"] for each in found.values() if each["result"] != "ok")
    return ended.exit_code, found


def results(found: dict[str, dict[str, str]]) -> dict[str, str]:
    return {check: each["result"] for check, each in found.items()}


def test_a_running_broker_is_well(tmp_path: Path) -> None:
    with threaded_broker(tmp_path / "data") as broker:
        status, found = doctor("-b", broker.address, "--data-dir", tmp_path / "data")
    assert status == 0, found
    assert results(found)["advertised address"] == results(found)["broker"] == "ok"
    assert "in use by a broker" in found["data directory"]["finding"]
    status, found = doctor("--data-dir", tmp_path / "data", "-b", broker.config.listeners[0][12:-1] + "1")
    assert (status, results(found)["broker"]) == (1, "problem")
    assert "the last stop was clean" in found["data directory"]["finding"]


def test_an_address_that_nobody_reaches_is_found_with_the_config_that_mends_it(tmp_path: Path) -> None:
    with threaded_broker(tmp_path / "data", advertised_listeners=("PLAINTEXT://127.0.0.1:1",)) as broker:
        status, found = doctor("-b", broker.address)
    assert (status, results(found)["advertised address"]) == (1, "problem")
    assert "127.0.0.1:1" in found["advertised address"]["finding"]
    assert "advertised.listeners=LISTENER://HOST:PORT" in found["advertised address"]["remedy"]


@pytest.mark.parametrize(("host", "is_well"), [("localhost", True), ("127.0.0.1", False)])
def test_a_name_that_is_not_in_the_certificate_is_found(tmp_path: Path, host: str, is_well: bool) -> None:
    authority, port = Authority(tmp_path), free_port()
    config = BrokerConfig(
        listeners=(f"SSL://127.0.0.1:{port}",),
        advertised_listeners=(f"SSL://{host}:{port}",),
        ssl_keystore_type="PEM",
        ssl_keystore_location=str(authority.store("broker.pem", "localhost")),
        log_dirs=(str(tmp_path / "data"),),
    )
    options = ("-X", "security.protocol=SSL", "-X", f"ssl.truststore.location={authority.path}")
    with Broker(config):
        _, found = doctor("-b", f"localhost:{port}", *options)
    assert results(found)["advertised address"] == ("ok" if is_well else "problem")
    assert is_well or "certificate is for another host" in found["advertised address"]["finding"]


def test_an_address_of_another_cluster_is_found(tmp_path: Path) -> None:
    with threaded_broker(tmp_path / "other") as other:
        advertised = (f"PLAINTEXT://{other.address}",)
        with threaded_broker(tmp_path / "data", advertised_listeners=advertised) as broker:
            status, found = doctor("-b", broker.address)
    assert status == 1 and "another cluster" in found["advertised address"]["finding"]


def test_a_bad_config_and_an_unknown_one_are_found(tmp_path: Path) -> None:
    status, found = doctor("--set", "num.partitions=0")
    assert (status, results(found)["config"]) == (1, "problem")
    status, found = doctor("--set", "num.partition=1", "--data-dir", tmp_path / "data")
    assert (status, results(found)["config"]) == (0, "warning")
    assert "did you mean num.partitions?" in found["config"]["finding"]


def test_data_directories_that_cannot_be_used_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    assert results(doctor("--data-dir", tmp_path / "file")[1])["data directory"] == "problem"
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "meta.properties").write_text("nonsense")
    assert results(doctor("--data-dir", tmp_path / "bad")[1])["data directory"] == "problem"
    monkeypatch.setattr(os, "access", lambda *_: False)
    (tmp_path / "closed").mkdir()
    assert "cannot be written" in doctor("--data-dir", tmp_path / "closed")[1]["data directory"]["finding"]
    assert "cannot be made" in doctor("--data-dir", tmp_path / "none")[1]["data directory"]["finding"]


DIRECTORIES = {
    "empty": {},
    "ours": {"meta.properties": "version=1\nnode.id=1\ncluster.id=abc\n"},
    "of another node": {"meta.properties": "version=1\nnode.id=7\ncluster.id=abc\n"},
    "of a broker in a cluster": {"meta.properties": "version=0\nbroker.id=1\ncluster.id=abc\n"},
    "without a cluster id": {"meta.properties": "version=1\nnode.id=1\n"},
    "of another program": {"notes.txt": "x"},
    "with partitions and no metadata": {"t-0/00000000000000000000.log": ""},
}


@pytest.mark.parametrize("kind", [*DIRECTORIES, "a file", "below a file", "a link to nothing"])
def test_doctor_finds_a_problem_in_a_directory_exactly_where_serve_ends(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "data"
    for name, content in DIRECTORIES.get(kind, {}).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(content)
    if kind.endswith("a file"):
        path.write_text("x")
        path = path / "below" if kind == "below a file" else path
    elif kind == "a link to nothing":
        path.symlink_to("nowhere")
    result = results(doctor("--data-dir", path)[1])["data directory"]
    try:
        LogDirs.open(BrokerConfig(log_dirs=(str(path),))).close()
        serves = True
    except StartError:
        serves = False
    assert (result, serves) in (("ok", True), ("problem", False))


def test_a_full_disk_few_files_and_a_clock_set_back_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(100 << 30, 99 << 30, 1 << 29))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    with threaded_broker(tmp_path / "data") as broker:
        run("topics", "create", "t", "-b", broker.address)
    status, found = doctor("--data-dir", tmp_path / "data")
    assert status == 0
    assert (results(found)["disk space"], results(found)["open files"]) == ("warning", "warning")
    segment = next((tmp_path / "data").glob("t-0/*.log"))
    os.utime(segment, (2**32, 2**32))
    status, found = doctor("--data-dir", tmp_path / "data")
    assert status == 1 and "from the future" in found["clock"]["finding"]
    monkeypatch.setattr(diagnoses.time, "time", lambda: 0.0)
    assert results(doctor()[1])["clock"] == "problem"


def test_a_segment_that_goes_while_it_is_looked_at_hides_no_finding(tmp_path: Path) -> None:
    with threaded_broker(tmp_path / "data") as broker:
        run("topics", "create", "t", "-b", broker.address)
        # A link to nothing is what a glob has seen and a look does not find, as a segment that retention deletes.
        (tmp_path / "data" / "t-0" / "00000000000000000001.log").symlink_to(tmp_path / "gone")
        status, found = doctor("--data-dir", tmp_path / "data", "-b", broker.address)
    assert status == 0 and results(found)["data directory"] == "ok"


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnoses, "_LIBRARIES", ("click", "no-such-library"))
    status, found = doctor()
    assert (status, found["libraries"]["result"]) == (1, "problem")


def test_a_healthy_cluster_has_status_0(tmp_path: Path) -> None:
    with threaded_broker(tmp_path) as broker:
        run("topics", "create", "t", "--partitions", "3", "-b", broker.address)
        (info,) = rows("cluster", "info", "-b", broker.address)
        assert info == [broker.cluster_id, "1", *broker.address.split(":"), "-", "yes", "3"]
        health = rows("cluster", "health", "-b", broker.address)
    assert [line[:2] for line in health] == [
        ["controller", "yes"],
        ["leaders", "yes"],
        ["replicas", "yes"],
        ["min.insync.replicas", "yes"],
        ["data directories", "yes"],
        ["disk space", "yes"],
        ["retention", "yes"],
        ["transactions", "yes"],
        ["damage", "yes"],
        ["clocks", "yes"],
    ]


async def test_what_is_not_healthy_is_named_with_status_1() -> None:
    async with FakeCluster({"t": 2}) as fake:

        async def metadata(call: Call) -> MetadataResponse:
            sick = MetadataResponsePartition(ErrorCode.LEADER_NOT_AVAILABLE, 0, -1, -1, [1, 2], [], [2])
            well = MetadataResponsePartition(0, 1, 1, 0, [1], [1], [])
            topic = MetadataResponseTopic(0, "t", bytes(16), False, [sick, well])
            host, port = fake.address.split(":")
            brokers = [MetadataResponseBroker(1, host, int(port), None)]
            return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=-1, topics=[topic])

        async def log_dirs(call: Call) -> DescribeLogDirsResponse:
            broken = DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, "/data", [])
            full = DescribeLogDirsResult(0, "/full", [], 1 << 40, 4096)
            roomy = DescribeLogDirsResult(0, "/roomy", [], 1 << 40, 1 << 30)
            return DescribeLogDirsResponse(results=[broken, full, roomy])

        async def cluster(call: Call) -> DescribeClusterResponse:
            host, port = fake.address.split(":")
            return DescribeClusterResponse(
                cluster_id="c", controller_id=-1, brokers=[DescribeClusterBroker(1, host, int(port))]
            )

        async def configs(call: Call) -> DescribeConfigsResponse:
            config = DescribeConfigsResourceResult("min.insync.replicas", "1")
            return DescribeConfigsResponse(results=[DescribeConfigsResult(0, None, 2, "t", [config])])

        async def groups(call: Call) -> ListGroupsResponse:
            return ListGroupsResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)

        async def transactions(call: Call) -> ListTransactionsResponse:
            return ListTransactionsResponse()

        fake.defaults[ApiKey.LIST_GROUPS] = groups
        fake.defaults[ApiKey.LIST_TRANSACTIONS] = transactions
        fake.defaults[ApiKey.DESCRIBE_CONFIGS] = configs
        fake.defaults[ApiKey.METADATA] = metadata
        fake.defaults[ApiKey.DESCRIBE_LOG_DIRS] = log_dirs
        fake.defaults[ApiKey.DESCRIBE_CLUSTER] = cluster
        ended = await asyncio.to_thread(run, "cluster", "health", "-b", fake.address)
    assert ended.exit_code == 1
    found = [line.split("\t") for line in ended.stdout.splitlines()]
    assert [line[1] for line in found] == ["no"] * 5 + ["yes"] * 5
    assert [line[3] for line in found[8:]] == ["unknown", "unknown"]
    assert found[6][2].startswith("not looked at: ") and found[6][3] == "warning"
    assert "1 without a leader: t-0" in found[1][2]
    assert "/data of broker 1 (KAFKA_STORAGE_ERROR)" in found[4][2]
    assert "the disk of /full of broker 1 is full: 0.0 MB are free" in found[4][2] and "/roomy" not in found[4][2]
    assert found[3][:3] == ["min.insync.replicas", "no", "1 that reject acks=all: t-0"]


def test_the_code_that_reads_records_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "compiled", object())
    assert doctor()[1]["records"]["finding"] == "decoded and encoded by the compiled kernel"
    monkeypatch.setattr(door, "compiled", None)
    monkeypatch.setattr(door, "is_built", lambda: True)
    found = doctor()[1]["records"]
    assert found["result"] == "warning" and "install Odradek again" in found["remedy"]
    monkeypatch.setattr(door, "is_built", lambda: False)
    assert doctor()[1]["records"]["result"] == "ok"


def test_what_keeps_a_broker_from_its_cluster_is_found(tmp_path: Path) -> None:
    lines = {
        "zookeeper.connect": "127.0.0.1:2181",
        "broker.id": "1",
        "log.dirs": str(tmp_path / "data"),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "java.security.auth.login.config": str(tmp_path / "missing"),
    }
    file = tmp_path / "server.properties"

    def checked(**more: str) -> list[tuple[str, str]]:
        file.write_text("".join(f"{name}={value}\n" for name, value in {**lines, **more}.items()))
        config, _ = check_config(load(file))
        assert config is not None
        return [(each.result, each.finding) for each in check_cluster_security(config)]

    (_, stranger), (_, missing) = checked()
    assert "User:ANONYMOUS" in stranger and "missing: no such file" in missing
    del lines["java.security.auth.login.config"]
    assert checked(**{"super.users": "User:ANONYMOUS"}) == [
        ("ok", "brokers reach each other at PLAINTEXT (PLAINTEXT) as User:ANONYMOUS")
    ]
