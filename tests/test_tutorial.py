"""The tutorial's lines and programs run in their order, and print what it shows."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.tests.support.brokers.lines import Lines
from odradek.tests.support.brokers.process import free_port
from odradek.tests.support.clusters.zookeeper import why_missing
from odradek.tests.support.documents.command import threaded_broker
from odradek.tests.support.documents.page import WITHIN_S, Reader
from odradek.tests.support.spark.spark_jvm import environment
from odradek.tests.test_docs import ROOT

SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", (ROOT / "docs" / "tutorial.md").read_text(), re.MULTILINE))
ON_ONE_BROKER = ("A broker and a topic", "A group", "A transaction")
FIRST_ADDRESS, CLUSTER_PORT = "127.0.0.1:9092", 9192


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A reader who has followed the sections on one broker, which runs."""
    folder = tmp_path_factory.mktemp("tutorial")
    with threaded_broker(folder / "odradek-data") as broker, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ODRADEK_BOOTSTRAP_SERVER", broker.address)
        found = Reader(folder, {FIRST_ADDRESS: broker.address})
        for section in ON_ONE_BROKER:
            found.follow(SECTIONS[section])
        yield found


def test_every_section_is_run() -> None:
    assert tuple(SECTIONS) == (*ON_ONE_BROKER, "Spark", "A cluster")


def test_topics_a_group_and_a_transaction(reader: Reader) -> None:
    assert (reader.folder / "late.py").exists()


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java, and there is none")
def test_spark(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="the section needs pyspark (extra `spark`)")
    pytest.importorskip("pyiceberg", reason="the section needs pyiceberg (extra `archive`)")
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    reader.follow(SECTIONS["Spark"])


@pytest.mark.skipif(bool(why_missing()), reason=why_missing())
def test_a_cluster(tmp_path: Path) -> None:
    port = four_free_ports()
    command = re.findall(r"^\$ odradek (cluster start .*)$", SECTIONS["A cluster"], re.MULTILINE)[0]
    jars = ["--zookeeper-jars", os.environ["KAFKA39_LIB"]] if "KAFKA39_LIB" in os.environ else []
    words = [*command.replace(str(CLUSTER_PORT), str(port)).split(), *jars]
    with (tmp_path / "said").open("w") as said:
        running = subprocess.Popen(
            [sys.executable, "-m", "odradek", *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=said, text=True
        )
    try:
        assert (Lines(running).next(WITHIN_S) or "").startswith(f"ready 127.0.0.1:{port},")
        (pid,) = re.findall(r"^broker 1 is process (\d+)", (tmp_path / "said").read_text(), re.MULTILINE)
        own = {f"127.0.0.1:{CLUSTER_PORT + number}": f"127.0.0.1:{port + number}" for number in range(3)}
        Reader(tmp_path, {**own, "PID": pid}).follow(SECTIONS["A cluster"])
    finally:
        running.send_signal(signal.SIGTERM)
        assert running.wait(WITHIN_S) == 0
        assert running.stdout is not None
        running.stdout.close()


def four_free_ports() -> int:
    """Return a port that is free, as are the one before and the two behind it."""
    while True:
        port = free_port()
        try:
            for each in (port - 1, port, port + 1, port + 2):
                socket.create_server(("127.0.0.1", each)).close()
        except OSError:
            continue
        return port
