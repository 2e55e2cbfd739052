"""docs/security.md as a new user follows it: the first section, line by line, at a broker that it starts."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from odradek.tests.support.brokers.process import BrokerProcess, free_port
from odradek.tests.support.documents.shell import run_line
from odradek.tests.test_docs import ROOT

pytest.importorskip("cryptography", reason="serve --secure makes certificates (extra `certs`)")

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


class Secure(BrokerProcess):
    """The broker of the section's first block."""

    @property
    def data_dir(self) -> Path:
        return self.folder / "odradek-data"

    def command(self) -> list[str]:
        serve = ["serve", "--secure", "--listen", self.address, "--data-dir", str(self.data_dir)]
        return [sys.executable, *self.program(), *serve]


def lines_of(title: str) -> list[str]:
    """The command lines of a section's blocks."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return [line for kind, block in blocks if not kind for line in block.replace("\\\n", " ").splitlines()]


def test_the_first_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ODRADEK_CONFIG", str(tmp_path / "profiles.toml"))
    for name in ("ODRADEK_BOOTSTRAP_SERVER", "ODRADEK_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    lines = lines_of("One machine, in a minute")
    assert [line.split()[:2] for line in lines[:2]] == [["pip", "install"], ["odradek", "serve"]]
    broker = Secure(tmp_path)
    broker.address = f"0.0.0.0:{free_port()}"
    try:
        broker.start()
        for line in lines[2:]:
            if line.startswith("kcat") and shutil.which("kcat") is None:
                continue
            ended = run_line(line, tmp_path)
            assert ended.status == 0, (line, ended)
            if "consume" in line:
                assert ended.out == "1\n2\n3\n"
        assert "alice" in run_line("odradek users list", tmp_path).out
    finally:
        broker.close()


class Team(BrokerProcess):
    """The broker of the section about teams."""

    def command(self) -> list[str]:
        serve = ["serve", "--config", str(self.folder / "server.properties"), "--data-dir", "team-data"]
        return [sys.executable, *self.program(), *serve]


def test_a_team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ODRADEK_CONFIG", str(tmp_path / "profiles.toml"))
    monkeypatch.delenv("ODRADEK_BOOTSTRAP_SERVER", raising=False)
    port = str(free_port())

    def here(text: str) -> str:
        return text.replace("broker-1.example", "localhost").replace("10.0.0.7", "127.0.0.1").replace("9093", port)

    properties = re.search(r"## A team\n.*?```properties\n(.*?)```", PAGE, re.DOTALL)
    assert properties is not None
    (tmp_path / "server.properties").write_text(here(properties[1]))
    broker = Team(tmp_path)
    broker.address = f"localhost:{port}"
    try:
        for line in map(here, lines_of("A team")):
            if line.startswith("odradek serve"):
                broker.start()
                continue
            ended = run_line(line, tmp_path)
            assert ended.status == 0, (line, ended)
        for line in ("topics create orders --profile team", "users list --profile team"):
            ended = run_line(f"odradek {line}", tmp_path)
            assert ended.status == 0, ended
    finally:
        broker.close()
