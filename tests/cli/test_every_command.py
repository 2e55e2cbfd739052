"""What holds for every command: its help, its output that fails, and Ctrl-C. A new command needs a line in LINES."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from odradek.broker import Broker
from odradek.cli import main
from odradek.tests.support.documents.command import COMMAND_ENDS_WITHIN_S, ended, run, start, threaded_broker
from odradek.tests.support.documents.shell import run_here
from odradek.tests.support.seeds import IS_SOAK

# The words behind each command that make it do something, where it does not need more than a broker with the topic t,
# the group g and a stopped broker's directory `data`.
LINES = {
    "topics alter": "t --config retention.ms=1h",
    "topics copy": "t --to OTHER",
    "topics create": "made --if-not-exists",
    "topics delete": "made --yes",
    "topics delete-records": "--topic t --before 1 --yes",
    "topics describe": "t",
    "topics list": "",
    "config describe": "--topic t",
    "config list": "",
    "config set": "retention.ms=1h --topic t",
    "produce": "t",
    "consume": "t --until-end",
    "sql": "'select 1'",
    "archive check": "t --to archive",
    "archive compact": "t --to archive",
    "archive expire": "t --to archive",
    "archive restore": "t --to archive --data-dir restored",
    "archive run": "t --to archive --once",
    "archive status": "t --to archive",
    "groups delete": "gone --yes",
    "groups delete-offsets": "g --topic t",
    "groups describe": "g",
    "groups explain": "g",
    "groups list": "",
    "groups migrate-offsets": "g --to kafka --dry-run",
    "groups reset-offsets": "g --topic t --to-earliest",
    "transactions abort": "--topic t:0 --start-offset 0 --yes",
    "transactions describe": "--topic t",
    "transactions list": "",
    "users delete": "alice",
    "users list": "",
    "users set": "alice --password-file -",
    "transactions queries": "",
    "certs ca": "",
    "certs client": "alice",
    "certs server": "localhost",
    "certs show": "certs/ca.pem",
    "quotas delete": "--user alice",
    "quotas list": "",
    "quotas set": "--user alice producer_byte_rate=1",
    "acls list": "",
    "acls add": "alice read topic:t",
    "acls remove": "alice read topic:t",
    "acls explain": "alice read topic:t",
    "ping": "",
    "cluster describe": "",
    "cluster drain": "7 --dry-run",
    "cluster elect-leaders": "",
    "cluster health": "",
    "cluster info": "",
    "cluster list": "",
    "cluster reassign": "t 0 --to 1",
    "doctor": "--data-dir data",
    "profile delete": "made --yes",
    "profile list": "",
    "profile set": "made bootstrap.servers=127.0.0.1:9092",
    "profile show": "made",
    "profile use": "--none",
    "completion": "bash",
    "man": "",
    "perf consume": "t --records 1",
    "perf latency": "t --records 1",
    "perf produce": "t --records 1",
    "backup": "data backup",
    "restore": "backup restored",
    "log dirs": "",
    "log dump": "data/t-0/00000000000000000000.log",
    "log import": "data/t-0 --data-dir imported",
    "log verify": "data",
}
# These run until a signal: tests/cli/test_serve.py, test_cluster_commands.py and test_terminal.py have theirs.
SERVERS = {"serve", "cluster start", "registry", "console"}
# These need a schema registry: tests/cli/test_schemas.py.
OF_A_REGISTRY = {f"schemas {name}" for name in ("check", "delete", "list", "register", "show")}
# What a command needs to have run before it.
BEFORE = {"profile show": "profile set", "restore": "backup", "topics delete": "topics create"}
BEFORE |= dict.fromkeys(
    (f"archive {name}" for name in ("check", "compact", "expire", "restore", "status")), "archive run"
)
BEFORE |= dict.fromkeys(("certs client", "certs server", "certs show"), "certs ca")
BROKERLESS = {"certs ca", "certs client", "certs server", "certs show"} | {
    "archive check",
    "archive compact",
    "archive expire",
    "archive restore",
    "config list",
    "completion",
    "man",
    "backup",
    "restore",
    "log dump",
    "log import",
    "log verify",
}
WITHOUT_A_CLIENT = BROKERLESS | {"doctor", *(name for name in LINES if name.startswith("profile"))}
ASK_A_BROKER = {name: line for name, line in LINES.items() if name not in WITHOUT_A_CLIENT} | {
    "sql": "'select * from t'",
}


def _skip_without_packages(name: str) -> None:
    if name == "sql":
        pytest.importorskip("duckdb", reason="SQL is asked by DuckDB")
    if name.startswith("archive"):
        pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")


def contexts() -> Iterator[click.Context]:
    """A context of each command and each group of commands."""
    pending = [click.Context(main, info_name="odradek", terminal_width=80, max_content_width=80)]
    while pending:
        context = pending.pop()
        yield context
        if isinstance(group := context.command, click.Group):
            for name in group.list_commands(context):
                below = group.get_command(context, name)
                assert below is not None
                pending.append(click.Context(below, info_name=name, parent=context))


CONTEXTS = list(contexts())


def test_each_command_has_its_line() -> None:
    leaves = {each.command_path for each in CONTEXTS if not isinstance(each.command, click.Group)}
    assert {f"odradek {name}" for name in LINES.keys() | SERVERS | OF_A_REGISTRY} == leaves


@pytest.mark.parametrize("context", CONTEXTS, ids=lambda context: context.command_path.replace(" ", "-"))
def test_each_help_has_examples_fits_a_terminal_and_says_what_each_option_does(context: click.Context) -> None:
    text = context.get_help()
    assert context.command_path in text.partition("Examples:\n")[2].partition("\n\n")[0]
    too_long = [line for line in text.splitlines() if len(line) > 80]
    assert not too_long
    assert "RANGE" not in text and "INTEGER" not in text, "an option says N, BYTES or what it is"
    for option in context.command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{option.opts[-1]} has no help"
            assert not re.search(r"\[(?!default: |env var: )[^\]]*\]$", option.help), "a default is [default: ...]"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    """A broker with the topic t and the group g, and one of another cluster."""
    folder = tmp_path_factory.mktemp("every")
    with threaded_broker(folder / "data") as broker, threaded_broker(folder / "other") as other:
        fill(broker)
        yield broker, other


def fill(broker: Broker) -> None:
    for line in ("topics create t", "produce t", "consume t --group g --until-end"):
        status, _, said = run_here([*line.split(), "-b", broker.address], b"one\ntwo\n")
        assert status == 0, said


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a broker that has stopped."""
    folder = tmp_path_factory.mktemp("stopped") / "data"
    with threaded_broker(folder) as broker:
        fill(broker)
    return folder


