"""When checkpoints are written: at an interval, after much was flushed, and when DeleteRecords needs one on disk.

A data directory has one checkpoint under way, and one behind it for all that came too late for the first. A disk that
hangs holds up no other. One that a full disk has refused is tried again soon: DeleteRecords at a leader may wait for a
follower's checkpoint.
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
        # The checkpoint of a data directory that is under way, and the one that those share who came too late for it.
        self._current: dict[Path, asyncio.Future[None]] = {}
        self._next: dict[Path, asyncio.Future[None]] = {}
        self._is_due = False
        # Of data directories whose last checkpoint was refused for a reason that may pass: the next pause.
        self._pauses_ms: dict[Path, int] = {}
        self._pausing: set[Path] = set()

    def start(self) -> None:
        """Schedule the next checkpoint at log.flush.offset.checkpoint.interval.ms."""
        interval_ms = self._config.log_flush_offset_checkpoint_interval_ms
        self._timers.after(max(interval_ms, MIN_INTERVAL_MS), self._interval_is_over)

    def _interval_is_over(self) -> None:
        self.write_in_background()
        self.start()

    def write_in_background(self, only: Collection[Path] | None = None) -> None:
        """Begin a checkpoint that nobody waits for, of some data directories or of all that have none under way."""
        for directory, write in self._take().writers.items():
            if directory not in self._current and (only is None or directory in only):
                self._work.watch(self._begin(directory, write), _FAILED)

    def write_soon(self) -> None:
        """Write a checkpoint that has what changed by now, and what changes in the next moment."""
        if not self._is_due:
            self._is_due = True
            self._timers.after(MIN_INTERVAL_MS, self._write_due)

    def _write_due(self) -> None:
        self._is_due = False
        # What is under way may lack what has changed.
        for directory in self._current:
            self._follow(directory)
        self.write_in_background()

    async def write(self, directory: Path) -> None:
        """Return when the present offsets of a data directory are on disk. Raises StorageError where they cannot be.

        The disks of others may hang or be full. Callers that come while a checkpoint is written share the next one.
        """
        await asyncio.shield(self._follow(directory))

    def _follow(self, directory: Path) -> asyncio.Future[None]:
        """Return the checkpoint that is taken when the present one has ended."""
        if directory not in self._next:
            self._next[directory] = asyncio.ensure_future(self._write_next(directory))
            self._work.watch(self._next[directory], _FAILED)
        return self._next[directory]

    async def _write_next(self, directory: Path) -> None:
        while (current := self._current.get(directory)) is not None:
            await asyncio.wait([current])
        del self._next[directory]
        write = self._take().writers.get(directory)
        if write is None:
            raise StorageError(f"data directory {directory} is offline")
        await self._begin(directory, write)

    def _begin(self, directory: Path, write: Callable[[], None]) -> asyncio.Future[None]:
        writing = self._current[directory] = self._threads.run(Work.CHECKPOINT, directory, write)
        writing.add_done_callback(partial(self._note_end, directory))
        return writing

    def _note_end(self, directory: Path, written: asyncio.Future[None]) -> None:
        del self._current[directory]
        error = None if written.cancelled() else written.exception()
        if not isinstance(error, StorageError) or of_device(error):
            self._pauses_ms.pop(directory, None)
        elif directory not in self._pausing:
            self._pausing.add(directory)
            pause_ms = self._pauses_ms.get(directory, RETRY_MS)
            self._pauses_ms[directory] = min(2 * pause_ms, RETRY_MAX_MS)
            self._timers.after(pause_ms, partial(self._pause_is_over, directory))

    def _pause_is_over(self, directory: Path) -> None:
        self._pausing.discard(directory)
        if directory in self._pauses_ms:
            self.write_in_background((directory,))
