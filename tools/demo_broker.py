"""The broker of the demo: a process that stops with status 0, or is killed and starts again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

STOPS_WITHIN_S = 10
# The members of a group hear of each other at their heartbeats. (Kafka's default is 5 s.)
HEARTBEAT_INTERVAL_MS = 300

console = Console()


class DemoFailed(Exception):
    """A count, a sum or a status is not what it should be."""


class DemoBroker:
    """`odradek serve` on a free port, which a later start keeps. The end of the block checks that it stops well."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "broker.log"
        self.address = "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> DemoBroker:
        began = time.monotonic()
        self.start()
        console.print(f"broker ready on {self.address} after {time.monotonic() - began:.2f} s")
        return self

    def start(self) -> None:
        """Return when clients can connect. Raises DemoFailed."""
        command = [sys.executable, "-m", "odradek.broker", "serve"]
        command += ["--listen", self.address, "--data-dir", str(self._folder / "data")]
        for name in ("group.consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms"):
            command += ["--set", f"{name}={HEARTBEAT_INTERVAL_MS}"]
        with self._log.open("a") as log:
            self._process = process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        word, _, address = process.stdout.readline().strip().partition(" ")
        if word != "ready":
            process.wait()
            raise DemoFailed(f"the broker did not start: {self._last_words()}")
        self.address = address

    def kill(self) -> None:
        """End it as a crash does (kill -9)."""
        self._end(signal.SIGKILL)

    def __exit__(self, *_: object) -> None:
        if self._process is not None and (status := self._end(signal.SIGTERM)) != 0:
            raise DemoFailed(f"the broker ended with status {status}: {self._last_words()}")

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        assert process is not None
        assert process.stdout is not None
        with process.stdout:
            process.send_signal(number)
            try:
                return process.wait(STOPS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise DemoFailed(f"the broker did not stop within {STOPS_WITHIN_S} s") from None

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-1000:]
