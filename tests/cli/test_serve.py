"""`odradek serve` as scripts rely on it: the ready line, the streams, the status; one line where it cannot start."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from odradek.cli import main
from odradek.cli.serve import texts_of
from odradek.tests.support.brokers.lines import Lines
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.documents.command import completed


def refused(*args: str | Path) -> str:
    """The one line on standard error of a start that is refused with status 1."""
    ended = completed("serve", "--log-level", "error", *args)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("odradek: ") and ended.stderr.count("\n") == 1, ended.stderr
    return ended.stderr


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path)
    yield process
    process.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_says_ready_first_and_stops_cleanly_on_a_signal(broker: BrokerProcess, number: signal.Signals) -> None:
    broker.start()
    host, _, port = broker.address.rpartition(":")
    socket.create_connection((host, int(port)), timeout=5).close()
    assert broker.signal(number) == 0
    assert "listening on" in broker.log.read_text()


def test_a_second_process_on_the_same_directory_is_refused_and_the_first_goes_on(broker: BrokerProcess) -> None:
    broker.start()
    assert "in use by another process" in refused("--listen", "127.0.0.1:0", "--data-dir", broker.data_dir)
    broker.stop()


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"cannot listen on {address}" in refused("--listen", address, "--data-dir", tmp_path / "data")


def test_an_unwritable_directory_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    # Root may write everywhere, but nobody may write here.
    unwritable = tmp_path / "data" if os.geteuid() else Path("/proc/odradek")
    assert f"{unwritable} cannot be" in refused("--listen", "127.0.0.1:0", "--data-dir", unwritable)


def test_a_file_where_the_directory_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a directory")
    assert str(tmp_path / "data") in refused("--listen", "127.0.0.1:0", "--data-dir", tmp_path / "data")


def test_bad_configs_are_refused_before_anything_is_touched(tmp_path: Path) -> None:
    line = refused("--set", "log.segment.bytes=12", "--data-dir", tmp_path / "data")
    assert "log.segment.bytes=12: must be a whole number of 32 bits, at least 1048576" in line
    assert "No such file" in refused("--config", tmp_path / "none.properties")
    assert "listners=x: unknown (did you mean listeners?)" in refused("--set", "listners=x")
    strict = refused("--strict", "--set", "num.partiton=3", "--data-dir", tmp_path / "data")
    assert "num.partiton=3: unknown (did you mean num.partitions?)" in strict
    assert not (tmp_path / "data").exists()


def test_usage_errors_have_status_2() -> None:
    for args in (
        ["--set", "novalue"],
        ["--listen", "A://h:1"],
        ["--listen", "127.0.0.1"],
        ["--listen", "[::1]"],
        ["--data-dir", "a,b"],
        ["--log-format", "xml"],
        ["extra"],
    ):
        result = CliRunner().invoke(main, ["serve", *args])
        assert result.exit_code == 2, result.output


def test_an_address_without_a_port_is_answered_with_the_one_that_is_meant() -> None:
    for address in ("127.0.0.1", "[::1]", "kafka-1"):
        result = CliRunner().invoke(main, ["serve", "--listen", address])
        assert f"--listen needs HOST:PORT, got {address!r}; the usual port is 9092: {address}:9092" in result.stderr
    for command, port in (("console", 8080), ("registry", 8081)):
        result = CliRunner().invoke(main, [command, "--listen", "kafka-1"])
        assert f"; the usual port is {port}: kafka-1:{port}" in result.stderr


@pytest.mark.parametrize("command", ["serve", "console", "registry"])
def test_a_port_alone_is_answered_with_an_address_that_has_it(command: str) -> None:
    result = CliRunner().invoke(main, [command, "--listen", "9092"])
    assert "--listen needs HOST:PORT, got '9092'; for this machine alone: 127.0.0.1:9092" in result.stderr


def test_file_set_and_options_win_in_that_order_and_unknown_names_are_warned_of(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text(
        "num.partitions=0\nlisteners=PLAINTEXT://:1\nlog.retention.hours=5\nlog.preallocate=true\nprocess.roles=broker\n"
    )
    process = BrokerProcess(tmp_path, num_partitions=3)
    process.address = "127.0.0.1:0"
    command = [*process.command(), "--config", str(tmp_path / "server.properties"), "--log-format", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        lines = Lines(running)
        assert (lines.next(20) or "").startswith("ready 127.0.0.1:")
        running.send_signal(signal.SIGTERM)
        errors = running.stderr.read()
    assert (running.returncode, lines.rest()) == (0, [])
    events = [json.loads(line) for line in errors.splitlines()]
    assert {"time", "level", "logger", "message"} <= events[0].keys()
    assert [event["message"] for event in events if event["level"] == "warning"] == [
        "config log.preallocate: known to Kafka, not acted on by Odradek yet",
    ]


@pytest.mark.parametrize(
    "configs",
    [
        ["listeners=PLAINTEXT://:0,SASL_SSL://:9093"],
        ["listeners=OUT://:9093", "listener.security.protocol.map=IN:PLAINTEXT, OUT:ssl"],
        ["listeners=out://:9093", "listener.security.protocol.map=Out : SASL_SSL"],
    ],
)
def test_listen_does_not_open_a_listener_that_was_to_be_secure(configs: list[str]) -> None:
    sets = [word for each in configs for word in ("--set", each)]
    result = CliRunner().invoke(main, ["serve", "--listen", "0.0.0.0:9093", *sets])
    assert result.exit_code == 2
    assert f"--listen would replace {configs[0]} by PLAINTEXT: leave one of the two out" in result.stderr


def test_listen_replaces_the_listeners_of_a_file_for_kafka() -> None:
    """Such as that of a node that is broker and controller."""
    given = ("listeners=PLAINTEXT://:9092,CONTROLLER://:9093", "listener.security.protocol.map=CONTROLLER:PLAINTEXT")
    assert texts_of("127.0.0.1:0", None, None, given)["listeners"] == "PLAINTEXT://127.0.0.1:0"


def test_raises_the_limit_of_open_files_by_itself(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        broker.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    limits = Path(f"/proc/{broker._process.pid}/limits") if broker._process else Path("/proc/none")
    if limits.exists():
        (line,) = (line for line in limits.read_text().splitlines() if line.startswith("Max open files"))
        assert int(line.split()[3]) == hard


def test_help_shows_examples_and_every_command() -> None:
    for args in (
        [],
        ["serve"],
        ["topics", "create"],
        ["produce"],
        ["consume"],
        ["groups", "describe"],
        ["log", "dump"],
    ):
        result = CliRunner().invoke(main, [*args, "--help"])
        assert result.exit_code == 0 and "Examples:" in result.output, args


# What `odradek serve` must not import before it is ready: what only others need, or what it needs later.
LATER = (
    "odradek.client",
    "odradek.broker.cluster",
    "odradek.broker.handlers",
    "odradek.broker.replication.replicas",
    "odradek.broker.replication.fetcher",
    "odradek.broker.replication.remote_markers",
    "odradek.storage.compaction.",
    "odradek.cli.session",
    "cramjam",
    "decimal",
    "email",
    "kazoo",
    "lz4",
    "numpy",
    "prometheus_client",
    "pyarrow",
    "rich",
    "tempfile",
    "odradek.broker.coordination.groups",
    "odradek.broker.coordination.share_states",
    "odradek.broker.coordination.transactions",
    "odradek.broker.security.authorizer",
    "odradek.broker.security.sasl.",
    "odradek.broker.security.tls",
    "odradek.broker.share_partitions",
    "zstandard",
)
# A module takes half a millisecond on average, of the 0.2 s in which a broker should be ready, and so does a dataclass.
MAX_MODULES = 397
MAX_DATACLASSES = 32
# Runs `odradek serve` until it is ready and knows what ApiVersions answers, and prints the modules and the dataclasses
# that were made.
UNTIL_READY = """
import dataclasses, json, os, sys
made, process = [], dataclasses._process_class
dataclasses._process_class = lambda cls, *args: made.append(cls.__qualname__) or process(cls, *args)
import odradek.cli.serve as serve
from odradek.cli import main

def ready(address):
    from odradek.broker.network.routes import ALONE_ROUTES

    assert all(route.versions for route in ALONE_ROUTES)
    os.write(1, json.dumps([sorted(sys.modules), made]).encode())
    os._exit(0)

serve.say_ready = ready
main(["serve", "--listen", "127.0.0.1:0", "--data-dir", sys.argv[1]])
"""


def test_serve_imports_little_until_it_is_ready(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", UNTIL_READY, tmp_path], capture_output=True, text=True, check=True)
    modules: list[str]
    modules, dataclasses = json.loads(ended.stdout)
    assert "odradek.broker.server" in modules
    assert not [name for name in modules if name.startswith(LATER)]
    assert len(modules) < MAX_MODULES, f"{len(modules)} modules"
    assert len(dataclasses) < MAX_DATACLASSES, f"{len(dataclasses)} dataclasses: {dataclasses}"
