"""`odradek serve --registry`: a registry that begins and ends with its broker."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from odradek.client.errors import SchemaRegistryRefused
from odradek.client.schemas import Schema, SchemaRegistry
from odradek.tests.support.documents.command import completed

READY = re.compile(r"the schema registry is ready (\S+)")


class Serving:
    """A broker with a registry, whose log is read as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []

    def wait_for(self, pattern: str | re.Pattern[str]) -> re.Match[str]:
        """Read the log up to a line. Fails where it ends before."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(pattern, line)
            if found is not None:
                return found
        raise AssertionError("".join(self.lines))

    def registry_process(self) -> int:
        """Return the id of the child process."""
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=True
        )
        (found,) = [int(each) for each in listed.stdout.split()]
        return found


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Serving]:
    command = [sys.executable, "-m", "odradek", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(folder / "data")]
    with subprocess.Popen(
        [*command, "--registry", "0", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Serving(process)
        finally:
            process.kill()
            process.communicate(timeout=30)


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


def test_a_registry_begins_and_ends_with_its_broker(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        url = running.wait_for(READY)[1]
        assert SchemaRegistry(url).register("s", Schema('"int"')) == 1
        pid = running.registry_process()
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == 0
        wait_until_ended(pid)
        assert running.process.stdout is not None
        assert [line.split()[0] for line in running.process.stdout] == ["ready"]
        assert running.process.stderr is not None
        assert "has ended" not in "".join([*running.lines, *running.process.stderr])


def test_a_registry_ends_with_a_broker_that_is_killed(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        running.wait_for(READY)
        pid = running.registry_process()
        running.process.kill()
        wait_until_ended(pid)


def test_the_broker_goes_on_without_a_registry_that_dies(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        running.wait_for(READY)
        os.kill(running.registry_process(), signal.SIGKILL)
        running.wait_for("the schema registry has ended with status -9; the broker goes on without it")
        assert running.process.poll() is None


def test_over_a_secure_broker_it_has_tls_and_the_first_user(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="serve --secure makes certificates (extra `certs`)")
    with serving(tmp_path, "--secure", "--listen", "127.0.0.1:0") as running:
        url = running.wait_for(READY)[1]
        secrets = tmp_path / "data.secure"
        assert running.process.stdout is not None
        address = running.process.stdout.readline().split()[1]
        for name in ("client.properties", "librdkafka.properties"):
            assert f"bootstrap.servers={address}\n" in (secrets / name).read_text()
            assert (secrets / name).stat().st_mode & 0o77 == 0
        login = (secrets / "registry.login").read_text().strip()
        assert (secrets / "registry.login").stat().st_mode & 0o77 == 0
        client = SchemaRegistry(url, login=login, ca_file=str(secrets / "ca.pem"))
        assert client.register("s", Schema('"int"')) == 1
        with pytest.raises(SchemaRegistryRefused, match="Unauthorized"):
            SchemaRegistry(url, ca_file=str(secrets / "ca.pem")).subjects()
        command = Path(f"/proc/{running.registry_process()}/cmdline").read_text()
        assert login.partition(":")[2] not in command


def test_a_listener_that_asks_for_a_login_is_refused(tmp_path: Path) -> None:
    refused = completed(
        "serve", "--set", "listeners=SASL_PLAINTEXT://127.0.0.1:0", "--set", "sasl.enabled.mechanisms=PLAIN",
        "--data-dir", str(tmp_path), "--registry", "8081",
    )  # fmt: skip
    assert refused.returncode == 2 and "--registry needs --secure" in refused.stderr


def test_the_registry_is_served_under_the_names_of_allow_host_too(tmp_path: Path) -> None:
    with serving(tmp_path, "--allow-host", "registry.example") as running:
        address = running.wait_for(READY)[1].removeprefix("http://")
        statuses: list[int] = []
        for host in ("registry.example", "other.example"):
            connection = http.client.HTTPConnection(address, timeout=30)
            connection.request("GET", "/subjects", headers={"host": host})
            statuses.append(connection.getresponse().status)
            connection.close()
    assert statuses == [200, 403]
