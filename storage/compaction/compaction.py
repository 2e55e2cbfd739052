"""Compaction: closed segments are rewritten with the last record of each key, as Kafka's cleaner does it.

    1. An `OffsetMap` of the dirty part gets the last offset of each key, up to the first segment that must stay, or
       until its memory is full. It also marks the offsets whose records are the last of their keys: of a batch in the
       dirty part, they tell what stays without another look at its keys.
    2. Every segment up to there is rewritten as `.cleaned` files, several small segments as one. A record stays if no
       later record has its key. A tombstone stays until its batch's delete horizon (KIP-534), which the first cleaning
       that keeps it sets. Aborted data goes. A transaction marker stays until its transaction's data is gone and its
       own horizon has passed. A record without a key goes.
    3. segments/swap.py puts each group in the place of the segments that it was made from.

Offsets never change, and batches keep their first and last ones. A batch without records stays where it is the last of
a producer, whose sequence it tells, and at the end of a group, so that segments follow each other without a gap. Every
batch's CRC is checked, so that no damaged batch gets a new CRC (CorruptBatch).

These are plain functions on files, for another process. They need the log's directory, not the open log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...protocol.records.batch import BatchHeader, check_crc, iter_records, read_header
from ...protocol.records.control import ControlType, control_type
from ...protocol.records.errors import RecordError
from ...protocol.records.filter import Part, Selection, body_of, emptied, iter_keys, iter_parts, with_selection
from ...protocol.records.record import NO_SIZE_LIMIT
from ..errors import CorruptBatch
from ..files import DISK, Disk, File
from ..segments import walk
from ..segments.names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_name,
    segment_path,
)
from ..segments.segment import Segment
from ..segments.transaction_index import ENTRY_BYTES, AbortedTransaction, TransactionIndex
from ..segments.walk import MAX_INT32
from .cleaned_transactions import CleanedTransactions
from .offset_map import OffsetMap


class Source(NamedTuple):
    """A closed segment: its base offset, the one of the segment after it, and its size in bytes."""

    base_offset: int
    end_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Job:
    """One cleaning of one partition."""

    directory: Path
    sources: tuple[Source, ...]  # Invariant: every segment below the first that must stay, none of them the active one
    first_dirty_offset: int  # earlier cleanings have cleaned the log up to here
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    dedupe_buffer_bytes: int
    aborted_bytes: tuple[tuple[int, int], ...] = ()  # (base offset, size) of every .txnindex of the log
    last_offsets: tuple[tuple[int, int], ...] = ()  # (producer id, offset of its last batch of data)
    last_epochs: tuple[tuple[int, int], ...] = ()  # (producer id, epoch) of producers of which only markers are left
    max_decompressed_message_bytes: int = NO_SIZE_LIMIT


@dataclass(frozen=True, slots=True)
class Cleaned:
    """One group: `sources` segments from the one at `base_offset` on were written as one of `size` bytes.

    size -1: the segments are clean already, and nothing was written.
    """

    base_offset: int
    sources: int
    size: int
    aborted_bytes: int = 0  # of its .txnindex


@dataclass(slots=True)
class CleaningStats:
    """The result of a cleaning."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    keys: int = 0


# Gets how many bytes were read or written since the last call. It may sleep (the throttle) or raise (a stop).
Pace = Callable[[int], None]
# How many bytes are read and written between two calls of a Pace.
PACE_BYTES = 256 * 1024


