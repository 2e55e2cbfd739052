"""A broker as a process of its own, as users run it: start, stop, kill, restart on the same port and data.

`ODRADEK_TEST_REAL_KAFKA=1` with `KAFKA_LIB` uses a real Kafka instead: a test that fails on it is itself wrong.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from odradek.testing.process import halt
from odradek.tests.support.brokers.lines import Lines

# Much longer than a start takes where nothing else runs.
READY_WITHIN_S = 60.0
STOPPED_WITHIN_S = 10.0
# Linux hands out ports from 32768 on, macOS from 49152 on.
NOT_HANDED_OUT = range(15_000, 32_000)
TRACED = Path(__file__).parents[2] / "conformance" / "traced_broker.py"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
# Of the topics of coordinators. A directory with files for each of 50 would be most of what a test with a group costs.
FEW_PARTITIONS: dict[str, Any] = {
    "offsets_topic_num_partitions": 3,
    "transaction_state_log_num_partitions": 3,
    "share_coordinator_state_topic_num_partitions": 3,
}


class BrokerProcess:
    """`odradek serve`. The first start takes a free port, which later starts keep."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.folder = folder
        self.settings = FEW_PARTITIONS | settings
        self.address = "127.0.0.1:0"
        self.log = folder / "stderr.log"
        self._process: subprocess.Popen[str] | None = None
        self._lines: Lines | None = None

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    def start(self) -> BrokerProcess:
        """Start the broker, and return when a client can connect."""
        with self.log.open("a") as errors:
            self._process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=errors, text=True)
        self._lines = Lines(self._process)
        self.address = self.wait_until_ready(self._process, self._lines)
        return self

    def command(self) -> list[str]:
        command = [sys.executable, *self.program(), "serve"]
        command += ["--listen", self.address, "--data-dir", str(self.data_dir)]
        for name, value in self.settings.items():
            command += ["--set", f"{name.replace('_', '.')}={value}"]
        return command

    def program(self) -> list[str]:
        """Return the arguments of Python. ODRADEK_TEST_TRACE names a file for requests (traced_broker.py)."""
        trace = os.environ.get("ODRADEK_TEST_TRACE")
        return [str(TRACED), trace] if trace else ["-m", "odradek.broker"]

    def wait_until_ready(self, process: subprocess.Popen[str], lines: Lines) -> str:
        """Return the address in the `ready` line, which is the first on standard output."""
        line = lines.next(READY_WITHIN_S) or ""
        word, _, address = line.strip().partition(" ")
        assert word == "ready", f"the first line is {line!r}; {self.last_words()}"
        return address

    def stop(self) -> None:
        """Send SIGTERM, and check that the broker ends in time with status 0."""
        status = self.signal(signal.SIGTERM)
        assert status == 0, f"ended with status {status}; {self.last_words()}"

    def kill(self) -> None:
        """Send SIGKILL, like a crash of the process: the operating system keeps what was written."""
        self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> int:
        process, lines = self._process, self._lines
        assert process and lines, "not started"
        self._process = None
        process.send_signal(number)
        try:
            return process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"{number.name} did not end it in {STOPPED_WITHIN_S} s; {self.last_words()}") from None
        finally:
            lines.rest()

    def pause(self) -> None:
        """SIGSTOP: the process stays, and answers nothing until `go_on`."""
        assert self._process, "not started"
        halt(self._process)

    def go_on(self) -> None:
        """Let a paused process go on."""
        assert self._process, "not started"
        self._process.send_signal(signal.SIGCONT)

    @property
    def is_running(self) -> bool:
        """Whether it was started and nobody has stopped or killed it."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The process, while it runs."""
        assert self._process, "not started"
        return self._process.pid

    def memory_bytes(self, row: str = "VmRSS") -> int:
        """Return the resident memory of the process, or another row of its status."""
        return memory_bytes(row, self.pid)

    def close(self) -> None:
        """Stop the broker if it still runs. For fixtures."""
        if self._process is not None:
            self.stop()

    def last_words(self) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return f"its log ends: {text[-2000:]}"


class KafkaProcess(BrokerProcess):
    """Apache Kafka, one node, from the jars in `KAFKA_LIB`."""

    @property
    def data_dir(self) -> Path:
        return self.folder / "kafka-data"

    def start(self) -> BrokerProcess:
        if self.address.endswith(":0"):
            self.address = f"127.0.0.1:{free_port()}"
            self.format()
        return super().start()

    def format(self) -> None:
        controller = f"127.0.0.1:{free_port()}"
        lines = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{controller}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.data_dir,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "broker.session.timeout.ms": 3000,
        } | {name.replace("_", "."): value for name, value in self.settings.items()}
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        tool = [
            *java(),
            "kafka.tools.StorageTool",
            "format",
            "-t",
            "MkU3OEVBNTcwNTJENDM2Qk",
            "-c",
            str(self.properties),
        ]
        subprocess.run(tool, check=True, capture_output=True)

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    def command(self) -> list[str]:
        return [*java(), "kafka.Kafka", str(self.properties)]

    def wait_until_ready(self, process: subprocess.Popen[str], lines: Lines) -> str:
        import confluent_kafka.admin

        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            try:
                topics = admin.list_topics(timeout=1).topics.values()
                if all(p.leader >= 0 for topic in topics for p in topic.partitions.values()):
                    return self.address
            except confluent_kafka.KafkaException:
                assert process.poll() is None, "Kafka ended"
            assert time.monotonic() < deadline, "Kafka is not ready"

    def stop(self) -> None:
        assert self.signal(signal.SIGTERM) in (0, 143)


def broker_process(folder: Path, **settings: object) -> BrokerProcess:
    """Return the broker under test, not started. Settings are Kafka's names with underscores: `num_partitions=3`."""
    kind = KafkaProcess if os.environ.get("ODRADEK_TEST_REAL_KAFKA") else BrokerProcess
    return kind(folder, **settings)


def memory_bytes(row: str, process: int | str = "self") -> int:
    """Return a row of a process's status: `VmRSS` is its resident memory, `VmHWM` the largest so far."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{row}:")) * 1024


def java(*folders: Path) -> list[str]:
    """Return the command that runs a class of Kafka's jars, or of `folders`. KAFKA_LIB must be set."""
    path = os.pathsep.join([*map(str, folders), f"{os.environ['KAFKA_LIB']}/*"])
    # They end soon: what they would gain from the second compiler is less than it costs.
    return ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", path]


def javac(program: str, folder: Path) -> Path:
    """Compile a Java program of tests/support into `folder`, from which `java` can run it."""
    source = Path(__file__).parents[1] / f"{program}.java"
    subprocess.run(["javac", "-cp", f"{os.environ['KAFKA_LIB']}/*", "-d", str(folder), str(source)], check=True)
    return folder


def free_port() -> int:
    """Return a port for a process that is told its port and takes a while to listen, such as a real Kafka.

    It is none of those that the system hands out by itself: another test's broker, or a connection, could get one of
    those first. And it can be reached: a container that was killed may leave a rule behind that diverts its port.
    """
    while True:
        place = "127.0.0.1", random.SystemRandom().choice(NOT_HANDED_OUT)
        with socket.socket() as listener, suppress(OSError):
            listener.bind(place)
            listener.listen()
            socket.create_connection(place, timeout=1).close()
            return place[1]
