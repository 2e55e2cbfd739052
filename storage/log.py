"""The log of one partition: its segments in order, producers and leader epochs beside them.

Appending writes to the newest segment and rolls a new one when that is full or old. A read gives a range of one file,
from the batch that holds the offset; it never passes a segment's end, so the reader asks again and no gap can open.
The list of segments is replaced, never changed: who holds one keeps it.

Threads: everything happens on one thread, but flush() and FileRange.read() may run in another, one flush at a time.
Promise: an append that raises leaves the log as it was. If even cutting back fails, or an fsync does, the log takes
no more writes (LogClosed): what the kernel dropped cannot be brought back by trying again.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock

from ..protocol.records.batch import BatchHeader
from ..protocol.records.control import ControlType, Marker
from .config import LogConfig as LogConfig  # re-exported: who opens a log needs it
from .deleted_directory import DELETED_DIR_SUFFIX, deleted_path, remove_directory
from .errors import (
    BatchTooLarge,
    DiskError,
    LogClosed,
    OffsetOutOfRange,
    OffsetsNotMonotonic,
    StorageError,
    TornWrite,
)
from .files import DISK, Buffer, Disk, FileRange
from .leader_epochs import LeaderEpochs
from .log_view import Location, LogView, latest_starts, locate, slot_of
from .producers import NONE, ProducerStates, load_snapshot, snapshot_offsets, write_snapshot
from .recovery import Contents, Recovery, RecoveryReport
from .segments.aborted_lookup import AbortedLookup
from .segments.damage import Damage
from .segments.segment import MAX_INT32, Segment
from .segments.transaction_index import AbortedTransaction, marker_of

# Older segments whose file and maps stay open after a read: enough for some consumers that lag, few descriptors a
# partition.
OPEN_OLD_SEGMENTS = 8
# A segment is forced to disk whenever it has grown by this much: what a start must read again after a crash.
UNFLUSHED_BYTES = 256 * 1024 * 1024


class Log:
    """See the module's text. Make one with `Log.open`."""

    def __init__(self, directory: Path, config: LogConfig, contents: Contents, now_ms: int, disk: Disk) -> None:
        self.directory = directory
        self.config = config
        self.recovery: RecoveryReport = contents.report
        self.producers: ProducerStates = contents.producers
        self.epochs: LeaderEpochs = contents.epochs
        self.log_start_offset = 0  # Invariant: <= log_end_offset
        self.recovery_point = 0  # Invariant: everything below it was fsynced, <= log_end_offset
        self.log_end_offset = contents.segments[-1].next_offset
        self._segments: tuple[Segment, ...] = tuple(contents.segments)  # Invariant: never empty, base offsets ascend
        self._active = contents.segments[-1]
        self._disk = disk
        self._last_append_ms = now_ms
        self._unflushed_since_ms = now_ms  # no unflushed record is older
        self._failure: StorageError | None = None
        self._closed = False
        self.is_whole = False  # closed, with nothing left to check
        # Held while a roll seals and while a flush moves the recovery point, never while anybody waits for the disk.
        self._sealing = Lock()
        self._names_dirty = contents.names_changed  # since the directory's last fsync
        self._aborted = AbortedLookup()
        self.flushed_bytes = 0  # that were forced to disk since it was opened
        self._retired: list[Segment] = []
        self._warm: deque[Segment] = deque()  # old segments with open files, least recently read first

    @classmethod
    def open(
        cls,
        directory: Path,
        config: LogConfig,
        *,
        clean: bool,
        now_ms: int,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        disk: Disk = DISK,
    ) -> Log:
        """Open or make the log in `directory`. `clean`: the last stop was, so that nothing needs to be checked.

        `recovery_point` and `log_start_offset` come from the checkpoints. Raises CorruptBatch, DamagedFile, DiskError.
        """
        disk.mkdir(directory)
        recovery = Recovery(directory, config, now_ms, log_start_offset, disk)
        contents = recovery.run(clean=clean, recovery_point=recovery_point)
        log = cls(directory, config, contents, now_ms, disk)
        end = log.log_end_offset
        log.log_start_offset = min(max(log_start_offset, contents.segments[0].base_offset), end)
        log.recovery_point = end if contents.report.clean else min(recovery_point, end)
        return log

    @property
    def size_bytes(self) -> int:
        """Of the log files together."""
        return sum(segment.size for segment in self._segments)

    def reconfigure(self, config: LogConfig) -> None:
        """Go by `config` from the next append on: a segment that is too large for it is rolled then, not cut.

        Unflushed records are measured by it at once: ask needs_flush().
        """
        self.config = config

    # -- writing -----------------------------------------------------------------------------------

    def append(self, batch: Buffer, header: BatchHeader, now_ms: int, marker: Marker | None = None) -> None:
        """Write one whole v2 batch with its offsets assigned; `header` is what `batch` begins with.

        `marker` is the end of a transaction, if that is what it holds. Its CRC is not looked at. Raises
        OffsetsNotMonotonic, BatchTooLarge, LogClosed, and DiskError when the write failed: the log is then as before.
        """
        if self._closed or self._failure is not None:
            raise self._refusal()
        if header.base_offset < self.log_end_offset:
            raise OffsetsNotMonotonic(header.base_offset, self.log_end_offset)
        active, config = self._active, self.config
        if not active.has_room(header, config.segment_bytes, config.segment_index_bytes) or (
            active.size
            and active.age_ms(header.max_timestamp, now_ms) > config.closing_age_ms(self.directory, active.base_offset)
        ):
            if len(batch) > config.segment_bytes:
                raise BatchTooLarge(len(batch), config.segment_bytes)
            # Segments join without a gap, unless that would take the batch's offset out of the index's range.
            reachable = header.last_offset - self.log_end_offset <= MAX_INT32
            active = self._roll(self.log_end_offset if reachable else header.base_offset, now_ms)
        if self.recovery_point >= self.log_end_offset:
            self._unflushed_since_ms = now_ms
        self._last_append_ms = now_ms
        try:
            if marker is None:
                active.append(batch, header, config.index_interval_bytes)
            else:
                self._append_marker(active, batch, header, marker)
        except TornWrite as error:
            self._failure = error
            raise
        self.log_end_offset = active.next_offset
        if header.producer_id >= 0:
            if marker is None:
                self.producers.apply(header, now_ms)
            else:
                self.producers.apply(header, now_ms, coordinator_epoch=marker.coordinator_epoch)
        if header.partition_leader_epoch > self.epochs.latest:
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)

    def _append_marker(self, active: Segment, batch: Buffer, header: BatchHeader, marker: Marker) -> None:
        """What was aborted is noted before the marker is there: it is the marker that lets readers on."""
        aborted = self.producers.aborted_by(header) if marker.type is ControlType.ABORT else None
        if aborted is not None:
            active.aborted.append(aborted)
            self._names_dirty = True
            self._aborted.forget()
        try:
            active.append(batch, header, self.config.index_interval_bytes)
        except StorageError:
            if aborted is not None:
                active.aborted.drop_last()
            raise

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        old = self._active
        if old.size == 0 and old.base_offset == base_offset:
            return old
        with self._sealing:
            old.seal()
            is_flushed = self.recovery_point >= self.log_end_offset
        if is_flushed:
            # Recovery trusts the indexes of a segment that ends at the recovery point.
            self._sync([old])
        # Not forced to disk: if it is lost, an older one and the headers behind it say the same.
        write_snapshot(
            self.producers,
            self.directory,
            self.log_end_offset,
            durable=False,
            keep_from=old.base_offset,
            disk=self._disk,
        )
        self._active = Segment.create(self.directory, base_offset, now_ms, self._disk)
        self._names_dirty = True
        if old.size == 0:
            old.unlink()
            self._segments = (*self._segments[:-1], self._active)
        else:
            self._segments = (*self._segments, self._active)
            self._keep_warm(old)
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        return self._active

    def needs_flush(self, now_ms: int) -> bool:
        """Whether flush.messages, flush.ms, a finished segment or one that has grown ask for flush()."""
        unflushed = self.log_end_offset - self.recovery_point
        if unflushed <= 0 or self._failure is not None or self._closed:
            return False
        return (
            unflushed >= self.config.flush_messages
            or self.recovery_point < self._active.base_offset
            or self._active.unsynced_bytes >= UNFLUSHED_BYTES
            or now_ms - self._unflushed_since_ms >= self.config.flush_ms
        )

    def flush(self, up_to: int | None = None) -> None:
        """Force at least everything below offset `up_to` (default: all) to disk, then move the recovery point there.

        May run in a thread beside appends. Raises DiskError, after which the log takes no more writes.
        """
        self._writable()
        since_ms = self._last_append_ms
        # An fsync of the active segment covers all of it.
        if up_to is None or up_to >= self._active.base_offset:
            target = self.log_end_offset
        else:
            target = up_to
        is_done = False
        while not is_done:
            self._sync(self._dirty_below(target))
            with self._sealing:
                # A roll meanwhile has written the indexes of what was the active segment: they come before the point.
                is_done = not any(segment.is_sealed for segment in self._dirty_below(target))
                if is_done:
                    self.recovery_point = max(self.recovery_point, target)
        if target >= self._active.base_offset:
            self._unflushed_since_ms = since_ms

    def _dirty_below(self, offset: int) -> list[Segment]:
        """Return the segments with something to fsync, be it that they were cut, up to `offset`, newest first."""
        segments = self._segments
        dirty: list[Segment] = []
        for segment in reversed(segments):
            if segment.is_dirty and segment.base_offset <= offset:
                dirty.append(segment)
            elif segment is not segments[-1]:
                # Those before it were synced when it was.
                break
        return dirty

    def _sync(self, segments: list[Segment]) -> None:
        """Force `segments`, the epochs and the names of files to disk."""
        try:
            for segment in segments:
                self._sync_segment(segment)
            self._names_dirty |= self.epochs.save()
            if self._names_dirty:
                self._names_dirty = False
                self._disk.fsync_dir(self.directory)
        except DiskError as error:
            # Anything else (no room for the epochs, no descriptor left) may go better another time.
            if error.operation == "fsync":
                self._failure = error
            elif self._closed:
                # Deleted while this thread was at it: its files have other names, or none.
                raise self._refusal() from error
            raise

    def _sync_segment(self, segment: Segment) -> None:
        unsynced_bytes = segment.unsynced_bytes
        try:
            segment.sync()
            self.flushed_bytes += unsynced_bytes
        except DiskError as error:
            # In a thread: meanwhile it may have gone.
            if error.operation == "fsync" or not segment.is_retired:
                raise

    # -- reading -----------------------------------------------------------------------------------

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
        """Return the batches from the one that holds `offset` on: at most `max_bytes` of them, and of one segment.

        None of them reaches `up_to`. `minimum_one`: the first comes whole even where it is larger than `max_bytes`
        (KIP-74). The range may end inside a later batch, as Kafka's does. Where no batch holds `offset` (compaction,
        a gap), it begins with the next one. `cached`: NotCached rather than a wait for the disk; then ask a view() in a
        thread, learn() from it, and come again with what it has `located`. Raises OffsetOutOfRange, CorruptBatch,
        DiskError.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        segments = self._segments
        if located is None:
            located = locate(segments, self.log_end_offset, offset, up_to, cached=cached)
        if located is None:
            return FileRange(self._active.file, self._active.size, 0, self._disk)
        if located.base_offset != self._active.base_offset:
            self._keep_warm(segments[slot_of(segments, located.base_offset)])
        return located.range(max_bytes, minimum_one, self._disk)

    def view(self) -> LogView:
        """Return the log as it is, for look-ups in another thread."""
        return LogView(self._segments, self.log_start_offset, self.log_end_offset, self._disk)

    def learn(self, view: LogView) -> None:
        """Take over what somebody found out with a view, which is of no use to anybody from now on."""
        if self._closed or self._failure is not None:
            return
        for segment, twin in zip(view.originals, view.segments, strict=True):
            if segment.learn(twin) and segment is not self._active:
                self._keep_warm(segment)

    def load_indexes(self) -> None:
        """Open the indexes of every segment, so that those that do not fit are built again now and not when needed."""
        for segment in self._segments:
            segment.load_indexes()
            segment.release()

    def aborted_transactions(
        self, offset: int, fetched: FileRange, up_to: int, *, cached: bool = False
    ) -> list[AbortedTransaction]:
        """Return what was aborted of the batches that `read(offset, ..., up_to)` gave, by first offset.

        `cached` as there.
        """
        return self._aborted.reaching_into(self._segments, self.log_end_offset, offset, fetched, up_to, cached=cached)

    def latest_starts(self, count: int) -> list[int]:
        """Return where segments begin, newest first, at most `count`."""
        return latest_starts(self._segments, self.log_start_offset, count)

    def iter_batches(
        self, from_offset: int, passed: Callable[[Damage], object] | None = None
    ) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield (header, bytes) of every batch from the one that holds `from_offset` to the present end.

        That is how state is replayed. `passed` is told of what is damaged and goes on behind it; without it
        CorruptBatch is raised.
        """
        segments, up_to = self._segments, self.log_end_offset
        told = passed if passed is not None else _refuse
        for segment in segments[slot_of(segments, from_offset) :]:
            for _, header, batch in segment.sound_batches(segment.offsets.lookup(from_offset)[1], told):
                if header.base_offset >= up_to:
                    return
                if header.last_offset >= from_offset:
                    yield header, bytes(batch)

    def _keep_warm(self, segment: Segment) -> None:
        """Let the least recently read of the old segments go when there are too many open ones."""
        warm = self._warm
        if warm and warm[-1] is segment:
            return
        if segment in warm:
            warm.remove(segment)
        warm.append(segment)
        # One that waits for its fsync keeps its descriptor: a new one may not be told of a failed write.
        synced = [each for each in warm if not each.is_dirty] if len(warm) > OPEN_OLD_SEGMENTS else []
        for oldest in synced[: len(warm) - OPEN_OLD_SEGMENTS]:
            warm.remove(oldest)
            oldest.release()

    # -- taking away -------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that holds `offset` or later ones, durably (a follower whose leader knows no better).

        The recovery point goes back with it: write its checkpoint before anything is appended.
        """
        self._writable()
        if offset >= self.log_end_offset:
            return
        segments = list(self._segments)
        while len(segments) > 1 and segments[-1].base_offset >= offset:
            self._drop(segments.pop())
        active = segments[-1]
        active.truncate_to(offset, self.config.index_interval_bytes)
        self._segments, self._active = tuple(segments), active
        self.log_end_offset = active.next_offset
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        self.epochs.truncate_from_end(self.log_end_offset)
        self._rebuild_producers()
        self._sync([active])

    def _rebuild_producers(self) -> None:
        self.producers, offset = load_snapshot(self.directory, self.log_end_offset, self._disk)
        start = self.log_start_offset if offset is None else offset
        for segment in self._segments[slot_of(self._segments, start) :]:
            for position, header in segment.sound_headers(start):
                if header.last_offset >= start:
                    marker = marker_of(self._disk, segment.file, position, header) if header.is_control else None
                    epoch = NONE if marker is None else marker.coordinator_epoch
                    self.producers.apply(header, self._last_append_ms, coordinator_epoch=epoch)

    def advance_log_start(self, offset: int, max_segments: int = sys.maxsize) -> None:
        """Let the log begin at `offset` (DeleteRecords, retention); it never goes back.

        Segments wholly below it retire: they are `.deleted` until the caller removes what take_retired() hands out.
        More than `max_segments` of them stay for another call with the same offset.
        """
        self._writable()
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)
        segments, gone = self._segments, 0
        while gone < min(len(segments) - 1, max_segments) and segments[gone + 1].base_offset <= self.log_start_offset:
            gone += 1
        # Published first: a segment that keeps its name on a failing disk is below the start all the same.
        self._segments = segments[gone:]
        for segment in segments[:gone]:
            self._retire(segment)

    def begin_anew(self, now_ms: int) -> None:
        """Let all that is in the log go: it begins at its end, with an empty segment. As advance_log_start."""
        self._writable()
        if self._active.size:
            end = self.log_end_offset
            # What it knows of its producers is in no batch any more.
            write_snapshot(self.producers, self.directory, end, durable=False, disk=self._disk)
            self._active = Segment.create(self.directory, end, now_ms, self._disk)
            self._segments = (*self._segments, self._active)
            self._names_dirty = True
        self.advance_log_start(self.log_end_offset)

    def take_retired(self) -> list[Segment]:
        """Return the segments that have retired since the last call: their files are the caller's to unlink.

        That may be done in any thread, and should be when nobody reads them any more (file.delete.delay.ms).
        """
        retired, self._retired = self._retired, []
        return retired

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The present ones, oldest first; never changed, only replaced."""
        return self._segments

    def replace_segments(self, old: tuple[Segment, ...], new: Segment, move: Callable[[], None]) -> None:
        """Put a cleaned segment in the place of `old`, which retire; `move` gives its files their names (swap.py).

        `old` must lie side by side before the active segment. What a DiskError leaves half done the next start ends.
        """
        self._writable()
        at = self._segments.index(old[0])
        assert self._segments[at : at + len(old)] == old, "segments that are the log's no longer"
        assert self._active not in old, "the active segment stays"
        try:
            for segment in old:
                self._retire(segment)
            move()
        except DiskError as error:
            self._failure = error
            raise
        self._segments = (*self._segments[:at], new, *self._segments[at + len(old) :])

    def _retire(self, segment: Segment) -> None:
        if segment in self._warm:
            self._warm.remove(segment)
            segment.release()
        segment.retire()
        self._retired.append(segment)
        self._names_dirty = True

    def _drop(self, segment: Segment) -> None:
        if segment in self._warm:
            self._warm.remove(segment)
        segment.unlink()
        self._names_dirty = True

    # -- ending ------------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush, complete the indexes and save the producers; then a clean start needs to check nothing. Again is fine.

        Raises DiskError, and LogClosed after an earlier failure: then the stop was not clean.
        """
        if self._closed:
            return
        try:
            self._writable()
            self._active.seal()
            end = self.log_end_offset
            if end not in snapshot_offsets(self.directory, self._disk):
                write_snapshot(
                    self.producers,
                    self.directory,
                    end,
                    durable=True,
                    keep_from=self._active.base_offset,
                    disk=self._disk,
                )
                self._names_dirty = True
            self.flush()
            self.is_whole = True
        finally:
            self._closed = True
            self._release()

    def give_up(self, error: StorageError) -> None:
        """Take no more writes, because of `error`, and give files and maps back."""
        self._failure = self._failure or error
        self._release()

    def set_aside(self, *, durable: bool = True) -> None:
        """Close without saving and move the directory out of its name's way, to NAME.N-delete.

        That takes no time, whatever its size. A name that is too long with it loses its end. Not `durable`: the caller
        forces the names to disk.
        """
        self._closed = True
        self._release()
        if self.directory.name.endswith(DELETED_DIR_SUFFIX):
            return
        number = 0
        while self._disk.exists(target := deleted_path(self.directory, number)):
            number += 1
        self._disk.rename(self.directory, target)
        if durable:
            self._disk.fsync_dir(target.parent)
        self.directory = target

    def delete(self) -> None:
        """Remove the log from the disk; a start completes a removal that a crash interrupted."""
        self.set_aside()
        remove_directory(self.directory, self._disk)

    def _release(self) -> None:
        for segment in self._segments:
            segment.release()
        self._warm.clear()

    def _writable(self) -> None:
        if self._closed or self._failure is not None:
            raise self._refusal()

    def _refusal(self) -> LogClosed:
        if self._failure is None:
            return LogClosed(self.directory, "the log is closed")
        error = LogClosed(self.directory, f"no more writes after: {self._failure.message}")
        error.__cause__ = self._failure
        return error


def _refuse(damage: Damage) -> None:
    raise damage.error()
