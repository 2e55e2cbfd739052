"""When checkpoints are written: at an interval, after much was flushed, and when DeleteRecords needs one on disk.

One that a full disk has refused is tried again soon: DeleteRecords at a leader may wait for a follower's checkpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from ...storage.errors import StorageError, of_device
from ..configs.broker_config import BrokerConfig
from ..threads import BackgroundWork, DiskThreads, Work
from ..timers import Timers
from .log_dirs import Checkpoint

# A checkpoint takes some fsyncs. More often than this, the disk would do nothing else.
MIN_INTERVAL_MS = 100
# The pause after a checkpoint that was refused, which doubles up to the other one.
RETRY_MS = 500
RETRY_MAX_MS = 8000
_FAILED = "a checkpoint could not be written"


class CheckpointWriter:
    """Writes checkpoints in threads. `take` notes the offsets of every partition as they are now."""

    def __init__(
        self,
        config: BrokerConfig,
        timers: Timers,
        threads: DiskThreads,
        work: BackgroundWork,
        take: Callable[[], Checkpoint],
    ) -> None:
        self._config = config
        self._timers = timers
        self._threads = threads
        self._work = work
        self._take = take
        # Data directories with a checkpoint in the background under way.
        self._writing: set[Path] = set()
        self._is_due = False
        self._has_changed = False
        # Those of them whose checkpoint may lack what has changed.
        self._late: set[Path] = set()
        # Data directories whose last checkpoint in the background was refused for a reason that may pass.
        self._refused: set[Path] = set()
        self._pause_ms = RETRY_MS
        self._is_pausing = False
        # The checkpoint that `write` callers wait for, and the one that those share who came too late for it.
        self._current: dict[Path, asyncio.Future[None]] = {}
        self._next: dict[Path, asyncio.Future[None]] = {}

    def start(self) -> None:
        """Schedule the next checkpoint at log.flush.offset.checkpoint.interval.ms."""
        interval_ms = self._config.log_flush_offset_checkpoint_interval_ms
        self._timers.after(max(interval_ms, MIN_INTERVAL_MS), self._interval_is_over)

    def _interval_is_over(self) -> None:
        self.write_in_background()
        self.start()

    def write_in_background(self, only: Collection[Path] | None = None) -> None:
        """Write a checkpoint that nobody waits for, of some data directories or of all."""
        for directory, write in self._take().writers.items():
            # A disk that hangs gets no queue of checkpoints.
            if directory not in self._writing and (only is None or directory in only):
                self._writing.add(directory)
                self._work.run(partial(self._write, directory, write), directory, _FAILED, Work.CHECKPOINT)

    def _write(self, directory: Path, write: Callable[[], None]) -> None:
        self._refused.discard(directory)
        try:
            write()
            self._pause_ms = RETRY_MS
        except StorageError as error:
            if not of_device(error):
                self._refused.add(directory)
            raise
        finally:
            self._writing.discard(directory)

    def retry(self) -> None:
        """Try again, after a pause, what was refused. Called when work on files has failed."""
        if self._refused and not self._is_pausing:
            self._is_pausing = True
            self._timers.after(self._pause_ms, self._pause_is_over)
            self._pause_ms = min(2 * self._pause_ms, RETRY_MAX_MS)

    def _pause_is_over(self) -> None:
        self._is_pausing = False
        self.write_in_background(self._refused.copy())

    def write_soon(self) -> None:
        """Write a checkpoint that has what changed by now, and what changes in the next moment."""
        self._has_changed = True
        self._look_soon()

    def _look_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._timers.after(MIN_INTERVAL_MS, self._write_due)

    def _write_due(self) -> None:
        self._is_due = False
        has_changed, self._has_changed = self._has_changed, False
        # A disk that hangs holds up no other.
        late = self._writing.copy() if has_changed else self._late & self._writing
        if has_changed or late != self._late:
            self._late = late
            self.write_in_background()
        if late:
            self._look_soon()

    async def write(self, directory: Path) -> None:
        """Return when the present offsets of a data directory are on disk. Raises StorageError where they cannot be.

        The disks of others may hang or be full. Callers that come while a checkpoint is written share the next one.
        """
        if directory not in self._next:
            self._next[directory] = asyncio.ensure_future(self._write_next(directory))
        await asyncio.shield(self._next[directory])

    async def _write_next(self, directory: Path) -> None:
        while (current := self._current.get(directory)) is not None:
            await asyncio.wait([current])
        del self._next[directory]
        write = self._take().writers.get(directory)
        if write is None:
            raise StorageError(f"data directory {directory} is offline")
        self._current[directory] = self._threads.run(Work.CHECKPOINT, directory, write)
        try:
            await self._current[directory]
        finally:
            del self._current[directory]
