"""`odradek registry`: ready when clients can connect, and nothing that it answered is lost when it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.tests.support.brokers.lines import first_line
from odradek.tests.support.brokers.process import FEW_PARTITIONS
from odradek.tests.support.documents.command import completed

BODY = json.dumps({"schema": '"string"'}).encode()


@contextmanager
def registry(address: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "odradek", "registry", "-b", address, "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            ready = first_line(process).split()
            assert ready[:1] == ["ready"], process.communicate(timeout=30)
            yield process, ready[1]
        finally:
            process.kill()
            process.communicate(timeout=30)


def test_a_killed_registry_has_lost_nothing(tmp_path: Path) -> None:
    config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(str(tmp_path),), **FEW_PARTITIONS)
    with Broker(config) as broker:
        with registry(broker.address) as (process, url):
            request = urllib.request.Request(f"{url}/subjects/s/versions", method="POST", data=BODY)
            request.add_header("content-type", "application/json")
            with urllib.request.urlopen(request) as answer:
                assert json.loads(answer.read()) == {"id": 1}
            process.kill()
        with registry(broker.address, "--read-only") as (process, url):
            with urllib.request.urlopen(f"{url}/schemas/ids/1") as answer:
                assert json.loads(answer.read()) == {"schema": '"string"'}
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


@pytest.mark.parametrize("command", ["registry", "console"])
def test_what_a_server_cannot_use_is_said_plainly(command: str, tmp_path: Path) -> None:
    none, text = tmp_path / "none", tmp_path / "text"
    text.write_bytes(b"\xff")
    with Broker.ephemeral() as broker:
        options = [command, "-b", broker.address, "--listen"]
        for rest, words in (
            ([broker.address], f"cannot listen on {broker.address}: address already in use (choose another --listen;"),
            (["127.0.0.1:0", "--login-file", str(none)], f"--login-file {none}: No such file or directory\n"),
            (["127.0.0.1:0", "--login-file", str(text)], f"--login-file {text}: is no text in UTF-8\n"),
            (["127.0.0.1:0", "--tls-cert", str(text)], f"{text}: no PEM file of a certificate with its key\n"),
        ):
            ended = completed(*options, *rest)
            assert ended.returncode == 1
            assert words in ended.stderr
            assert "Errno" not in ended.stderr


@pytest.mark.parametrize("command", ["registry", "console"])
def test_a_server_whose_standard_output_nobody_reads_serves(command: str) -> None:
    read, write = os.pipe()
    os.close(read)
    with Broker.ephemeral() as broker:
        options = [command, "-b", broker.address, "--listen", "127.0.0.1:0"]
        command_line = [sys.executable, "-m", "odradek", *options]
        with subprocess.Popen(command_line, stdout=write, stderr=subprocess.PIPE, text=True) as process:
            os.close(write)
            try:
                assert process.stderr is not None
                assert any("cannot print the line `ready`" in line for line in process.stderr)
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
            finally:
                process.kill()
