"""Named points at which a process waits until a test lets it go on, or kills something.

    reach("committed", 3)                # the process under test
    points.events.get() -> Reached       # the test; `go_on` ends the wait

The environment says where the test listens (PLACE). Without it `reach` does nothing.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from odradek.tests.support.waiting import WITHIN_S

PLACE = "ODRADEK_TEST_PAUSE_POINTS"
# Which start of a driver a process belongs to.
START = "ODRADEK_TEST_START"


def reach(point: str, batch: int) -> None:
    """Wait until the test says go on, or has ended."""
    place = os.environ.get(PLACE)
    if place is None:
        return
    host, port = place.split(":")
    said = {"point": point, "batch": batch, "pid": os.getpid(), "start": int(os.environ.get(START, "0"))}
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(json.dumps(said).encode() + b"\n")
        connection.recv(1)


@dataclass(frozen=True)
class Reached:
    """A process that waits."""

    point: str
    batch: int
    pid: int
    start: int
    connection: socket.socket

    def go_on(self) -> None:
        """Let the process go on; it may be dead by now."""
        with self.connection, suppress(OSError):
            self.connection.sendall(b"!")


class PausePoints:
    """Where processes say what they have reached. `events` also takes what the test puts into it."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._reached: list[Reached] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def place(self) -> str:
        """The value of PLACE for processes."""
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def _listen(self) -> None:
        with suppress(OSError):  # the test is over
            while True:
                connection, _ = self._server.accept()
                # A process that was killed in between says nothing.
                with connection.makefile() as lines:
                    line = lines.readline()
                if line:
                    self._reached.append(Reached(**json.loads(line), connection=connection))
                    self.events.put(self._reached[-1])
                else:
                    connection.close()

    def close(self) -> None:
        """Stop listening, and let everything that waits go on."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join(WITHIN_S)
        self._server.close()
        # Also those that a test has taken and not let go on, because it has failed.
        for each in self._reached:
            each.go_on()
