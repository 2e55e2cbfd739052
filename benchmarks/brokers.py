"""The two brokers that are compared, each as a process: Odradek, and Apache Kafka from the jars in $KAFKA_LIB."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Concatenate, ParamSpec, Self

P = ParamSpec("P")

READY_WITHIN_S = 60.0
# Turns a process id into the clock of that process (clock_getcpuclockid).
_PROCESS_CLOCK = 2


class Rate(float):
    """Units a second, with the number of units in all: the broker's CPU time is divided by that."""

    units: float
    # The broker's CPU time for one unit, in microseconds, once it is known.
    cpu_us: float = 0.0

    @classmethod
    def of(cls, per_s: float, units: float) -> Rate:
        rate = cls(per_s)
        rate.units = units
        return rate


class Broker:
    """A process on a port of 127.0.0.1 with a data directory of its own."""

    name = ""
    # For how long a load runs, beside the one run that each scenario begins with, until the broker is warm.
    warm_up_s = 0.0

    def __init__(
        self, folder: Path, key_store: Path | None = None, settings: Mapping[str, object] | None = None
    ) -> None:
        """With a `key_store` (PEM) it also listens at `tls_port`. `settings` are further configs."""
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.tls_port = free_port()
        self.settings = dict(settings or {})
        self.listeners = [f"PLAINTEXT://127.0.0.1:{self.port}"]
        if key_store is not None:
            self.listeners.append(f"SSL://127.0.0.1:{self.tls_port}")
            self.settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": key_store}
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def tls_address(self) -> str:
        return f"127.0.0.1:{self.tls_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> float:
        """Start the broker, and return the seconds until a client can connect."""
        raise NotImplementedError

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop the broker and wait; SIGKILL is a crash."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None

    def remove(self) -> None:
        """Delete its data."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def memory_mb(self) -> float:
        """Return the resident memory."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise AssertionError("no VmRSS")

    def cpu_s(self) -> float:
        """Return the CPU time used so far."""
        return cpu_s(self.pid)


class Odradek(Broker):
    """`odradek serve` of this checkout, or of another one whose folder is named."""

    name = "Odradek"
    module = "odradek.broker"

    def __init__(
        self,
        folder: Path,
        checkout: Path | None = None,
        key_store: Path | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(folder, key_store, {"group.initial.rebalance.delay.ms": 0, **(settings or {})})
        self._environment = dict(os.environ)
        if checkout is not None:
            self.name = f"Odradek in {checkout.name}"
            # The root of the repository is the package: it is imported under its own name by a link.
            link = self.folder / "path" / "odradek"
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(checkout.resolve())
            self._environment["PYTHONPATH"] = str(link.parent)

    def start(self) -> float:
        command = [sys.executable, "-m", self.module, "serve"]
        command += ["--data-dir", str(self.folder / "data"), "--log-level", "info"]
        for name, value in {"listeners": ",".join(self.listeners), **self.settings}.items():
            command += ["--set", f"{name}={value}"]
        started = time.perf_counter()
        with (self.folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=self._environment, cwd=self.folder
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready "):
            raise SystemExit(f"odradek did not start: see {self.folder / 'log'}")
        return time.perf_counter() - started

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop the broker, and print how many of its writes were slow: those hold its event loop."""
        was_running = self._process is not None
        super().stop(number)
        last = (self.folder / "log").read_text().splitlines()[-1:] if was_running else []
        for line in last:
            if " of all writes " in line:
                print(f"{self.name}: {line.partition(': ')[2]}", file=sys.stderr)


class Kafka(Broker):
    """One KRaft node with Kafka's defaults, except for replication factors of one."""

    name = "Kafka"
    # Java compiles what runs often. One record a request becomes a third faster in the first fifteen seconds, and no
    # faster afterwards.
    warm_up_s = 20.0

    def __init__(self, folder: Path, jars: Path, key_store: Path | None = None) -> None:
        super().__init__(folder, key_store)
        self._classpath = f"{jars}/*"
        self._properties = folder / "server.properties"
        controller = free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": ",".join([*self.listeners, f"CONTROLLER://127.0.0.1:{controller}"]),
            "advertised.listeners": ",".join(self.listeners),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
            "log.dirs": folder / "data",
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            **self.settings,
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._format()

    def _format(self) -> None:
        storage = ["java", "-cp", self._classpath, "kafka.tools.StorageTool"]
        made = subprocess.run([*storage, "random-uuid"], capture_output=True, text=True, check=True)
        cluster = made.stdout.split()[-1]
        command = [*storage, "format", "-t", cluster, "-c", str(self._properties)]
        subprocess.run(command, capture_output=True, check=True)

    def start(self) -> float:
        command = ["java", "-Xmx1g", "-Xms1g", "-cp", self._classpath, "kafka.Kafka", str(self._properties)]
        started = time.perf_counter()
        with (self.folder / "log").open("a") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, text=True)
        deadline = started + READY_WITHIN_S
        while time.perf_counter() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return time.perf_counter() - started
            time.sleep(0.01)
        raise SystemExit(f"Kafka did not start: see {self.folder / 'log'}")


def kafkas(folder: Path, key_store: Path | None = None) -> list[Broker]:
    """Return Kafka, which is measured beside ours where KAFKA_LIB names its jars; else nothing."""
    jars = os.environ.get("KAFKA_LIB")
    return [Kafka(folder / "kafka", Path(jars), key_store)] if jars else []


def of_broker(measure: Callable[Concatenate[Broker, P], float]) -> Callable[P, Callable[[Broker], float]]:
    """Turn a measure of a broker with parameters into one of the parameters, which returns the measure of a broker."""
    return lambda *args, **options: lambda broker: measure(broker, *args, **options)


def cpu_s(pid: int) -> float:
    """Return the CPU time that a process has used, all its threads together, to the nanosecond (Linux).

    /proc/PID/stat counts in hundredths of a second, which is too coarse for a short run.
    """
    return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