@pytest.fixture
def place(
    brokers: tuple[Broker, Broker], stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", brokers[0].address)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(stopped, tmp_path / "data")
    yield tmp_path


def words_of(name: str, line: str, other: str = "127.0.0.1:1") -> list[str]:
    return [*name.split(), *shlex.split(line.replace("OTHER", other))]


def without_output(words: list[str], kind: str) -> tuple[int, str]:
    """Run a command whose standard output is a full disk, closed, or a pipe whose reader has gone."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    full, closed = os.open("/dev/full", os.O_WRONLY), os.open(os.devnull, os.O_RDONLY)
    try:
        status, _, said = run_here(words, b"three\n", output={"full": full, "closed": closed, "gone": write_end}[kind])
    finally:
        for each in (write_end, full, closed):
            os.close(each)
    return status, said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("name", LINES, ids=lambda name: name.replace(" ", "-"))
def test_output_that_fails_is_one_line_or_none(name: str, place: Path, brokers: tuple[Broker, Broker]) -> None:
    _skip_without_packages(name)
    if name in BEFORE:
        assert run(*words_of(BEFORE[name], LINES[BEFORE[name]])).exit_code == 0
    words = words_of(name, LINES[name], brokers[1].address)
    _, printed, said = run_here(words, b"three\n")
    assert "Traceback" not in said
    if not printed:
        return
    # Each command with one of them, a third of all commands with each.
    kinds = ("full", "closed", "gone")
    for kind in kinds if IS_SOAK else kinds[sorted(LINES).index(name) % 3 :][:1]:
        for made in ("backup", "restored", "imported", *(["archive"] if name == "archive run" else [])):
            shutil.rmtree(place / made, ignore_errors=True)
        for made in place.glob("certs/[!c]*" if name in BEFORE else "certs/*"):
            made.unlink()
        status, said = without_output(words, kind)
        lines = [line for line in said.splitlines() if line.startswith("odradek: cannot write")]
        assert "Traceback" not in said
        if kind == "gone":
            assert (status, lines) == (0 if name == "consume" else 141, []), said
        else:
            assert (status, len(lines)) == (1, 1), said


class Silent:
    """A server that takes connections and never answers; it sends Ctrl-C to a process that connects."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.interrupts: int | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def interrupt(self, pid: int) -> None:
        self.interrupts = pid
        self._started.set()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._started.set()
        self._thread.join(COMMAND_ENDS_WITHIN_S)

    def _take(self) -> None:
        taken: list[socket.socket] = []
        try:
            while True:
                taken.append(self._listening.accept()[0])
                self._started.wait()
                if self.interrupts is not None:
                    os.kill(self.interrupts, signal.SIGINT)
                    self.interrupts = None
        except OSError:
            for each in taken:
                each.close()


@pytest.mark.parametrize("name", ASK_A_BROKER, ids=lambda name: name.replace(" ", "-"))
def test_ctrl_c_while_the_broker_is_silent_is_status_130(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _skip_without_packages(name)
    monkeypatch.chdir(tmp_path)
    files = [tmp_path / each for each in ("stdin", "stdout", "stderr")]
    files[0].write_bytes(b"three\n")
    server = Silent()
    try:
        monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", server.address)
        process = start(words_of(name, ASK_A_BROKER[name], server.address), files)
        assert process.pid is not None
        server.interrupt(process.pid)
        status = ended(process, files[2])
    finally:
        server.close()
    said = files[2].read_text()
    assert status == (0 if name == "consume" else 130) and "odradek:" not in said and "Traceback" not in said, said


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="this system's pipes have one size")
@pytest.mark.parametrize("name", sorted(BROKERLESS), ids=lambda name: name.replace(" ", "-"))
def test_ctrl_c_while_the_reader_of_the_output_waits_is_status_130(name: str, place: Path) -> None:
    files = [place / each for each in ("stdin", "stdout", "stderr")]
    files[0].touch()
    if name in BEFORE:
        assert run(*words_of(BEFORE[name], LINES[BEFORE[name]])).exit_code == 0
    os.mkfifo(files[1])
    reader = os.open(files[1], os.O_RDONLY | os.O_NONBLOCK)
    filler = os.open(files[1], os.O_WRONLY)
    try:
        os.write(filler, bytes(fcntl.fcntl(filler, fcntl.F_SETPIPE_SZ, 4096)))
        process = start(words_of(name, LINES[name]), files)
        assert process.pid is not None
        deadline_s = time.monotonic() + COMMAND_ENDS_WITHIN_S
        while process.is_alive() and not is_writing(process.pid):
            assert time.monotonic() < deadline_s, "it neither ends nor prints"
            time.sleep(0.002)
        if waits := process.is_alive():
            os.kill(process.pid, signal.SIGINT)
        status = ended(process, files[2])
    finally:
        os.close(reader)
        os.close(filler)
    assert "Traceback" not in files[2].read_text()
    assert status == (130 if waits else 0), "those that wait for nobody have nothing to print"


def is_writing(pid: int) -> bool:
    """Whether a process waits in a write to its standard output."""
    try:
        return Path(f"/proc/{pid}/syscall").read_text().startswith("1 0x1 ")
    except OSError:
        return False