class Compaction:
    """One job; call `run` once. `end_offset` is then where the clean part of the log ends."""

    def __init__(self, job: Job, pace: Pace = lambda _: None, disk: Disk = DISK) -> None:
        self.stats = CleaningStats()
        self.end_offset = job.first_dirty_offset
        self._job = job
        self._pace = pace
        self._disk = disk
        self._unpaced_bytes = 0
        self._last_offsets = dict(job.last_offsets)
        self._last_epochs = dict(job.last_epochs)
        end = job.sources[-1].end_offset if job.sources else job.first_dirty_offset
        self._aborted = [each for each in _aborted(job, disk) if each.first_offset < end]
        self._transactions = CleanedTransactions(self._aborted)
        self._dirty = [source for source in job.sources if source.end_offset > job.first_dirty_offset]
        # No record lies between the offset that earlier cleanings have reached and the first dirty segment.
        start = max([job.first_dirty_offset, *(source.base_offset for source in self._dirty[:1])])
        self._map = OffsetMap(job.dedupe_buffer_bytes, start, end)

    def run(self) -> Iterator[Cleaned]:
        """Yield each group once its files are on disk. Raises CorruptBatch, DiskError, DamagedFile."""
        self._build_map()
        self.stats.keys = self._map.size
        self.end_offset = self._map.latest_offset + 1
        touched = [source for source in self._job.sources if source.base_offset < self.end_offset]
        for group in grouped(self._job, touched, self._disk):
            yield self._clean(group)

    # -- the map -----------------------------------------------------------------------------------

    def _build_map(self) -> None:
        dirty = self._dirty
        # The marker of any other aborted transaction lies before the dirty segments. The walk would never meet it, and
        # would take all later batches of its producer for aborted ones.
        ending = [each for each in self._aborted if dirty and each.last_offset >= dirty[0].base_offset]
        transactions = CleanedTransactions(ending)
        seen = self._map
        for source in dirty:
            for file, position, header, batch in self._batches(source):
                try:
                    if not self._map_batch(transactions, header, batch):
                        return
                except RecordError as error:
                    raise CorruptBatch(file.path, position, str(error)) from error
            seen.latest_offset = max(seen.latest_offset, source.end_offset - 1)

    def _map_batch(self, transactions: CleanedTransactions, header: BatchHeader, batch: memoryview) -> bool:
        """Put a batch's keys into the map; return False where the map is full."""
        seen = self._map
        check_crc(batch, 0, header)
        if header.is_control:
            transactions.is_spent(header, _kind(header, batch))
        elif not transactions.is_aborted(header):
            return seen.put_all(iter_keys(self._body(batch, header), header), header.last_offset)
        seen.latest_offset = max(seen.latest_offset, header.last_offset)
        return True

    # -- writing -----------------------------------------------------------------------------------

    def _clean(self, group: list[Source]) -> Cleaned:
        job = self._job
        base_offset = group[0].base_offset
        target = Segment.create(job.directory, base_offset, job.now_ms, self._disk, CLEANED_SUFFIX)
        try:
            changed = self._fill(target, group)
            aborted, self._transactions.kept = self._transactions.kept, []
            changed |= len(aborted) != self._indexed_aborts(group[0])
            if not changed and len(group) == 1:
                target.unlink()
                return Cleaned(base_offset, 1, -1)
            for entry in aborted:
                target.aborted.append(entry)
            target.seal()
            target.sync()
        except BaseException:
            target.unlink()
            raise
        target.release()
        self.stats.bytes_written += target.size
        return Cleaned(base_offset, len(group), target.size, target.aborted.size_bytes)

    def _indexed_aborts(self, source: Source) -> int:
        """Return how many entries the transaction index of a segment has."""
        return dict(self._job.aborted_bytes).get(source.base_offset, 0) // ENTRY_BYTES

    def _fill(self, target: Segment, group: list[Source]) -> bool:
        """Write the records of a group that stay; return whether they differ from those before."""
        interval = self._job.index_interval_bytes
        last = next((source for source in reversed(group) if source.size), None)
        changed = False
        for source in group:
            for file, position, header, batch in self._batches(source):
                is_end = source is last and position + header.size_bytes == source.size
                try:
                    check_crc(batch, 0, header)
                    kept = self._kept(header, batch, must_stay=is_end or self._is_last_of_producer(header))
                except RecordError as error:
                    raise CorruptBatch(file.path, position, str(error)) from error
                changed |= kept is not batch
                if kept is not None:
                    target.append(kept, header if kept is batch else read_header(kept), interval)
                    self._advance(len(kept))
        return changed

    def _kept(self, header: BatchHeader, batch: memoryview, *, must_stay: bool) -> bytearray | memoryview | None:
        """Return what stays of a batch: the batch itself, another batch, or None."""
        spent, discarded = self._judge(header, batch)
        if not header.record_count:
            return batch if must_stay else None
        if discarded or header.base_offset > self._map.latest_offset:
            return (emptied(header) if must_stay else None) if discarded else batch
        marks = None if header.is_control else self._map.marks_of(header.base_offset, header.last_offset)
        if marks is not None and (count := marks.count(1)) in (0, header.record_count) and not self._may_expire(count):
            self.stats.records_read += header.record_count
            self.stats.records_kept += count
            return batch if count else emptied(header) if must_stay else None
        body = self._body(batch, header)
        read, kept = self._select(header, body, marks)
        if not kept.count:
            return emptied(header) if must_stay else None
        is_mark = spent if header.is_control else kept.has_tombstone
        # A tombstone that the map does not cover may have older values of its key before it: its time begins later.
        is_covered = header.last_offset <= self._map.latest_offset
        if is_mark and is_covered and not header.has_delete_horizon:
            return with_selection(header, body, kept, self._job.now_ms + self._job.delete_retention_ms)
        return batch if kept.count == read else with_selection(header, body, kept)

    def _body(self, batch: memoryview, header: BatchHeader) -> bytes:
        return body_of(batch, header, self._job.max_decompressed_message_bytes)

    def _may_expire(self, count: int) -> bool:
        """Return whether tombstones may be among records that stay: these have a time of their own."""
        return count > 0 and self._map.has_tombstones

    def _select(self, header: BatchHeader, body: bytes, marks: bytearray | None) -> tuple[int, Selection]:
        """Return how many records a batch has, and those that stay: by their `marks`, or else by their keys."""
        read, kept = 0, Selection()
        is_control, base_offset, drops_tombstones = header.is_control, header.base_offset, self._is_past_horizon(header)
        for part in iter_parts(body, header):
            read += 1
            if marks is not None:
                stays = marks[part.offset - base_offset] and (part.has_value or not drops_tombstones)
            else:
                stays = is_control or self._stays(header, part)
            if stays:
                kept.add(part)
        self.stats.records_read += read
        self.stats.records_kept += kept.count
        return read, kept

    def _judge(self, header: BatchHeader, batch: memoryview) -> tuple[bool, bool]:
        """Return whether a batch is a marker whose transaction is gone, and whether none of its records stays."""
        if not header.is_control:
            return False, self._transactions.is_aborted(header)
        spent = self._transactions.is_spent(header, _kind(header, batch))
        return spent, spent and self._is_past_horizon(header)

    def _stays(self, header: BatchHeader, part: Part) -> bool:
        if part.offset > self._map.latest_offset:
            return True
        if part.key is None or part.offset < self._map.get(part.key):
            return False
        return part.has_value or not self._is_past_horizon(header)

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        return header.has_delete_horizon and header.base_timestamp <= self._job.now_ms

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        producer_id = header.producer_id
        if producer_id < 0:
            return False
        last_offset = self._last_offsets.get(producer_id)
        if last_offset is not None:
            return last_offset == header.last_offset
        return header.is_control and self._last_epochs.get(producer_id) == header.producer_epoch

    # -- reading -----------------------------------------------------------------------------------

    def _batches(self, source: Source) -> Iterator[tuple[File, int, BatchHeader, memoryview]]:
        path = segment_path(self._job.directory, source.base_offset, LOG_SUFFIX)
        file = self._disk.open(path, writable=False)
        for position, header, batch in walk.batches(self._disk, file, 0, source.size):
            self.stats.bytes_read += len(batch)
            self._advance(len(batch))
            yield file, position, header, batch

    def _advance(self, count: int) -> None:
        self._unpaced_bytes += count
        if self._unpaced_bytes >= PACE_BYTES:
            self._pace(self._unpaced_bytes)
            self._unpaced_bytes = 0


