"""`odradek serve --registry` and `--console`: services that begin and end with their broker."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from odradek.cli.child import registry_options
from odradek.client.errors import SchemaRegistryRefused
from odradek.client.schemas import Schema, SchemaRegistry
from odradek.tests.support.brokers.lines import first_line
from odradek.tests.support.documents.command import completed

ENDS_WITHIN_S = 120.0


class Child(NamedTuple):
    url: str
    pid: int


class Serving:
    """A broker with a registry and maybe a console, whose log is read as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Read the log up to a line. Fails where it ends before."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(pattern, line)
            if found is not None:
                return found
        raise AssertionError("".join(self.lines))

    def children(self, count: int) -> dict[str, Child]:
        """Wait until that many are ready; return them by their commands."""
        urls = dict(self.wait_for(r"the (?:schema )?(\w+) is ready (\S+)").groups() for _ in range(count))
        listed = subprocess.run(
            ["ps", "-o", "pid=,args=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=True
        )
        pids = {
            name: int(line.split()[0]) for line in listed.stdout.splitlines() for name in urls if f" {name} " in line
        }
        return {name: Child(url, pids[name]) for name, url in urls.items()}


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Serving]:
    command = [sys.executable, "-m", "odradek", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(folder / "data")]
    with subprocess.Popen(
        [*command, "--registry", "0", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        # A line that does not come is the end of the log, and not a wait for ever.
        bound = threading.Timer(ENDS_WITHIN_S, process.kill)
        bound.start()
        try:
            yield Serving(process)
        finally:
            bound.cancel()
            process.kill()
            process.communicate(timeout=30)


def answer(url: str, path: str, host: str) -> tuple[int, str]:
    """Return the status and the body that a service has for a path under a name."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    connection.request("GET", path, headers={"host": host})
    found = connection.getresponse()
    body = found.read().decode()
    connection.close()
    return found.status, body


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # A zombie whose parent, pid 1 of a container, does not wait for it has ended, too.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def wait_until_ended(pid: int) -> None:
    until = time.monotonic() + 60
    while not has_ended(pid):
        assert time.monotonic() < until, "the registry outlives its broker"
        time.sleep(0.02)


def test_a_registry_and_a_console_begin_and_end_with_their_broker(tmp_path: Path) -> None:
    with serving(tmp_path, "--console", "0", "--allow-host", "registry.example") as running:
        children = running.children(2)
        url = children["registry"].url
        assert SchemaRegistry(url).register("s", Schema('"int"')) == 1
        assert [answer(url, "/subjects", host)[0] for host in ("registry.example", "other.example")] == [200, 403]
        status, page = answer(children["console"].url, "/topics", "127.0.0.1")
        assert status == 200 and "_schemas" in page
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == 0
        for each in children.values():
            wait_until_ended(each.pid)
        assert running.process.stdout is not None
        assert [line.split()[0] for line in running.process.stdout] == ["ready"]
        assert running.process.stderr is not None
        assert "has ended" not in "".join([*running.lines, *running.process.stderr])


def test_the_broker_goes_on_without_a_child_that_dies_and_the_other_ends_with_a_broker_that_is_killed(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, "--console", "0") as running:
        children = running.children(2)
        os.kill(children["registry"].pid, signal.SIGKILL)
        running.wait_for("the schema registry has ended with status -9; the broker goes on without it")
        assert completed("ping", "-b", first_line(running.process).split()[1]).returncode == 0
        assert not has_ended(children["console"].pid)
        running.process.kill()
        wait_until_ended(children["console"].pid)


def test_over_a_secure_broker_it_has_tls_and_the_first_user(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="serve --secure makes certificates (extra `certs`)")
    with serving(tmp_path, "--secure", "--listen", "127.0.0.1:0") as running:
        registry = running.children(1)["registry"]
        secrets = tmp_path / "data.secure"
        address = first_line(running.process).split()[1]
        for name in ("client.properties", "librdkafka.properties"):
            assert f"bootstrap.servers={address}\n" in (secrets / name).read_text()
            assert (secrets / name).stat().st_mode & 0o77 == 0
        login = (secrets / "registry.login").read_text().strip()
        assert (secrets / "registry.login").stat().st_mode & 0o77 == 0
        client = SchemaRegistry(registry.url, login=login, ca_file=str(secrets / "ca.pem"))
        assert client.register("s", Schema('"int"')) == 1
        with pytest.raises(SchemaRegistryRefused, match="Unauthorized"):
            SchemaRegistry(registry.url, ca_file=str(secrets / "ca.pem")).subjects()
        command = Path(f"/proc/{registry.pid}/cmdline").read_text()
        assert login.partition(":")[2] not in command


def test_a_console_knows_the_registry_that_runs_beside_it(tmp_path: Path) -> None:
    files = ["--registry-login-file", str(tmp_path / "registry.login"), "--registry-ca", str(tmp_path / "ca.pem")]
    assert registry_options("127.0.0.1:8081", None) == ["--registry", "http://127.0.0.1:8081"]
    assert registry_options("0.0.0.0:8081", tmp_path) == ["--registry", "https://127.0.0.1:8081", *files]
    assert registry_options("127.0.0.1:0", None) == []
    assert registry_options(":8081", None) == ["--registry", "http://127.0.0.1:8081"]
    assert registry_options("[::]:8081", None) == ["--registry", "http://[::1]:8081"]  # it listens by IPv6 alone


def test_a_listener_that_asks_for_a_login_is_refused(tmp_path: Path) -> None:
    refused = completed(
        "serve", "--set", "listeners=SASL_PLAINTEXT://127.0.0.1:0", "--set", "sasl.enabled.mechanisms=PLAIN",
        "--data-dir", str(tmp_path), "--registry", "8081",
    )  # fmt: skip
    assert refused.returncode == 2 and "--registry needs --secure" in refused.stderr
