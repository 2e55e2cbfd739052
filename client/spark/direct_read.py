"""Reads one range of a partition from the broker's files: no byte of a record goes through the broker.

    lease -> open a file -> read a chunk -> scan headers -> yield the section -> ... -> next file -> next lease -> ...

The sections are those of a fetch: the same table, the same batches left out, and CRCs are checked where batches are
decoded. With `path=auto`, where files cannot be read the rest of the range is fetched, with one line in the log.

Promise: `sections` ends as it does for a fetch.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.fetch import PartitionData
from ...protocol.messages.odradek_lease_segments import LeasedFile
from ...protocol.records.errors import CorruptBatch
from ..errors import DirectReadNotPossible
from . import segment_lease
from .brokers import Brokers
from .connection import BlockingConnection
from .fetch import RangeFetch, Section
from .offsets import OffsetRange
from .options import IsolationLevel, ReadPath, SourceOptions
from .segment_lease import SegmentLease

if TYPE_CHECKING:
    from ..arrow.batches import BatchTable

log = logging.getLogger(__name__)

# Small enough for the processor's cache, large enough that system calls do not count.
CHUNK_BYTES = 2 << 20
# A batch may be larger than a chunk, but never larger than this: brokers do not take such requests.
MAX_BATCH_BYTES = 1 << 30
_HEAD_BYTES = 12


def range_reader(wanted: OffsetRange, options: SourceOptions, brokers: Brokers) -> RangeFetch:
    """Return the reader of one range that `options.path` asks for."""
    kind = RangeFetch if options.path is ReadPath.FETCH else DirectRead
    return kind(wanted, options, brokers)


class DirectRead(RangeFetch):
    """Reads one range. Used once: iterate over `sections()`."""

    def __init__(self, wanted: OffsetRange, options: SourceOptions, brokers: Brokers) -> None:
        super().__init__(wanted, options, brokers)
        # False once the rest of the range is fetched.
        self.is_direct = True
        self._lease: SegmentLease | None = None
        # Files of the lease that are not read yet.
        self._files: deque[LeasedFile] = deque()
        # The open file with its descriptor, and where its next batch begins.
        self._open: tuple[LeasedFile, int] | None = None
        self._at = 0
        # Whether a file of the present lease could be opened.
        self._has_opened = False
        # Where the last lease began.
        self._leased_at = -1
        self._buffer = memoryview(bytearray(CHUNK_BYTES))

    def prefetch(self) -> None:
        """Do nothing while files are read: the system reads ahead."""
        if not self.is_direct:
            super().prefetch()

    def _step(self) -> Section | None:
        if not self.is_direct:
            return super()._step()
        try:
            return self._read()
        except DirectReadNotPossible as error:
            why = f"direct read not possible: {self._range} at {self._position}: {error.message}"
            if self._options.path is ReadPath.DIRECT:
                raise DirectReadNotPossible(why) from None
            log.warning("%s; the task fetches from the broker instead", why)
            self.is_direct = False
            self._disconnect()
            return None
        except KafkaError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE and not self._files and self._open is None:
                self._out_of_range()
                return None
            raise

    def _disconnect(self) -> None:
        super()._disconnect()
        self._drop_lease()

    # -- Leases

    def _read(self) -> Section | None:
        """Return the next section of the open file, or open the next one and return None."""
        if self._open is not None:
            return self._next_section(*self._open)
        if self._files:
            self._open_next()
            return None
        self._drop_lease()
        self._ask()
        return None

    def _ask(self) -> None:
        address, self._planned_leader = self._planned_leader or self._leader(), None
        level = self._options.client.isolation_level
        with BlockingConnection(address, self._options.client) as connection:
            granted = segment_lease.ask(connection, self._range, self._position, level)
        if granted.lease_id < 0 and granted.next_offset > self._position:
            # No batch is there: compaction has removed what was.
            self._position = granted.next_offset
            self._progressed()
            return
        if granted.lease_id < 0:
            ends = PartitionData(high_watermark=granted.high_watermark, last_stable_offset=granted.last_stable_offset)
            self._nothing(ends)
            return
        self._lease = SegmentLease(granted, address, self._options.client)
        if not self._failures and self._leased_at == self._position:
            raise DirectReadNotPossible(f"{address} leases files that have nothing from {self._position} on")
        self._leased_at = self._position
        self._lease.check()
        self._files.extend(granted.files)
        self._has_opened = False
        # The next lease is of the same broker, as long as nothing fails.
        self._planned_leader = address

    def _open_next(self) -> None:
        assert self._lease is not None
        file = self._files.popleft()
        try:
            self._open = file, self._lease.open(file)
        except FileNotFoundError:
            if not self._has_opened:
                raise DirectReadNotPossible(f"{file.name} is missing, although it is leased") from None
            # The lease has ended: the broker has started again, or this task was held up for too long.
            self._drop_lease()
            return
        self._has_opened = True
        self._at = file.position

    def _drop_lease(self) -> None:
        self._close_file()
        self._files.clear()
        if self._lease is not None:
            lease, self._lease = self._lease, None
            lease.close()

    def _close_file(self) -> None:
        if self._open is not None:
            _, descriptor = self._open
            self._open = None
            os.close(descriptor)

    # -- Files

    def _next_section(self, file: LeasedFile, descriptor: int) -> Section | None:
        from ..arrow import batches

        if self._at >= file.end:
            self._close_file()
            if self._position < file.next_offset:
                # No batch reaches the offsets in between: compaction has removed them.
                self._position = file.next_offset
            self._progressed()
            return None
        data = self._chunk(file, descriptor, min(CHUNK_BYTES, file.end - self._at))
        source, table, _ = batches.scan(data)
        if not len(table):
            source, table, _ = batches.scan(self._large_batch(file, descriptor, data))
        if not len(table):
            raise CorruptBatch(f"{file.name} of {self._range}: no whole batch at {self._at}")
        self._at += batches.scanned_bytes(table)
        position = batches.next_offset(table)
        hidden = self._hidden(table)
        table = batches.readable(table, self._position, self._range.end, hidden)
        self._position = max(position, self._position)
        self._progressed()
        return Section(source, table)

    def _hidden(self, table: BatchTable) -> list[tuple[int, int]]:
        """Return the aborted transactions that reach into these batches, as (first offset, producer id)."""
        from ..arrow import batches

        assert self._lease is not None
        if self._options.client.isolation_level is not IsolationLevel.READ_COMMITTED:
            return []
        first, following = batches.first_offset(table), batches.next_offset(table)
        return [
            (each.first_offset, each.producer_id)
            for each in self._lease.granted.aborted_transactions
            if each.last_offset >= first and each.first_offset < following
        ]

    def _large_batch(self, file: LeasedFile, descriptor: int, data: memoryview) -> memoryview:
        """Return the bytes of the one batch that is larger than a chunk. Raises CorruptBatch."""
        size = _HEAD_BYTES + int.from_bytes(data[8:_HEAD_BYTES], "big", signed=True) if len(data) > _HEAD_BYTES else 0
        if not CHUNK_BYTES < size <= min(file.end - self._at, MAX_BATCH_BYTES):
            raise CorruptBatch(f"{file.name} of {self._range}: a batch of {size} bytes at {self._at}")
        if len(self._buffer) < size:
            self._buffer = memoryview(bytearray(size))
        return self._chunk(file, descriptor, size)

    def _chunk(self, file: LeasedFile, descriptor: int, size: int) -> memoryview:
        """Return `size` bytes of a file, valid until the next chunk. Raises DirectReadNotPossible."""
        target, filled = self._buffer[:size], 0
        while filled < size:
            try:
                count = os.preadv(descriptor, [target[filled:]], self._at + filled)
            except OSError as error:
                raise DirectReadNotPossible(f"{file.name} at {self._at}: {error.strerror}") from None
            if not count:
                raise DirectReadNotPossible(f"{file.name} ends at {self._at + filled}, before {file.end}: it was cut")
            filled += count
        return target
