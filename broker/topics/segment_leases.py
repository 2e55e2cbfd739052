"""Segment leases: files that stay on disk for readers on this machine, whatever retention, compaction and deletion do.

A lease is a directory of hard links beside the partition's own (storage/leased_files.py). So nothing else in the broker
knows of leases: files are renamed and removed as ever, and the space is free once the lease has ended. A lease ends
when its reader says so, when it is not renewed for `lease_ms`, and at the latest after `max_life_ms`. A broker that
starts knows none, and removes the directories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.deleted_directory import deleted_path
from ...storage.errors import StorageError
from ...storage.files import Disk
from ...storage.held_files import held_path
from ...storage.leased_files import Extent, link_files
from ..clock import Clock, ids
from ..threads import DiskThreads, Work
from ..timers import Timers

# A backup is held as long as its tool renews the lease, but no longer than a day.
BACKUP_MAX_LIFE_MS = 24 * 3_600_000


@dataclass(slots=True)
class Lease:
    """One lease. Times are in milliseconds of the monotonic clock."""

    id: int
    directories: tuple[Path, ...]
    # None: of all topics, for a backup.
    topic: str | None
    last_ms: int
    deadline_ms: int


class SegmentLeases:
    """The leases of one broker, at most `most`; 0: direct read is off."""

    def __init__(
        self,
        most: int,
        lease_ms: int,
        max_life_ms: int,
        clock: Clock,
        timers: Timers,
        threads: DiskThreads,
        disk: Disk,
        remove: Callable[[list[Path]], None],
    ) -> None:
        """`remove` removes directories in a thread."""
        self.lease_ms = min(lease_ms, max_life_ms)
        self.max_life_ms = max_life_ms
        self._most = most
        self._clock = clock
        self._timers = timers
        self._threads = threads
        self._disk = disk
        self._remove = remove
        self._leases: dict[int, Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def check_room(self) -> None:
        """Raise POLICY_VIOLATION where direct read is off, THROTTLING_QUOTA_EXCEEDED for too many leases."""
        if not self._most:
            why = "direct read is off at this broker: direct.read.max.leases is 0"
            raise KafkaError(ErrorCode.POLICY_VIOLATION, why)
        if len(self._leases) >= self._most:
            why = f"{self._most} leases are held at this broker: raise direct.read.max.leases, or read again later"
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, why)

    async def grant(self, directory: Path, extent: Extent, topic: str) -> Lease:
        """Return a lease of the files of `extent`, which lie in `directory` and belong to a topic.

        Raises the errors of `check_room`, and StorageError where the files cannot be linked. That is no failure of the
        disk: the files may have gone since, or the file system has no hard links.
        """
        self.check_room()
        number = ids().getrandbits(63)
        target = deleted_path(directory, f"lease{number:x}")
        lease = self._open(number, (target,), topic, self.max_life_ms)
        try:
            await self._threads.run(
                Work.BACKGROUND, directory.parent, lambda: link_files(extent.parts, target, self._disk)
            )
        except StorageError:
            self._leases.pop(number, None)
            raise
        return lease

    def begin_backup(self, data_dirs: Iterable[Path]) -> Lease:
        """Return a lease for the links of a backup, whose directories the caller makes.

        Raises THROTTLING_QUOTA_EXCEEDED while another one is held.
        """
        if any(each.topic is None for each in self._leases.values()):
            why = "a backup of this broker is being made: wait for its end"
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, why)
        number = ids().getrandbits(63)
        return self._open(number, tuple(held_path(each, number) for each in data_dirs), None, BACKUP_MAX_LIFE_MS)

    def _open(self, number: int, directories: tuple[Path, ...], topic: str | None, max_life_ms: int) -> Lease:
        """Note a lease before its links are made: where the client leaves meanwhile, the lease expires."""
        now_ms = self._clock.monotonic_ms()
        lease = Lease(number, directories, topic, now_ms + max_life_ms, now_ms + self.lease_ms)
        self._leases[number] = lease
        self._watch(lease)
        return lease

    def topic_of(self, number: int) -> str | None:
        """Return the topic of a lease, None for a backup. Raises RESOURCE_NOT_FOUND."""
        return self._find(number).topic

    def renew(self, number: int) -> int:
        """Return for how many milliseconds the lease holds from now on. Raises RESOURCE_NOT_FOUND."""
        lease = self._find(number)
        now_ms = self._clock.monotonic_ms()
        lease.deadline_ms = min(now_ms + self.lease_ms, lease.last_ms)
        return lease.deadline_ms - now_ms

    def _find(self, number: int) -> Lease:
        lease = self._leases.get(number)
        if lease is None:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "the lease has ended")
        return lease

    def end(self, number: int) -> None:
        """End a lease; its files go. Raises RESOURCE_NOT_FOUND."""
        lease = self._find(number)
        del self._leases[number]
        self._remove(list(lease.directories))

    def _watch(self, lease: Lease) -> None:
        self._timers.at(lease.deadline_ms, lambda: self._expire(lease))

    def _expire(self, lease: Lease) -> None:
        if lease.id not in self._leases:
            return
        if lease.deadline_ms > self._clock.monotonic_ms():
            self._watch(lease)
        else:
            self.end(lease.id)
