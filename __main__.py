"""`python -m odradek` is the command `odradek`."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def run() -> None:
    """Run the command line. Signals that arrive while modules are imported end the process without a traceback."""
    interrupted = signal.signal(signal.SIGINT, _end)
    # The kernel ignores signals without a handler for process 1 of a container.
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, _end)
    # A health check runs every few seconds: it must not wait for the imports of the command line.
    if sys.argv[1:2] == ["ping"]:
        from odradek.cli.health_check import status_of

        status = status_of(sys.argv[2:])
        if status is not None:
            sys.exit(status)
    from odradek.cli import main

    signal.signal(signal.SIGINT, interrupted)
    try:
        main(prog_name="odradek")
    except KeyboardInterrupt:
        sys.exit(130)


def _end(number: int, _: FrameType | None) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    run()
