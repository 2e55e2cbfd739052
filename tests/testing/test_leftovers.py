"""What a Kafka of a test leaves behind: no thread, open file, directory, process or port."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from odradek.testing import Kafka, KafkaCluster, KafkaProcess, LocalKafka, interventions, process
from odradek.testing.errors import Unavailable

KINDS: list[Callable[[], LocalKafka | KafkaCluster | KafkaProcess]] = [
    LocalKafka,
    lambda: LocalKafka(tls=True, users={"a": "b"}),
    KafkaCluster,
    KafkaProcess,
]


def use(kafka: Kafka) -> list[str]:
    """Do a little of everything; return the addresses."""
    kafka.put("t", ["v"])
    assert len(kafka.records("t")) == 1
    if isinstance(kafka, LocalKafka):
        kafka.snapshot()
        kafka.restore()
    if isinstance(kafka, KafkaCluster):
        kafka.kill(1)
        kafka.isolate(2)
    return kafka.address.split(",")


def seen() -> tuple[set[str], set[str], set[str]]:
    """The threads, the kinds of open files, and the directories of brokers of this process."""
    gc.collect()
    threads = {each.name for each in threading.enumerate()}
    files: list[str] = []
    for each in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            files.append(os.readlink(f"/proc/self/fd/{each}"))
    own = {each for each in files if "odradek" in each or each.startswith("socket:")}
    folders = {each.name for each in Path(tempfile.gettempdir()).glob(f"odradek-ephemeral-{os.getpid()}-*")}
    return threads, own, folders


def left_since(before: tuple[set[str], ...]) -> list[set[str]]:
    """What there is more than `before`. A thread that has done its work takes a moment to end."""
    until_s = time.monotonic() + 20
    while any(left := [found - known for found, known in zip(seen(), before, strict=True)]):
        if time.monotonic() > until_s:
            break
        time.sleep(0.01)
    return left


def children() -> set[str]:
    """The ids of the processes that this process has started, also of those that ended and nobody waited for."""
    return set().union(*(each.read_text().split() for each in Path("/proc/self/task").glob("*/children")))


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """What a first client starts stays for the next one: its loop's thread."""
    with LocalKafka() as first:
        use(first)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not list open files in /proc")
@pytest.mark.parametrize("kind", KINDS, ids=["local", "secure", "cluster", "process"])
def test_nothing_is_left(kind: Callable[[], LocalKafka | KafkaCluster | KafkaProcess]) -> None:
    before = seen()
    with kind() as kafka:
        addresses = use(kafka)
    assert left_since(before) == [set(), set(), set()]
    for each in addresses:
        host, _, port = each.rpartition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), 10)


def test_a_start_that_fails_leaves_nothing() -> None:
    before = seen()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for kind in (LocalKafka, KafkaProcess):
            with pytest.raises(Exception, match=r"in use|did not start"):
                kind({"listeners": f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"})
    assert left_since(before) == [set(), set(), set()]


# Where Ctrl-C, or the signal of pytest-timeout, meets a start.
INTERRUPTED = [
    (LocalKafka, Kafka, "_set_passwords"),
    (LocalKafka, interventions, "clear"),
    (KafkaProcess, process, "_first_line"),
    (KafkaCluster, KafkaCluster, "_settle"),
]


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("kind", "owner", "name"), INTERRUPTED, ids=lambda each: getattr(each, "__name__", each))
def test_an_interrupted_start_leaves_nothing(
    kind: Callable[[], Kafka], owner: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, known = seen(), children()
    monkeypatch.setattr(owner, name, interrupt)
    with pytest.raises(KeyboardInterrupt):
        with kind() as kafka:
            kafka.reset()
    assert left_since(before) == [set(), set(), set()]
    assert children() <= known


def test_a_program_that_closes_nothing_leaves_nothing(tmp_path: Path) -> None:
    """As a notebook does. The kit runs on until the program ends, though nobody holds it with `with`."""
    code = """if True:
        import gc
        from odradek.testing import KafkaProcess, kafka, kafka_cluster
        running = [kafka(), kafka_cluster(), KafkaProcess()]
        gc.collect()
        for each in running:
            each.put("t", ["v"])
            assert len(each.records("t")) == 1
    """
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, check=True, timeout=120)
    assert list(tmp_path.iterdir()) == []


def test_configs_that_cannot_be_leave_nothing() -> None:
    before = seen()
    for kind in (LocalKafka, KafkaProcess, KafkaCluster):
        with pytest.raises(Unavailable, match="leave the config listeners out"):
            kind({"listeners": "PLAINTEXT://127.0.0.1:0"}, tls=True)
    assert seen()[2] == before[2]
