"""Where a share group begins in a partition that it has not read: share.auto.offset.reset."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..clock import Clock
from ..threads import DiskThreads
from ..topics.disk_reads import read_from_disk
from ..topics.partition import Partition
from .settings import EARLIEST, LATEST, Settings


def finder(clock: Clock, threads: DiskThreads) -> Callable[[Partition, Settings], Awaitable[int]]:
    """Return what finds the first offset; it may wait for the disk. Raises KafkaError."""

    async def find(partition: Partition, settings: Settings) -> int:
        end = partition.end_for(settings.isolation_level)
        if settings.begins == LATEST:
            return end
        if settings.begins == EARLIEST:
            return partition.log.log_start_offset
        timestamp_ms = max(clock.now_ms() - settings.begins, 0)
        found = await read_from_disk(partition, lambda view: view.find_time(timestamp_ms, end), threads)
        return end if found is None else found[1]

    return find