def grouped(job: Job, sources: list[Source], disk: Disk = DISK) -> list[list[Source]]:
    """Return groups of adjacent segments that fit in one segment, by size, indexes and range of offsets."""
    sizes = disk.sizes(job.directory)
    groups: list[list[Source]] = []
    room, index_room = 0, 0
    for source in sources:
        name = segment_name(source.base_offset)
        index_bytes = max(sizes.get(name + suffix, 0) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        if (
            groups
            and source.size <= room
            and index_bytes <= index_room
            and source.end_offset - 1 - groups[-1][0].base_offset <= MAX_INT32
        ):
            groups[-1].append(source)
        else:
            groups.append([source])
            room, index_room = job.segment_bytes, job.segment_index_bytes
        room -= source.size
        index_room -= index_bytes
    return groups


def _kind(header: BatchHeader, batch: memoryview) -> ControlType | None:
    """Return the type of a control batch, None where it is empty."""
    for record in iter_records(batch, 0, header, check=False):
        return control_type(record)
    return None


def _aborted(job: Job, disk: Disk) -> list[AbortedTransaction]:
    """Return the aborted transactions of the log, each from the index of the segment that holds its marker.

    Older versions of the cleaner could copy an entry to a later segment, where it outlived its marker.
    """
    return [
        entry
        for base_offset, size in job.aborted_bytes
        for entry in TransactionIndex(
            segment_path(job.directory, base_offset, TRANSACTION_INDEX_SUFFIX), size, disk
        ).entries()
        if entry.last_offset >= base_offset
    ]
