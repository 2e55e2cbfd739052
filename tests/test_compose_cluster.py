"""docker/compose-cluster.yaml: its brokers fit together, and their commands make a cluster on a real ZooKeeper."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from odradek import __version__
from odradek.tests.support.brokers.lines import Lines
from odradek.tests.support.brokers.process import free_port
from odradek.tests.support.clusters.zookeeper import why_missing, zookeeper
from odradek.tests.support.documents.containers import ROOT, base_image, composed, engine_with, skip_if_taken, wait_for
from odradek.tests.support.documents.containers import odradek as command

FILE = ROOT / "docker" / "compose-cluster.yaml"
COMPOSE = FILE.read_text(encoding="utf-8")
NUMBERS = (1, 2, 3)
READY_WITHIN_S = 60


def service(name: str) -> str:
    """The text of one service."""
    found = re.search(rf"^  {name}:\n((?:    .*\n|\n)+)", COMPOSE, re.MULTILINE)
    assert found is not None, f"there is no service {name}"
    return found[1]


def items(text: str, key: str) -> list[str]:
    """The list under a key of a service."""
    found = re.search(rf"^    {key}:\n((?:      - .*\n)+)", text, re.MULTILINE)
    assert found is not None, f"there is no {key}"
    return [line.strip().removeprefix("- ").strip('"') for line in found[1].splitlines()]


def settings(number: int) -> dict[str, str]:
    """What a broker is given with --set."""
    words = items(service(f"broker-{number}"), "command")
    return dict(word.removeprefix("--set=").split("=", 1) for word in words if word.startswith("--set="))


def test_the_brokers_differ_in_their_number_names_ports_and_volumes_alone() -> None:
    for number in NUMBERS:
        text, given = service(f"broker-{number}"), settings(number)
        assert given.pop("broker.id") == str(number)
        # Brokers reach each other over the first listener, by the name of the service.
        inner, outer = given.pop("advertised.listeners").split(",")
        assert inner == f"INTERNAL://broker-{number}:19092"
        # Clients are told the port that is published, to this machine alone.
        (published,) = items(text, "ports")
        port = outer.removeprefix("PLAINTEXT://localhost:")
        assert published == f"127.0.0.1:{port}:9092" and port == str(9091 + number)
        assert items(text, "volumes") == [f"broker-{number}:/data"]
        assert given == {
            "zookeeper.connect": "zookeeper:2181/odradek",
            "listeners": "INTERNAL://0.0.0.0:19092,PLAINTEXT://0.0.0.0:9092",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
        }
    assert "ports:" not in service("zookeeper"), "nobody but the brokers needs ZooKeeper"
    declared = re.findall(r"^  (\S+):$", COMPOSE.partition("\nvolumes:\n")[2], re.MULTILINE)
    assert declared == ["zookeeper", "zookeeper-log", *(f"broker-{number}" for number in NUMBERS)]
    assert f"image: odradek:{__version__}" in COMPOSE and f'VERSION: "{__version__}"' in COMPOSE
    assert "depends_on: [zookeeper]" in COMPOSE and re.search(r"^  init: true$", COMPOSE, re.MULTILINE)


@pytest.mark.skipif(bool(why_missing()), reason=why_missing())
def test_the_commands_of_the_containers_make_a_cluster(tmp_path: Path) -> None:
    """The same words run here, with addresses of this machine in the place of the containers' names."""
    ports = {number: (free_port(), free_port()) for number in NUMBERS}
    addresses = ",".join(f"127.0.0.1:{outer}" for _, outer in ports.values())
    with zookeeper(tmp_path / "zookeeper") as ensemble, ExitStack() as stack:
        started: list[Lines] = []
        for number, (inner, outer) in ports.items():
            command = [sys.executable, "-m", "odradek"]
            for word in items(service(f"broker-{number}"), "command"):
                for container, here in (
                    ("zookeeper:2181", ensemble.address),
                    ("0.0.0.0:19092", f"127.0.0.1:{inner}"),
                    (f"broker-{number}:19092", f"127.0.0.1:{inner}"),
                    ("0.0.0.0:9092", f"127.0.0.1:{outer}"),
                    (f"localhost:{9091 + number}", f"127.0.0.1:{outer}"),
                    ("/data", str(tmp_path / f"broker-{number}")),
                ):
                    word = word.replace(container, here)
                command.append(word)
            log = stack.enter_context((tmp_path / f"broker-{number}.log").open("w"))
            broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
            lines = Lines(broker)
            stack.callback(lines.rest)
            stack.callback(broker.wait, READY_WITHIN_S)
            stack.callback(broker.kill)
            started.append(lines)
        for lines in started:
            assert (lines.next(READY_WITHIN_S) or "").startswith("ready ")

        def odradek(*words: str) -> str:
            done = subprocess.run(
                [sys.executable, "-m", "odradek", *words, "-b", addresses],
                capture_output=True,
                text=True,
                check=False,
                timeout=READY_WITHIN_S,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        odradek("topics", "create", "flights", "--partitions", "3")
        described = odradek("topics", "describe", "flights", "--json")
        assert described.count('"isr": [') == 3, described
        assert odradek("topics", "describe", "--under-replicated", "--json") == ""
        odradek("cluster", "health")


def test_an_engine_starts_a_cluster_that_outlives_one_of_its_brokers(tmp_path: Path) -> None:
    (image,) = re.findall(r"image: (\S+)", service("zookeeper"))
    engine = engine_with(base_image(), image)
    engine.build()  # once, and not for each service at the same time
    published = {number: f"localhost:{9091 + number}" for number in NUMBERS}
    skip_if_taken(*published.values())
    services = ("zookeeper", *(f"broker-{number}" for number in NUMBERS))
    with composed(FILE, services, tmp_path):

        def odradek(*words: str, stdin: str = "") -> str:
            done = command(*words, stdin=stdin)
            return done.stdout if done.returncode == 0 else f"{words}: {done.stdout}{done.stderr}"

        def in_sync(address: str) -> str:
            rows = odradek("topics", "describe", "flights", "--json", "-b", address).splitlines()
            return " ".join(str(len(json.loads(row).get("isr", ()))) for row in rows if row.startswith("{"))

        for address in published.values():
            wait_for("0", lambda at=address: str(command("cluster", "health", "-b", at).returncode))
        assert odradek("topics", "create", "flights", "--partitions", "3", "-b", published[1]) == ""
        wait_for("3 3 3", lambda: in_sync(published[2]))
        lines = "".join(f"{number}\n" for number in range(300))
        assert odradek("produce", "flights", "-b", published[1], stdin=lines) == ""
        # The name of its container differs from one composer to the next.
        (killed,) = [name for name in engine("ps", "--format", "{{.Names}}").splitlines() if "broker-1" in name]
        engine("kill", killed)
        wait_for("2 2 2", lambda: in_sync(published[3]))
        read = odradek("consume", "flights", "--until-end", "-b", published[3])
        assert sorted(read.split(), key=int) == lines.split()
        assert odradek("produce", "flights", "-b", published[2], stdin="again\n") == ""
