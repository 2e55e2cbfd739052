"""A command that has lost its broker says so after a second, and when it is there again."""

from __future__ import annotations

import subprocess
from pathlib import Path

from odradek.tests.support.command import command_line, odradek
from odradek.tests.support.lines import Lines
from odradek.tests.support.process import BrokerProcess


def test_reconnecting_is_said_and_records_come_again(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path).start()
    try:
        assert odradek(broker.address, "topics", "create", "steady").returncode == 0
        args = command_line(broker.address, "consume", "steady")
        with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
            try:
                lines = Lines(running)
                send(broker.address, "first")
                assert lines.next(20) == "first\n"
                broker.kill()
                assert lines.next(20) == f"odradek: the connection to {broker.address} is lost, trying again\n"
                broker.start()
                assert lines.next(20) == "odradek: connected again\n"
                send(broker.address, "second")
                assert lines.next(20) == "second\n"
            finally:
                running.kill()
    finally:
        broker.close()


def send(address: str, line: str) -> None:
    subprocess.run(command_line(address, "produce", "steady"), input=line, text=True, check=True, timeout=30)
