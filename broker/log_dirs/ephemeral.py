"""The data directory of a broker that keeps nothing: for tests and notebooks.

Nothing is forced to disk, because nobody reads the files after the broker has stopped. A directory of a process that
was killed is removed by the next broker that makes one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ...storage.files import File
from .timed_disk import TimedDisk

_PREFIX = "odradek-ephemeral-"


class UnsyncedDisk(TimedDisk):
    """The real file system without fsync."""

    def fsync(self, file: File) -> None: ...

    def fsync_dir(self, path: Path) -> None: ...

    def fsync_all(self, file: File) -> bool:
        return True


def ephemeral_configs() -> dict[str, str]:
    """Return the configs of such a broker, with a new directory: few internal partitions, and groups do not wait."""
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": new_directory(),
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        # A test that moves the clock would lose its connections otherwise.
        "connections.max.idle.ms": "-1",
    }


def new_directory() -> str:
    """Return a new path for a data directory, in the folder for temporary files. Remove what dead processes left."""
    import tempfile  # a broker with a directory of its own does not need it

    folder = Path(tempfile.gettempdir())
    for each in folder.glob(f"{_PREFIX}*"):
        if not _is_alive(each.name.removeprefix(_PREFIX).partition("-")[0]):
            remove_directories([each])
    return tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=folder)


def remove_directories(directories: Iterable[Path]) -> None:
    """Remove directories with all that is in them."""
    import shutil  # a start takes 3 ms longer with it

    for each in directories:
        shutil.rmtree(each, ignore_errors=True)


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        pass
    return True
