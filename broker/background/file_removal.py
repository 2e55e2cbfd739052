"""File removal: deletes the files of deleted segments and topics, in a thread, after file.delete.delay.ms.

A client that reads such a segment at that moment reads on. If the broker stops first, the next start removes the files.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from ...storage.deleted_directory import remove_directory
from ...storage.errors import do_all
from ...storage.files import Disk
from ...storage.log import Log
from ...storage.segments.segment import Segment
from ..threads import BackgroundWork
from ..timers import Timers
from ..topics.partition import Partition
from ..topics.topic import Topic

# A look-up in a thread may need a segment that has retired. So long its files stay, and then are asked for again.
VIEWED_MS = 1000


class FileRemoval:
    """Schedules the removal of files."""

    def __init__(self, timers: Timers, work: BackgroundWork, disk: Disk) -> None:
        self._timers = timers
        self._work = work
        self._disk = disk

    def remove_segments(self, partition: Partition) -> None:
        """Remove the files of the segments that have retired from a partition's log."""
        log = partition.log
        retired = log.take_retired()
        if retired:
            failed = f"files of deleted segments of {partition} stay in place"
            self._timers.after(log.config.file_delete_delay_ms, partial(self._remove_segments, log, retired, failed))

    def _remove_segments(self, log: Log, retired: list[Segment], failed: str) -> None:
        viewed = [each for each in retired if log.is_viewed(each)]
        if viewed:
            self._timers.after(VIEWED_MS, partial(self._remove_segments, log, viewed, failed))
        gone = [each for each in retired if each not in viewed]
        if gone:
            self._work.run(partial(_unlink, gone), log.directory.parent, failed)

    def remove_topic(self, topic: Topic, logs: list[Log]) -> None:
        """Remove the directories of a deleted topic's logs. They have their new names (`-delete`) already."""
        failed = f"files of deleted topic {topic.name} stay in place"
        for parent, directories in _by_parent(log.directory for log in logs).items():
            self._work.run(partial(self._disk.fsync_dir, parent), parent, failed)
            remove = partial(self._work.run, partial(remove_directories, directories, self._disk), parent, failed)
            self._timers.after(topic.config.file_delete_delay_ms, remove)

    def remove_leftovers(self, directories: list[Path]) -> None:
        """Remove the directories that deletions before the last stop had not removed yet."""
        for parent, left in _by_parent(directories).items():
            self._work.run(
                partial(remove_directories, left, self._disk), parent, "files of deleted topics stay in place"
            )


def _by_parent(directories: Iterable[Path]) -> dict[Path, list[Path]]:
    """Return the directories of partitions by the data directory that they lie in."""
    found: dict[Path, list[Path]] = {}
    for each in directories:
        found.setdefault(each.parent, []).append(each)
    return found


def remove_directories(directories: list[Path], disk: Disk) -> None:
    """Remove the directories of deleted partitions. Raises the first failure after it has tried all of them."""
    do_all(partial(remove_directory, each, disk) for each in directories)


def _unlink(segments: list[Segment]) -> None:
    for segment in segments:
        segment.unlink()
