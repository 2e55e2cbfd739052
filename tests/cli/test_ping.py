"""`odradek ping`: cheap, and right about who answers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from odradek.tests.support.command import run, threaded_broker


def test_a_broker_answers(tmp_path: Path) -> None:
    with threaded_broker(tmp_path) as broker:
        ended = run("ping", "-b", broker.address)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"{broker.config.listeners[0][12:-2]}") and " answered in " in ended.stdout


def test_every_broker_is_asked_and_json_says_which_answered(tmp_path: Path) -> None:
    with threaded_broker(tmp_path) as broker:
        address = broker.address
        ended = run("ping", "-b", f"127.0.0.1:1,{address}", "--json")
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert (ended.exit_code, ended.stderr.count("\n")) == (1, 1)
    assert [(each["broker"], each["answered"]) for each in found] == [("127.0.0.1:1", False), (address, True)]
    assert found[0]["time_ms"] is None and found[1]["time_ms"] > 0


def test_nobody_there_is_one_line() -> None:
    remedy = 'Start a broker with "odradek serve", or pass -b.'
    ended = run("ping", "-b", "127.0.0.1:1")
    assert ended.stderr == f"odradek: cannot reach 127.0.0.1:1 (connection refused). {remedy}\n"
    assert "no such host" in run("ping", "-b", "nobody.invalid:1").stderr


@pytest.mark.parametrize("address", ["h:0", "h:x", ":1", "h:99999"])
def test_a_bad_address_is_wrong_usage(address: str) -> None:
    assert run("ping", "-b", address).exit_code == 2


@contextmanager
def server(answer: bytes | None) -> Iterator[str]:
    """Answers one connection with these bytes, or with none and an open connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with listening.accept()[0] as connection:
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
def test_one_that_is_no_broker_is_said_to_be_none(answer: bytes | None, words: str) -> None:
    with server(answer) as address:
        ended = run("ping", "-b", address, "--timeout", "0.2")
    assert ended.exit_code == 1 and words in ended.stderr and ended.stderr.count("\n") == 1


def test_other_commands_do_not_advise_to_start_a_broker_where_another_server_listens() -> None:
    for command in (["topics", "list"], ["doctor"]):
        with server(b"HTTP/1.1 400 Bad Request\r\n") as address:
            ended = run(*command, "-b", address)
        assert ended.exit_code == 1
        assert f"cannot use {address}" in ended.stdout + ended.stderr
        assert "odradek serve" not in ended.stdout + ended.stderr


def test_it_loads_no_client_and_no_event_loop() -> None:
    code = "import odradek.cli.ping, sys; print([m for m in sys.modules if m == 'asyncio' or 'odradek.client' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
