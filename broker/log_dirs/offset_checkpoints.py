"""The checkpoints of a data directory: recovery point, log start offset and cleaner offset of each partition.

A thread writes them from time to time, because that takes some fsyncs. They are also written at a clean stop, and
before a new topic gets a name that they still know from a deleted one: a recovery that trusted the old topic's offset
would leave the batches of the new one unchecked, and a cleaner would leave older values of keys in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from threading import Lock

from ...storage import checkpoints
from ...storage.errors import DamagedFile, StorageError
from ...storage.files import DISK, Disk
from ...storage.log import Log

# Topic, partition index.
Offsets = dict[tuple[str, int], int]

_log = logging.getLogger(__name__)


class OffsetCheckpoints:
    """The checkpoints of one data directory. The constructor reads them, unless `empty`.

    Damaged ones are ignored, and written again by the next checkpoint: every log is then checked from its first batch
    on, begins with its first segment, or is cleaned from its start on.
    """

    def __init__(self, directory: Path, disk: Disk = DISK, empty: bool = False) -> None:
        self._recovery_path = directory / checkpoints.RECOVERY_POINT
        self._start_path = directory / checkpoints.LOG_START
        self._cleaner_path = directory / checkpoints.CLEANER_OFFSET
        self._disk = disk
        # Whether there are recovery points: every partition that they do not name has been made since.
        self.names_points = not empty and disk.exists(self._recovery_path)
        read = _none if empty else self._read
        self.recovery_points = read(self._recovery_path, "is checked from its first batch on")
        self.log_starts = read(self._start_path, "begins with its first segment, also where records of it were deleted")
        # Up to where the cleaner has cleaned each partition. Invariant: everything below is on disk.
        self.cleaner_offsets = read(self._cleaner_path, "is cleaned from its start on")
        self._written_cleaner_offsets = dict(self.cleaner_offsets)
        self._taken = 0
        # The newest state that was begun, and the newest one that is on disk as a whole.
        self._begun = self._written = 0
        # One writer at a time.
        self._writing = Lock()
        # Topics by the number of the state that names them: the state on disk, and those that will be written.
        known = self.recovery_points.keys() | self.log_starts.keys() | self.cleaner_offsets.keys()
        self._named = {0: {topic for topic, _ in known}}
        self._naming = Lock()

    def _read(self, path: Path, without: str) -> Offsets:
        try:
            return checkpoints.read_offsets(path, self._disk)
        except DamagedFile as error:
            _log.warning("%s: every partition here %s", error.message, without)
            self.names_points &= path != self._recovery_path
            return {}

    def may_name(self, topic: str) -> bool:
        """Return whether the files have, or will have, an offset of a topic of this name."""
        with self._naming:
            is_named = any(topic in names for names in self._named.values())
        return is_named or any(topic == name for name, _ in self.cleaner_offsets)

    def take(self, logs: Mapping[tuple[str, int], Log], unread: Collection[tuple[str, int]] = ()) -> Callable[[], None]:
        """Note the offsets of `logs` as they are now, and return the call that writes them, in any thread.

        The partitions in `unread` keep the offsets that the start found. If two states are written in the wrong order,
        the one that was taken later stays.
        """
        self._taken += 1
        number = self._taken
        points: Offsets = {}
        starts: Offsets = {}
        for key, log in logs.items():
            points[key], starts[key] = log.checkpoint(), log.log_start_offset
        for key in unread:
            starts[key] = self.log_starts.get(key, 0)
            # A start takes 0, and a missing point beside those of others, for a partition of which nothing was forced
            # to disk.
            if key in self.recovery_points or not self.names_points:
                points[key] = self.recovery_points.get(key, -1)
        # A recovery or a leader may have cut a log below its offset: what is appended there later is not clean.
        cleaned = self.cleaner_offsets = {
            key: offset if key in unread else min(offset, logs[key].cut_to)
            for key, offset in self.cleaner_offsets.items()
            if key in unread or (key in logs and offset <= logs[key].log_end_offset)
        }
        cleaned = dict(cleaned)
        with self._naming:
            self._named[number] = {topic for topic, _ in starts}
        return lambda: self._write(number, points, starts, cleaned, logs)

    def _write(
        self, number: int, points: Offsets, starts: Offsets, cleaned: Offsets, logs: Mapping[tuple[str, int], Log]
    ) -> None:
        with self._writing:
            if number < self._written:
                return
            if number < self._begun:
                raise StorageError(
                    "a newer checkpoint of this data directory failed halfway: what it has written stays"
                )
            self._begun = number
            checkpoints.write_offsets(self._recovery_path, points, self._disk)
            for key, log in logs.items():
                log.point_on_disk = points[key]
            checkpoints.write_offsets(self._start_path, starts, self._disk)
            for key, log in logs.items():
                log.start_on_disk = starts[key]
            if cleaned != self._written_cleaner_offsets:
                checkpoints.write_offsets(self._cleaner_path, cleaned, self._disk)
                self._written_cleaner_offsets = cleaned
            for key, log in logs.items():
                log.clean_on_disk = cleaned.get(key, 0)
            self._written = number
        with self._naming:
            self._named = {each: names for each, names in self._named.items() if each >= number}


def _none(*_: object) -> Offsets:
    return {}
