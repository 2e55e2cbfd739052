"""The records that wait for the workers of `consume`. No record costs more where there are more workers."""

from __future__ import annotations

import asyncio
from zlib import crc32

from ..record import ConsumerRecord

# Enough that no worker waits for the next poll; few, so that a rebalance is not held up by what waits.
MAX_QUEUED = 16


class Queues:
    """The records that wait for workers: for each by its keys, or for all in one queue."""

    def __init__(self, workers: int, by_key: bool) -> None:
        self._queues = [asyncio.Queue[ConsumerRecord]() for _ in range(workers if by_key else 1)]
        # As many as find a worker at once are not held up by what waits.
        self._most = MAX_QUEUED if by_key else MAX_QUEUED + workers
        # How many queues have so many records. Invariant: one entry for each number up to `_most`.
        self._of_size = [len(self._queues), *(0 for _ in range(self._most))]
        self._longest = 0

    def put(self, record: ConsumerRecord) -> None:
        """Have a record wait for its worker. There must be room."""
        place = f"{record.topic}-{record.partition}".encode()
        queue = self._queues[crc32(record.key or b"", crc32(place)) % len(self._queues)]
        self._grow(queue.qsize(), 1)
        queue.put_nowait(record)

    async def get(self, worker: int) -> ConsumerRecord:
        """Return the next record for a worker."""
        queue = self._queues[worker % len(self._queues)]
        record = await queue.get()
        self._grow(queue.qsize() + 1, -1)
        return record

    @property
    def room(self) -> int:
        """How many records may come now, all of them for one worker; 0 while one of the queues is full."""
        return self._most - self._longest

    def _grow(self, size: int, by: int) -> None:
        """Note that a queue of a size grows by one, or shrinks."""
        self._of_size[size] -= 1
        self._of_size[size + by] += 1
        # A queue grows and shrinks by one: so does the longest one.
        if size + by > self._longest or not self._of_size[self._longest]:
            self._longest = size + by
