"""A broker as a process of its own, for what a thread cannot show: kills, power cuts, pauses, restarts.

    def test_a_crash(kafka_process):
        kafka_process.put("orders", ["v"])
        kafka_process.kill()
        kafka_process.restart()

It listens on the same port after each restart.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from .errors import Unavailable
from .own import OwnKafka
from .security import keep_ports

READY_WITHIN_S = 30.0
STOPPED_WITHIN_S = 15.0
_SHOWN_LOG_CHARS = 4_000
_STOPPED = "the broker's process does not run"


class KafkaProcess(OwnKafka):
    """`odradek serve` on a disk that can lose its power (power.py), with a data directory that goes at `close`."""

    def _prepare(self) -> None:
        self._log = Path(f"{self._folder}-log") / "broker.log"
        self._log.parent.mkdir()
        self._process: subprocess.Popen[str] | None = None

    def _stop(self) -> None:
        if self._process is not None:
            self._end(signal.SIGKILL)

    def _other_folders(self) -> list[Path]:
        return [self._log.parent]

    @property
    def pid(self) -> int:
        """The process, while it runs."""
        return self._running().pid

    def kill(self) -> None:
        """End the process at once (SIGKILL). The operating system keeps what was written."""
        self._end(signal.SIGKILL)

    def lose_power(self, seed: int) -> None:
        """Cut the power: the process is gone, and the disk loses what no fsync has covered, or a part of it.

        The seed decides what is lost, so that a failure can be played again.
        """
        process, self._process = self._running(), None
        assert process.stdin is not None
        process.send_signal(signal.SIGCONT)
        with suppress(BrokenPipeError):  # it ends by itself just now, and the disk loses nothing
            process.stdin.write(f"lose {seed}\n")
            process.stdin.close()
        self._wait_for_end(process)

    def stop(self) -> None:
        """Stop the broker cleanly (SIGTERM)."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Stop the process in its tracks (SIGSTOP): connections stay open, and nothing is answered until `resume`."""
        halt(self._running())

    def resume(self) -> None:
        """Let a paused process go on."""
        self._running().send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Start the broker on its port and its files; stop it cleanly before, if it runs."""
        self._check_open()
        if self._process is not None:
            self.stop()
        self._start()

    @property
    def death(self) -> str | None:
        """How the process ended by itself; None while it runs, and where the test has ended it."""
        status = self._process.poll() if self._process is not None else None
        return None if status is None else f"the broker's process has ended by itself, with status {status}"

    def log_text(self) -> str:
        """Return the end of the broker's log."""
        return self._log.read_text(errors="replace")[-_SHOWN_LOG_CHARS:] if self._log.exists() else ""

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self.death is not None:
            raise Unavailable(f"{self.death or _STOPPED}: call restart()")
        return self._process

    def _start(self) -> None:
        """Start the process, and return once a client can connect."""
        command = [sys.executable, "-P", "-m", "odradek.testing.power", json.dumps(self._configs)]
        pipe = subprocess.PIPE
        with self._log.open("a") as log:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True)
        line = _first_line(self._process)
        word, *addresses = line.split() or [""]
        if word != "ready":
            self._end(signal.SIGKILL)
            raise Unavailable(f"the broker's process did not start; its log ends: {self.log_text()}")
        self.address, self._kit_address = addresses[0], addresses[-1]
        self._configs["listeners"] = keep_ports(self._configs["listeners"], addresses)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            raise Unavailable(f"{_STOPPED}: call restart()")
        process.send_signal(number)
        # One that is paused would take note of it only then.
        process.send_signal(signal.SIGCONT)
        self._wait_for_end(process)

    def _wait_for_end(self, process: subprocess.Popen[str]) -> None:
        try:
            process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Unavailable(f"the broker did not stop within {STOPPED_WITHIN_S:g} s; {self.log_text()}") from None
        finally:
            for each in (process.stdin, process.stdout):
                if each is not None:
                    each.close()


def halt(process: subprocess.Popen[Any]) -> None:
    """Stop a child in its tracks, and return when each of its threads stands: until then it may answer."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def _first_line(process: subprocess.Popen[str]) -> str:
    """Return the first line of a process; an empty text where it ends before, or takes too long."""
    assert process.stdout is not None
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    output = process.stdout
    threading.Thread(target=lambda: lines.put(output.readline()), name="odradek-ready", daemon=True).start()
    try:
        return lines.get(timeout=READY_WITHIN_S)
    except queue.Empty:
        return ""
