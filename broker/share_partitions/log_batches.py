"""The batches of a log that a share fetch may give: where they lie in the file, and which offsets they cover.

Their headers are read, nothing else. A walk is as long as what may be acquired.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...protocol.records.batch import BatchHeader
from ...storage.errors import CorruptBatch
from ...storage.files import Disk, FileRange
from ...storage.log_view import LogView
from ...storage.segments.transaction_index import AbortedTransaction
from ...storage.segments.walk import cached_headers, headers
from ..threads import DiskThreads
from ..topics.disk_reads import read_from_disk
from ..topics.partition import Partition
from ..topics.partition_state import READ_COMMITTED
from .machine import Span


class Wanted(NamedTuple):
    """What is to be read of a partition."""

    # From the batch that holds this offset, up to the one that holds `reach`.
    offset: int
    reach: int
    max_bytes: int
    # Whether the first batch comes whole, however large it is.
    minimum_one: bool
    isolation_level: int


class LogBatches(NamedTuple):
    """Whole batches of one file, at least one, in order."""

    records: FileRange
    spans: list[Span]
    # Where each batch ends, in bytes from the start of `records`.
    ends: list[int]

    @property
    def size(self) -> int:
        """The bytes of the batches."""
        return self.ends[-1]

    def of(self, first: int, last: int) -> FileRange:
        """Return the batches that hold these records."""
        covering = [at for at, span in enumerate(self.spans) if span.last >= first and span.first <= last]
        assert covering, "what was acquired lies in these batches"
        start = self.ends[covering[0] - 1] if covering[0] else 0
        whole = self.records
        return FileRange(whole.file, whole.position + start, self.ends[covering[-1]] - start, whole.disk)


def read_cached(partition: Partition, wanted: Wanted) -> LogBatches | None:
    """Return the batches from memory and the page cache; None where the log has none yet.

    Raises NotCached, OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR.
    """
    offset, reach, max_bytes, minimum_one, isolation_level = wanted
    records = partition.read(offset, max_bytes, isolation_level, minimum_one, cached=True)
    if records is None or not records.size:
        return None
    aborted: Sequence[AbortedTransaction] = ()
    if isolation_level == READ_COMMITTED:
        aborted = partition.aborted_transactions(offset, records, cached=True)
    end = records.position + records.size
    return _walk(records, cached_headers(records.disk, records.file, records.position, end), reach, aborted)


async def read_cold(partition: Partition, wanted: Wanted, threads: DiskThreads, disk: Disk) -> LogBatches | None:
    """Do the same in a thread, which may wait for the disk. Raises KafkaError."""
    offset, reach, max_bytes, minimum_one, isolation_level = wanted
    up_to = partition.end_for(isolation_level)

    def read(view: LogView) -> LogBatches | None:
        location = view.locate(offset, up_to)
        if location is None:
            return None
        records = location.range(max_bytes, minimum_one, disk)
        if not records.size:
            return None
        aborted: Sequence[AbortedTransaction] = ()
        if isolation_level == READ_COMMITTED:
            aborted = view.aborted_transactions(offset, records, up_to)
        end = records.position + records.size
        return _walk(records, headers(records.disk, records.file, records.position, end), reach, aborted)

    return await read_from_disk(partition, read, threads)


def _walk(
    records: FileRange, found: Iterable[tuple[int, BatchHeader]], reach: int, aborted: Sequence[AbortedTransaction]
) -> LogBatches:
    """Take the batches up to `reach`. Where a later one is damaged or cut off, those before it."""
    spans: list[Span] = []
    ends: list[int] = []
    ahead = _by_producer(aborted)
    try:
        for position, header in found:
            is_aborted = bool(aborted) and _is_aborted(header, ahead)
            spans.append(Span(header.base_offset, header.last_offset, is_aborted))
            ends.append(position + header.size_bytes - records.position)
            if header.last_offset >= reach:
                break
    except CorruptBatch:
        # The next read begins with it, and reports it.
        if not spans:
            raise
    return LogBatches(records, spans, ends)


def _by_producer(aborted: Sequence[AbortedTransaction]) -> dict[int, deque[AbortedTransaction]]:
    """Return the aborted transactions of each producer, which follow each other."""
    found: dict[int, deque[AbortedTransaction]] = {}
    for each in aborted:
        found.setdefault(each.producer_id, deque()).append(each)
    return found


def _is_aborted(header: BatchHeader, ahead: dict[int, deque[AbortedTransaction]]) -> bool:
    """Return whether a batch is of an aborted transaction, and drop those that lie before it."""
    if not header.is_transactional or header.is_control:
        return False
    own = ahead.get(header.producer_id)
    while own and own[0].last_offset < header.base_offset:
        own.popleft()
    return bool(own) and own[0].first_offset <= header.base_offset
