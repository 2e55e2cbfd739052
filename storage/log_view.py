"""A log as it was at one moment, for look-ups in another thread that may wait for the disk.

The broker's event loop looks up with `cached` (segments/location.py), from memory and from the page cache. Where that
raises NotCached, and for every look-up by time, a thread uses a `LogView`: copies of the segments that belong to it
alone, with files and indexes of their own. Log.learn then gives the log what the view found out: opened files, damage,
largest timestamps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

from .config import LogConfig
from .errors import DamagedFile, DiskError, OffsetOutOfRange, StaleView, StorageError
from .files import Disk, FileRange
from .producer_replay import aborted_in, rebuild_producers
from .producers import ProducerStates
from .segments import location
from .segments.damage import Damage
from .segments.location import AbortedLookup, Found, Location
from .segments.names import LOG_SUFFIX
from .segments.segment import Segment
from .segments.transaction_index import AbortedTransaction


class Twins(Sequence[Segment]):
    """Copies of segments, each made when it is first needed: a look-up needs one, of thousands perhaps."""

    __slots__ = ("_made", "_originals")

    def __init__(self, originals: tuple[Segment, ...], active: Segment) -> None:
        self._originals = originals
        # Slot -> copy. The active segment changes, so its copy was made before the thread began.
        self._made = {len(originals) - 1: active}

    def __len__(self) -> int:
        return len(self._originals)

    @overload
    def __getitem__(self, slot: int) -> Segment: ...

    @overload
    def __getitem__(self, slot: slice) -> list[Segment]: ...

    def __getitem__(self, slot: int | slice) -> Segment | list[Segment]:
        if isinstance(slot, slice):
            return [self[each] for each in range(*slot.indices(len(self)))]
        slot += len(self._originals) if slot < 0 else 0
        twin = self._made.get(slot)
        if twin is None:
            twin = self._made[slot] = self._originals[slot].twin()
        return twin

    @property
    def made(self) -> Iterable[tuple[Segment, Segment]]:
        """The segments that were copied, oldest first, each with its copy."""
        return [(self._originals[slot], twin) for slot, twin in sorted(self._made.items())]


class LogView:
    """A log as it was when this was made, for one thread. Its methods wait for the disk.

    A segment that retires meanwhile is renamed, and a cleaned segment may get its name. Where a look-up has copied it
    before, and opens a file of it after that, it raises StaleView: again() knows the name that the segment has now.
    Where a file has gone, or the log was cut, look-ups raise DiskError or CorruptBatch, and its segments are others:
    make another view.
    """

    def __init__(
        self, segments: tuple[Segment, ...], start_offset: int, end_offset: int, disk: Disk, config: LogConfig
    ) -> None:
        self.originals = segments
        self.start_offset = start_offset
        self.end_offset = end_offset
        self._disk = disk
        self._most_bytes = config.max_decompressed_message_bytes
        self._active = segments[-1].twin()
        self.segments = Twins(segments, self._active)

    def again(self) -> None:
        """Copy the segments again: those that have retired meanwhile have names that nobody else gets."""
        self.segments = Twins(self.originals, self._active)

    def producers_before(self, offset: int, now_ms: int) -> ProducerStates:
        """Return the producers as they are once the log is cut at `offset`. Raises DiskError."""
        directory = self.originals[0].directory
        return rebuild_producers(directory, self.segments, self.start_offset, offset, now_ms, self._disk)

    def read_cut(self, offset: int) -> None:
        """Read what a truncation to `offset` reads: it then finds all of that in memory and in the page cache."""
        slot = len(self.originals) - 1
        while slot and self.originals[slot].base_offset >= offset:
            slot -= 1
        self.segments[slot].read_cut(offset)

    def locate(self, offset: int, up_to: int) -> Location | None:
        """Return where `offset` lies, as location.locate does. Raises OffsetOutOfRange, CorruptBatch, DiskError."""
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        return location.locate(self.segments, self.end_offset, offset, up_to)

    def aborted_transactions(self, offset: int, fetched: FileRange, up_to: int) -> list[AbortedTransaction]:
        """Return the aborted transactions of a read, as Log.aborted_transactions does.

        Where a transaction index cannot be read, the batches tell.
        """
        if not any(len(each.aborted) for each in self.originals):
            return []
        while True:
            try:
                return AbortedLookup().reaching_into(self.segments, self.end_offset, offset, fetched, up_to)
            except DamagedFile as error:
                damaged = next((each for each in self.segments if each.aborted.path == error.path), None)
                if damaged is None or damaged.aborted.is_held:
                    raise
                directory = damaged.directory
                entries = aborted_in(directory, self.segments, damaged, self.start_offset, self._disk)
                damaged.aborted.hold(entries, error)

    def find_time(self, timestamp_ms: int, up_to: int) -> Found | None:
        """Return (timestamp, offset, leader epoch) of the first record below `up_to` that is not earlier, or None."""
        return location.find_time(self.segments, self.start_offset, timestamp_ms, up_to, self._most_bytes)

    def load_times(self, count: int) -> None:
        """Read the largest timestamps of the first `count` segments into memory."""
        for segment in self.segments[:count]:
            _ = segment.max_timestamp

    def max_timestamp(self) -> tuple[int, int]:
        """Return (timestamp, offset) of the first record with the largest timestamp, (-1, -1) if there is none."""
        return location.find_latest(self.segments, self.start_offset, self.end_offset, self._most_bytes)

    def mark_unreadable(self, error: DiskError) -> Damage | None:
        """Mark the batch that the disk could not read as damaged. None where its segment has left the log."""
        for segment in self.segments:
            if segment.path(LOG_SUFFIX) == error.path and error.position is not None:
                return segment.mark_unreadable(error.position, error.why)
        return None

    def mend_indexes(self) -> list[StorageError]:
        """Build the indexes again that look-ups found damaged; return what was damaged, and what went wrong.

        The newest segment is appended to meanwhile: look-ups do without its index until it is closed.
        """
        met: list[StorageError] = []
        for _, segment in self.segments.made:
            met += self._mend_aborted(segment)
            if segment.damaged_index is None:
                continue
            met.append(segment.damaged_index)
            try:
                if segment is not self._active:
                    segment.mend_indexes()
            except StaleView:
                continue  # it has left the log: nobody needs its indexes
            except StorageError as error:
                met.append(error)
        return met

    def _mend_aborted(self, segment: Segment) -> list[StorageError]:
        """Write a transaction index again that could not be read; return what was damaged, and what went wrong."""
        aborted = segment.aborted
        if aborted.damage is None:
            return []
        try:
            if segment is not self._active and not segment.is_retired:
                segment.rewrite_aborted()
        except StaleView:
            return []
        except StorageError as error:
            return [aborted.damage, error]
        return [aborted.damage]

    def starts_before(self, timestamp_ms: int, count: int) -> list[int]:
        """Return the first offsets of the segments that were last written by then, newest first, at most `count`.

        Clients before Kafka 0.10.1 look up by time in this way (ListOffsets 0).
        """
        segments, end = self.segments, len(self.segments)
        while end and self._disk.modified_ms(segments[end - 1].path(LOG_SUFFIX)) > timestamp_ms:
            end -= 1
        return location.latest_starts(segments[:end], self.start_offset, count)
