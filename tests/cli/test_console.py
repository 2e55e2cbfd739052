"""`odradek console`: what makes none, and the users of a secure broker. `serve --console` is in test_child."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest
from odradek.tests.console.conftest import Browser
from odradek.tests.support.brokers.lines import first_line
from odradek.tests.support.documents.command import completed

WAIT_S = 30


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--listen", "0.0.0.0:0"], "everybody in the network could use this console"),
        (["--listen", "8080"], "--listen needs HOST:PORT"),
        (["--login-file", "/nowhere", "--cluster-login"], "choose one"),
        (["--login-file", "/nowhere"], "--login-file /nowhere"),
        (["--tls-key", "key.pem"], "--tls-key needs --tls-cert"),
        (["--history-file", "/proc/version"], "no history of a console"),
        (["--history-file", "/nowhere/file"], "/nowhere/file cannot be written: its folder does not exist"),
    ],
)
def test_what_makes_no_console_is_one_line(broker: str, options: list[str], text: str) -> None:
    ended = completed("console", "-b", broker, *options)
    assert ended.returncode in (1, 2) and text in ended.stderr and "Traceback" not in ended.stderr, ended.stderr


def test_over_a_secure_broker_users_log_in_and_see_what_their_acls_allow(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="serve --secure makes certificates (extra `certs`)")
    command = [sys.executable, "-m", "odradek", "serve", "--secure", "--listen", "127.0.0.1:0"]
    command += ["--data-dir", str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as broker:
        try:
            address = first_line(broker).split()[1]
            file = tmp_path / "data.secure" / "client.properties"
            options = [
                each for line in file.read_text().splitlines() if "bootstrap" not in line for each in ("-X", line)
            ]
            for given in (["open"], ["hidden"]):
                assert completed("topics", "create", *given, "-b", address, *options).returncode == 0
            (tmp_path / "password").write_text("wonderland")
            added = completed(
                "users", "set", "alice", "--password-file", tmp_path / "password", "-b", address, *options
            )
            assert added.returncode == 0, added.stderr
            assert completed("acls", "add", "alice", "describe", "topic:open", "-b", address, *options).returncode == 0
            _log_in(address, options)
        finally:
            broker.kill()
            broker.communicate(timeout=WAIT_S)


def _log_in(address: str, options: list[str]) -> None:
    command = [sys.executable, "-m", "odradek", "console", "-b", address, "--listen", "127.0.0.1:0", "--cluster-login"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as console:
        try:
            url = first_line(console).split()[1]
            asyncio.run(_walk(url))
        finally:
            console.kill()
            console.communicate(timeout=WAIT_S)


async def _walk(url: str) -> None:
    alice = Browser(url, {"authorization": f"Basic {b64encode(b'alice:wonderland').decode()}"})
    found = await alice.get("/topics")
    assert found.status == 200 and "open" in found.visible and "hidden" not in found.visible
    assert (await alice.get("/topics/hidden")).status == 404
    wrong = Browser(url, {"authorization": f"Basic {b64encode(b'alice:wrong').decode()}"})
    assert (await Browser(url).get("/topics")).status == (await wrong.get("/topics")).status == 401
