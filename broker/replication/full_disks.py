"""Data directories without room: the controller is told, and told again once there is room (decision 15).

The first write that a full disk refuses marks its directory. From then on this broker answers LeaderAndIsr with
INELIGIBLE_REPLICA for the partitions there, in every role, so that the controller has other replicas lead that are in
sync and have room. A thread tries from time to time to write a file as large as a batch may be. Where a disk is full
again soon after it had room, the pauses grow: leaders should not move to and fro.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ...storage.errors import StorageError, has_no_room
from ...storage.files import Disk
from ..clock import Clock
from ..log_dirs.log_dirs import LogDir
from ..threads import DiskThreads, Work
from ..timers import TimerHandle, Timers

FIRST_PAUSE_MS = 1000
LONGEST_PAUSE_MS = 60_000
# max.message.bytes of a topic is 1 MiB by default, and an index needs some room, too.
TRIAL_BYTES = 2 * 1024 * 1024
TRIAL_NAME = ".room"

_log = logging.getLogger(__name__)


class FullDisks:
    """The data directories of this broker that are full. End it with `close`."""

    def __init__(self, disk: Disk, clock: Clock, timers: Timers, threads: DiskThreads) -> None:
        # Tells the controller that directories are full, or have room again; in a test nobody listens.
        self.tell: Callable[[], object] = lambda: None
        self._disk = disk
        self._clock = clock
        self._timers = timers
        self._threads = threads
        # Of each directory that was full once: the next pause, and when it last had room again.
        self._pauses_ms: dict[LogDir, int] = {}
        self._had_room_ms: dict[LogDir, int] = {}
        self._waiting: dict[LogDir, TimerHandle] = {}
        self._trials: set[asyncio.Future[None]] = set()
        self._is_closed = False

    def note(self, home: LogDir) -> None:
        """Take note that a write to a directory was refused for lack of room."""
        if home.is_full or self._is_closed:
            return
        home.is_full = True
        since_ms = self._clock.monotonic_ms() - self._had_room_ms.get(home, -LONGEST_PAUSE_MS)
        if since_ms >= LONGEST_PAUSE_MS:
            self._pauses_ms[home] = FIRST_PAUSE_MS
        _log.error("data directory %s is full: other brokers lead what they can until there is room again", home.path)
        self.tell()
        self._try_later(home)

    def close(self) -> None:
        """Try nothing more."""
        self._is_closed = True
        for each in self._waiting.values():
            each.cancel()
        for each in self._trials:
            each.cancel()

    def _try_later(self, home: LogDir) -> None:
        pause_ms = self._pauses_ms[home]
        self._pauses_ms[home] = min(2 * pause_ms, LONGEST_PAUSE_MS)
        self._waiting[home] = self._timers.after(pause_ms, lambda: self._try(home))

    def _try(self, home: LogDir) -> None:
        del self._waiting[home]
        if not home.is_online:
            return
        trial = self._threads.run(Work.BACKGROUND, home.path, lambda: _write(self._disk, home))
        self._trials.add(trial)
        trial.add_done_callback(lambda _: self._note_trial(home, trial))

    def _note_trial(self, home: LogDir, trial: asyncio.Future[None]) -> None:
        self._trials.discard(trial)
        if self._is_closed or trial.cancelled():
            return
        error = trial.exception()
        if error is not None:
            if not isinstance(error, StorageError) or not has_no_room(error):
                _log.error("nobody knows whether data directory %s has room again: %s", home.path, error)
            self._try_later(home)
            return
        home.is_full = False
        self._had_room_ms[home] = self._clock.monotonic_ms()
        _log.warning("data directory %s has room again", home.path)
        self.tell()


def _write(disk: Disk, home: LogDir) -> None:
    """Write a file to disk that has no name, so that a kill leaves none. Raises StorageError."""
    file = disk.open(home.path / TRIAL_NAME, create=True)
    disk.unlink(file.path)
    disk.write(file, bytes(TRIAL_BYTES), 0)
    disk.fsync(file)
