"""A real ZooKeeper in a process of its own: Debian's package, or the jar that Kafka 3.9 brings (KAFKA39_LIB)."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient
from odradek.testing.process import halt
from odradek.tests.support.brokers.process import free_port
from odradek.zookeeper.session import Session

MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
STARTS_WITHIN_S = 60


def class_path() -> str:
    """Return Java's class path for ZooKeeper, or "" where there is none."""
    jars = os.environ.get("KAFKA39_LIB", "")
    if jars and any(Path(jars).glob("zookeeper-*.jar")):
        return f"{jars}/*"
    debian = Path("/usr/share/java")
    found = [debian / "zookeeper.jar", *debian.glob("slf4j-simple.jar")]
    return "/usr/share/java/*" if found[0].exists() else ""


def why_missing() -> str:
    """Return why no ZooKeeper can be started here; "" where one can."""
    if shutil.which("java") is None:
        return "ZooKeeper needs Java, and there is none"
    return "" if class_path() else "set KAFKA39_LIB to a folder with the jars of Kafka 3.9, which bring ZooKeeper"


class ZooKeeperProcess:
    """One ZooKeeper. Its data survive `kill` and `start`."""

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        more: str = "",
        jaas: Path | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        """`more` are lines of its settings, `jaas` a file with a section Server, `options` are Java's."""
        self.directory = directory
        self.port = port if port is not None else free_port()
        self.more = more
        self.jaas = jaas
        self.options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> ZooKeeperProcess:
        """Start, and wait until it answers."""
        self.directory.mkdir(parents=True, exist_ok=True)
        # A tick bounds session time-outs from below: 2 ticks.
        settings = self.directory / "zoo.cfg"
        settings.write_text(
            # A tick bounds session time-outs, too: 20 of them are less than a new start may take under load.
            f"tickTime=500\nmaxSessionTimeout=60000\ndataDir={self.directory}\nclientPort={self.port}\n"
            f"admin.enableServer=false\n{self.more}"
        )
        command = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-Dzookeeper.admin.enableServer=false", *self.options]
        if self.jaas is not None:
            command.append(f"-Djava.security.auth.login.config={self.jaas}")
        with (self.directory / "zookeeper.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "-cp", class_path(), MAIN, str(settings)], stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + STARTS_WITHIN_S
        while not self._answers():
            assert time.monotonic() < deadline and self._process.poll() is None, "ZooKeeper did not start"
            time.sleep(0.05)
        return self

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as wire:
                wire.sendall(b"srvr")
                return bool(wire.recv(4))
        except OSError:
            return False

    def kill(self) -> None:
        """Kill it: sessions live on in its log."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def end_session(self, zookeeper: Session) -> None:
        """End a session behind its owner's back, as ZooKeeper does with one that has been silent for too long."""
        identity = zookeeper._client.client_id  # pyright: ignore[reportPrivateUsage]
        other = KazooClient(hosts=self.address, client_id=identity)
        other.start(STARTS_WITHIN_S)
        other.stop()
        other.close()

    def pause(self) -> None:
        """Stop the process without ending it."""
        assert self._process is not None
        halt(self._process)

    def go_on(self) -> None:
        """Let a paused process go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def zookeeper(directory: Path, *options: str) -> Iterator[ZooKeeperProcess]:
    """Yield a running ZooKeeper; `options` are Java's."""
    process = ZooKeeperProcess(directory, options=options)
    try:
        yield process.start()
    finally:
        process.kill()
