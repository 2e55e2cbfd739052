"""What systemd is told: that clients can connect, and that the broker stops."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from odradek.cli.service_notice import notify


def test_systemd_learns_that_a_broker_is_ready_and_that_it_stops(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(path)
        systemd.settimeout(30)
        command = [sys.executable, "-m", "odradek", "serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "data"]
        with subprocess.Popen(command, env={**os.environ, "NOTIFY_SOCKET": path}, stdout=subprocess.DEVNULL) as broker:
            try:
                assert systemd.recv(100) == b"READY=1"
                broker.send_signal(signal.SIGTERM)
                assert systemd.recv(100) == b"STOPPING=1"
                assert broker.wait(30) == 0
            finally:
                broker.kill()


def test_without_systemd_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")


def test_a_socket_that_is_gone_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "missing"))
    notify("READY=1")
    assert "cannot tell systemd READY=1" in caplog.text
