"""`odradek ping`: cheap, and right about who answers, by way of the command line and as a health check."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from odradek.cli.health_check import status_of
from odradek.tests.support.documents.command import run, threaded_broker

# Arguments -> exit status, standard output and standard error.
Ping = Callable[..., tuple[int | None, str, str]]
# What a health check may import: sockets and signals, with all that they import themselves.
SOCKETS = """
__future__ _collections _collections_abc _functools _operator _socket _stat _struct array collections collections.abc
enum errno functools genericpath itertools keyword math operator os os.path posixpath reprlib select selectors signal
socket stat struct types
"""
OURS = {f"odradek{name}" for name in ("", ".__main__", ".cli", ".cli.broker_address", ".cli.health_check")}


@pytest.fixture(params=["command line", "health check"])
def ping(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Ping:
    """Either way of a ping that has plain options."""

    def by_command_line(*arguments: str) -> tuple[int | None, str, str]:
        ended = run("ping", *arguments)
        return ended.exit_code, ended.stdout, ended.stderr

    def by_health_check(*arguments: str) -> tuple[int | None, str, str]:
        status = status_of([*arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return by_health_check if request.param == "health check" else by_command_line


def test_brokers_answer(tmp_path: Path, ping: Ping, monkeypatch: pytest.MonkeyPatch) -> None:
    with threaded_broker(tmp_path) as broker:
        address = broker.address
        monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", f"{address}, {address}")
        for arguments in ([], ["-b", f"{address},{address}"], ["--timeout", "5", "--bootstrap-server", f"{address},"]):
            status, output, errors = ping(*arguments)
            assert (status, errors, output.count("\n")) == (0, "", 1 if "--timeout" in arguments else 2)
            for line in output.splitlines():
                assert line.startswith(f"{address} answered in ") and line.endswith(" ms")


def test_every_broker_is_asked_also_behind_one_that_does_not_answer(tmp_path: Path, ping: Ping) -> None:
    with threaded_broker(tmp_path) as broker:
        address = broker.address
        status, output, errors = ping("-b", f"127.0.0.1:1,{address}")
    assert (status, output.count("\n"), errors.count("\n")) == (1, 1, 1)
    assert output.startswith(f"{address} answered in ") and "cannot reach 127.0.0.1:1 (" in errors


def test_json_says_of_every_broker_whether_it_answered(tmp_path: Path) -> None:
    with threaded_broker(tmp_path) as broker:
        address = broker.address
        ended = run("ping", "-b", f"127.0.0.1:1,{address}", "--json")
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert (ended.exit_code, ended.stderr.count("\n")) == (1, 1)
    assert [(each["broker"], each["answered"]) for each in found] == [("127.0.0.1:1", False), (address, True)]
    assert found[0]["time_ms"] is None and found[1]["time_ms"] > 0


def test_nobody_there_is_one_line(ping: Ping) -> None:
    remedy = 'Start a broker with "odradek serve", or pass -b.'
    said = f"odradek: cannot reach 127.0.0.1:1 (connection refused). {remedy}\n"
    assert ping("-b", "127.0.0.1:1") == (1, "", said)
    for host in ("nobody.invalid", f"{'a' * 70}.invalid", f"{'ä' * 70}.invalid"):
        status, output, errors = ping("-b", f"{host}:1")
        assert (status, output) == (1, "") and "no such host" in errors and errors.count("\n") == 1


@pytest.mark.parametrize("address", ["h:0", "h:x", ":1", "h:99999", "127.0.0.1:1,h:x", ","])
def test_a_bad_address_is_wrong_usage(address: str) -> None:
    ended = run("ping", "-b", address)
    assert (ended.exit_code, ended.stdout) == (2, "") and "-b is HOST:PORT, not" in ended.stderr
    assert status_of(["-b", address]) is None


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["-b"],
        ["-b", ""],
        ["--timeout", "1"],
        ["-b", "127.0.0.1:1", "--timeout", "0"],
        ["-b", "127.0.0.1:1", "--timeout", "nan"],
        ["-b", "127.0.0.1:1", "--timeout", "soon"],
        ["-b", "127.0.0.1:1", "--profile", "home"],
        ["-b", "127.0.0.1:1", "--json"],
    ],
    ids=" ".join,
)
def test_all_but_plain_options_is_left_to_the_command_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(arguments) is None
    assert capsys.readouterr() == ("", "")


def test_an_output_that_fails_is_left_to_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BrokenPipeError

    with threaded_broker(tmp_path) as broker:
        with monkeypatch.context() as broken:
            broken.setattr("builtins.print", fail)
            assert status_of(["-b", broker.address]) is None
        with monkeypatch.context() as closed:
            closed.setattr("sys.stdout", None)
            assert status_of(["-b", broker.address]) is None


@contextmanager
def server(answer: bytes | None) -> Generator[str]:
    """Answers one connection with these bytes, or with none and an open connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)

        def serve() -> None:
            with listening.accept()[0] as connection:
                connection.settimeout(60)
                connection.recv(100)
                if answer is None:
                    connection.recv(100)
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "is no Kafka broker"),
        (b"", "it closed the connection"),
        (b"\0\0\0\6\0\0\0\7\0\x23", "error 35"),
        (None, "did not answer within 0.2 s"),
    ],
)
def test_one_that_is_no_broker_is_said_to_be_none(answer: bytes | None, words: str, ping: Ping) -> None:
    with server(answer) as address:
        status, output, errors = ping("-b", address, "--timeout", "0.2")
    assert (status, output) == (1, "") and words in errors and errors.count("\n") == 1


def test_other_commands_do_not_advise_to_start_a_broker_where_another_server_listens() -> None:
    for command in (["topics", "list"], ["doctor"]):
        with server(b"HTTP/1.1 400 Bad Request\r\n") as address:
            ended = run(*command, "-b", address)
        assert ended.exit_code == 1
        assert f"cannot use {address}" in ended.stdout + ended.stderr
        assert "odradek serve" not in ended.stdout + ended.stderr


def test_a_health_check_imports_next_to_nothing(tmp_path: Path) -> None:
    with threaded_broker(tmp_path) as broker:
        answered = f"{broker.address} answered in "
        code = (
            "import json, sys; before = set(sys.modules); from odradek.__main__ import run\n"
            f"sys.argv = ['odradek', 'ping', '-b', '{broker.address}']\n"
            "try: run()\n"
            "finally: print(json.dumps(sorted(sys.modules.keys() - before)))"
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    line, names = ended.stdout.splitlines()
    assert line.startswith(answered)
    imported = set(json.loads(names))
    assert imported - OURS <= {*SOCKETS.split()} and {name for name in imported if "odradek" in name} == OURS
