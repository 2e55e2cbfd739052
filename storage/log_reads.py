"""The reads of a log: ranges of its files by offset, aborted transactions, and batches for a replay.

A read gives a range of one file, from the batch that holds the offset. It never passes the end of a segment: the reader
asks again from where the range ends, so no gap can open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from weakref import ReferenceType, ref

from ..protocol.records.batch import BatchHeader
from .config import LogConfig
from .errors import DamagedFile, OffsetOutOfRange, StaleView, StorageError
from .files import Disk, FileRange, NotCached
from .log_view import LogView
from .segments.damage import Damage
from .segments.location import AbortedLookup, Location, latest_starts, locate, slot_of
from .segments.segment import Segment
from .segments.segment_file import OnDamage
from .segments.segment_list import SegmentList
from .segments.transaction_index import AbortedTransaction


class ReadableLog:
    """The segments of one partition, and the reads of them."""

    def __init__(
        self, directory: Path, config: LogConfig, segments: Iterable[Segment], names_dirty: bool, disk: Disk
    ) -> None:
        self.directory = directory
        # Another one counts from the next append on. A segment that is too large for it is rolled then, not cut.
        self.config = config
        # The name of the data directory. It stays when the log's own directory is renamed.
        self.parent_name = str(directory.parent)
        # Invariant: <= log_end_offset.
        self.log_start_offset = 0
        self._segments = SegmentList(segments, names_dirty)
        self.log_end_offset = self._segments.active.next_offset
        self._aborted = AbortedLookup()
        # Views in which threads may still look up.
        self._views: list[ReferenceType[LogView]] = []
        self._disk = disk

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The present segments, oldest first. The tuple is replaced, never changed."""
        return self._segments.all

    @property
    def size_bytes(self) -> int:
        """The size of all log files together."""
        return self._segments.size_bytes

    @property
    def appended_bytes(self) -> int:
        """How much was appended since the log was opened, whatever has left it since."""
        return self._segments.appended_bytes

    @property
    def damaged_places(self) -> int:
        """The number of places in the log files that were found to be damaged."""
        return sum(len(each.damages) for each in self._segments.all)

    def check_offset(self, offset: int) -> None:
        """Raise OffsetOutOfRange for an offset that is neither in the log nor its end."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)

    def read(
        self,
        offset: int,
        max_bytes: int,
        up_to: int,
        minimum_one: bool = True,
        *,
        cached: bool = False,
        located: Location | None = None,
    ) -> FileRange:
        """Return at most `max_bytes` of the batches from the one that holds `offset`, all of one segment.

        No batch of the range reaches `up_to`. `minimum_one`: the first batch comes whole even where it is larger than
        `max_bytes` (KIP-74). The range may end inside a later batch, as Kafka's does. Where no batch holds `offset`
        (compaction, a gap), the range begins with the next one. `cached`: raise NotCached rather than wait for the
        disk; then look up with a view() in a thread, learn() from it, and read again with what it has `located`.
        Raises OffsetOutOfRange, CorruptBatch, DiskError.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:  # check_offset would be a call for each fetch
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        segments, active = self._segments.all, self._segments.active
        if located is None:
            located = locate(segments, self.log_end_offset, offset, up_to, cached=cached)
        if located is None:
            return FileRange(active.file, active.size, 0, self._disk)
        if located.base_offset != active.base_offset:
            self._segments.keep_warm(segments[slot_of(segments, located.base_offset)])
        return located.range(max_bytes, minimum_one, self._disk)

    def aborted_transactions(
        self, offset: int, fetched: FileRange, up_to: int, *, cached: bool = False
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions in the range that `read(offset, ..., up_to)` gave, by first offset.

        `cached`: as in read().
        """
        try:
            return self._aborted.reaching_into(
                self._segments.all, self.log_end_offset, offset, fetched, up_to, cached=cached
            )
        except DamagedFile:
            if cached:
                # A view reads the batches instead.
                raise NotCached from None
            raise

    def view(self) -> LogView:
        """Return the log as it is now, for look-ups in another thread."""
        view = LogView(self._segments.all, self.log_start_offset, self.log_end_offset, self._disk, self.config)
        self._views = [each for each in self._views if each() is not None] + [ref(view)]
        return view

    def view_after(self, view: LogView, error: StorageError) -> LogView:
        """Return a view for another try of a look-up that has met `error`, after learn().

        It is the same one where only names have changed. So cleanings that are quicker than the look-up do not make it
        begin anew each time. The newest segment was copied while it was appended to, and is not copied again.
        """
        if not isinstance(error, StaleView) or view.originals[-1].is_retired:
            return self.view()
        view.again()
        return view

    def is_viewed(self, segment: Segment) -> bool:
        """Return whether a thread may look up in `segment`, which has retired: then its files must stay."""
        views = [each() for each in self._views]
        return any(view is not None and segment in view.originals for view in views)

    def learn(self, view: LogView) -> None:
        """Take over what look-ups with a view have found out. The view must not be used after that."""
        for segment, twin in view.segments.made:
            if segment.learn(twin) and segment is not self._segments.active:
                self._segments.keep_warm(segment)

    def load_indexes(self) -> None:
        """Open the indexes of every segment, so that damaged ones are built again now and not at the first read."""
        for segment in self._segments.all:
            segment.open_indexes()
            segment.release()

    def latest_starts(self, count: int) -> list[int]:
        """Return the first offsets of the segments, newest first, at most `count`."""
        return latest_starts(self._segments.all, self.log_start_offset, count)

    def iter_batches(self, from_offset: int, on_damage: OnDamage | None = None) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield (header, bytes) of every batch from the one that holds `from_offset` to the present end: a replay.

        `on_damage` is told of damage, and the walk goes on behind it. Without it damage raises CorruptBatch.
        """
        segments, up_to = self._segments.all, self.log_end_offset
        on_damage = on_damage if on_damage is not None else _raise_damage
        for segment in segments[slot_of(segments, from_offset) :]:
            for _, header, batch in segment.sound_batches(segment.walk_start(from_offset), on_damage):
                if header.base_offset >= up_to:
                    return
                if header.last_offset >= from_offset:
                    yield header, bytes(batch)


def _raise_damage(damage: Damage) -> None:
    raise damage.error()
