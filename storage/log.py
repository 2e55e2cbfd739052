"""The log of one partition: its segments in order, with the state of producers and the leader epochs beside them.

An append writes to the newest segment, and first rolls a new one when that is full or old.

Threads: everything happens on one thread, but flush() and FileRange.read() may run in another, one flush at a time.
Promise: an append that raises leaves the log as it was. Where even cutting the file back fails, or an fsync fails, the
log takes no more writes (LogClosed): trying again does not bring back what the kernel has dropped.
"""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Lock

from ..protocol.records.batch import BatchHeader
from ..protocol.records.control import ControlType, Marker
from .config import (
    NEVER,
    LogConfig,  # re-exported: opening a log needs it
)
from .deleted_directory import DELETED_DIR_SUFFIX, deleted_path
from .errors import (
    BatchTooLarge,
    CorruptBatch,
    DiskError,
    LogClosed,
    OffsetOutOfRange,
    OffsetsNotMonotonic,
    StorageError,
    TornWrite,
)
from .files import DISK, Buffer, Disk
from .known_damage import KNOWN_DAMAGE, forget_lost, write_known, write_lost
from .known_logs import KnownLog
from .leader_epochs import LeaderEpochs
from .log_reads import ReadableLog
from .log_view import LogView
from .producer_snapshot import snapshot_offsets, snapshot_path, write_snapshot
from .producers import ProducerStates
from .recovery import Contents, Recovery
from .recovery_report import RecoveryReport, first_lost
from .segments import swap
from .segments.segment import Segment
from .segments.staged_batch import StagedBatch
from .segments.walk import MAX_INT32

# A segment is forced to disk when it has grown by so much. It bounds what a start after a crash must read again.
UNFLUSHED_BYTES = 256 * 1024 * 1024


# The segments of a log, the size of the active one, where the log begins, and its leader epochs. A plain tuple: to make
# a named one takes longer than all else.
AtMoment = tuple[tuple[Segment, ...], int, int, tuple[tuple[int, int], ...]]


class Log(ReadableLog):
    """See the module's text. Make one with `Log.open`."""

    def __init__(self, directory: Path, config: LogConfig, contents: Contents, now_ms: int, disk: Disk) -> None:
        super().__init__(directory, config, contents.segments, contents.names_changed, disk)
        self.recovery: RecoveryReport = contents.report
        self.producers: ProducerStates = contents.producers
        self.epochs: LeaderEpochs = contents.epochs
        # Invariant: an fsync has covered everything below it, <= log_end_offset.
        self.recovery_point = 0
        # The recovery point of the last checkpoint that was begun, and of the last one that is on disk.
        self._noted_point = 0
        self.point_on_disk = 0
        # Where the log begins after a crash, at least.
        self.start_on_disk = 0
        # A segment that a roll has closed at the recovery point, until a flush has forced its indexes to disk.
        self._index_due: Segment | None = None
        # How many cuts there were: a job of the cleaner that has read the log before one is void. And the lowest offset
        # of the cuts since the cleaner has said up to where the log is clean.
        self.cuts = 0
        self.cut_to = NEVER
        # Up to where a checkpoint on disk may say that the log is clean.
        self.clean_on_disk = NEVER
        # The first offset of which a start has found that its record may be lost; None: all is there.
        self.lost_from: int | None = None
        # Bytes that were forced to disk since the log was opened.
        self.flushed_bytes = 0
        # Whether the log was closed with nothing left for the next start to check.
        self.is_whole = False
        self.last_append_ms = now_ms
        # No unflushed record is older.
        self._unflushed_since_ms = now_ms
        # Why the log takes no more writes; None: it takes them.
        self._failure: StorageError | None = None
        self._closed = False
        # Held while a roll seals and while a flush moves the recovery point, never while a thread waits for the disk.
        self._sealing = Lock()

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
        known: KnownLog | None = None,
        disk: Disk = DISK,
    ) -> Log:
        """Open or make the log in `directory`. `clean`: the last stop was clean, so that nothing needs to be checked.

        `recovery_point` (-1: not known) and `log_start_offset` come from the checkpoints. `known` is what known() has
        returned at that stop. Raises CorruptBatch, DamagedFile, DiskError.
        """
        if not disk.exists(directory):
            disk.mkdir(directory)
        recovery = Recovery(directory, config, now_ms, log_start_offset, disk, known)
        contents = recovery.run(clean=clean, recovery_point=recovery_point)
        log = cls(directory, config, contents, now_ms, disk)
        end = log.log_end_offset
        log.log_start_offset = min(max(log_start_offset, contents.segments[0].base_offset), end)
        log._take_losses(log_start_offset)
        log.recovery_point = log._noted_point = end if contents.report.clean else min(max(recovery_point, 0), end)
        log.point_on_disk, log.start_on_disk = log._noted_point, log.log_start_offset
        if recovery_point < 0 and (contents.report.damages or contents.report.gaps):
            # Otherwise the next crash would take the damage for a torn end, and cut off what lies behind it.
            log.flush()
            write_known(directory, contents.report.damages, disk)
        return log

    def _take_losses(self, log_start_offset: int) -> None:
        """Find out what is lost, and note it for later starts until `give_up_lost` or `keep`."""
        found = first_lost(self.recovery, self.segments, log_start_offset, self.log_end_offset)
        noted = self.recovery.lost_before
        self.lost_from = min((each for each in (found, noted) if each is not None), default=None)
        if self.lost_from is not None and self.lost_from >= self.log_end_offset:
            # It was cut off, and the crash came before the note was removed.
            self.lost_from = None
        if self.lost_from is None and noted is not None:
            self.recovery.lost_before = None
            forget_lost(self.directory, self._disk)
        elif self.lost_from is not None and self.lost_from != noted:
            write_lost(self.directory, self.lost_from, self._disk)

    def keep(self) -> None:
        """Take what the log holds for all that it should hold: it leads, and others copy from it. Raises DiskError."""
        if self.lost_from is not None:
            self.lost_from = None
            forget_lost(self.directory, self._disk)

    def learn(self, view: LogView) -> None:
        """Take over what look-ups with a view have found out. The view must not be used after that."""
        if not self._closed and self._failure is None:
            super().learn(view)

    # -- Appending ---------------------------------------------------------------------------------

    def stage(self, number: int, batch: Buffer) -> StagedBatch:
        """Write a very large batch to a file of its own, but for its header. Raises DiskError, LogClosed.

        A thread may do that before an append.
        """
        self._check_writable()
        return StagedBatch.write(self.directory, number, batch, self._disk)

    def append(
        self,
        batch: Buffer,
        header: BatchHeader,
        now_ms: int,
        marker: Marker | None = None,
        staged: StagedBatch | None = None,
    ) -> None:
        """Write one whole v2 batch with its offsets assigned; `header` is the header of `batch`.

        `marker` is the transaction marker in the batch, if it holds one. A `staged` one is written already, all but
        its header, and begins a segment. The CRC is not checked. Raises OffsetsNotMonotonic, BatchTooLarge, LogClosed,
        and DiskError when the write failed: the log is then as before.
        """
        if self._closed or self._failure is not None:
            raise self._closed_error()
        if header.base_offset < self.log_end_offset:
            raise OffsetsNotMonotonic(header.base_offset, self.log_end_offset)
        active, config = self._segments.active, self.config
        if active.is_resting:
            active = self._resume(active, now_ms)
        closing_age_ms = config.segment_ms
        if config.segment_jitter_ms:
            closing_age_ms = config.closing_age_ms(self.directory, active.base_offset)
        if (staged is not None and active.size) or not active.takes(header, now_ms, config, closing_age_ms):
            if len(batch) > config.segment_bytes:
                raise BatchTooLarge(len(batch), config.segment_bytes)
            # Segments join without a gap, unless the index could not hold the batch's offset then.
            reachable = header.last_offset - self.log_end_offset <= MAX_INT32
            active = self._roll(self.log_end_offset if reachable else header.base_offset, now_ms)
        if self.recovery_point >= self.log_end_offset:
            self._unflushed_since_ms = now_ms
        self.last_append_ms = now_ms
        try:
            if marker is None:
                active.append(batch, header, config.index_interval_bytes, staged)
            else:
                self._append_marker(active, batch, header, marker)
        except TornWrite as error:
            self._failure = error
            raise
        self.log_end_offset = active.next_offset
        if staged is not None:
            self._segments.names_dirty = True
        if header.producer_id >= 0:
            if marker is None:
                self.producers.apply(header, now_ms)
            else:
                self.producers.apply(header, now_ms, coordinator_epoch=marker.coordinator_epoch)
        if header.partition_leader_epoch > self.epochs.latest:
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)

    def _resume(self, active: Segment, now_ms: int) -> Segment:
        """Return the segment for the first append since a start: a new one where the end of `active` is damaged.

        Raises DiskError.
        """
        try:
            active.resume(self.config.index_interval_bytes)
        except CorruptBatch as error:
            active.mark(error.position, error.why)
            return self._roll(self.log_end_offset, now_ms)
        return active

    def _append_marker(self, active: Segment, batch: Buffer, header: BatchHeader, marker: Marker) -> None:
        """Write the aborted transaction to its index before the marker, because the marker lets readers go on."""
        aborted = self.producers.aborted_by(header) if marker.type is ControlType.ABORT else None
        if aborted is not None:
            active.aborted.append(aborted)
            self._segments.names_dirty = True
            self._aborted.forget()
        try:
            active.append(batch, header, self.config.index_interval_bytes)
        except StorageError:
            if aborted is not None:
                active.aborted.drop_last()
            raise

    def roll(self, now_ms: int) -> None:
        """Close the active segment and begin a new one, so that the cleaner may take what is there."""
        self._check_writable()
        self._roll(self.log_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        """Close the active segment and return a new one; an empty one that begins there already stays."""
        old = self._segments.active
        if old.size == 0 and old.base_offset == base_offset:
            return old
        with self._sealing:
            old.seal()
            is_flushed = self.recovery_point >= self.log_end_offset
        if self._noted_point >= self.log_end_offset:
            # Recovery trusts the indexes of a segment that ends at the recovery point of the checkpoint.
            self._sync([old])
            is_flushed = False
        self._write_producers(durable=False, keep_from=old.base_offset)
        new = Segment.create(self.directory, base_offset, now_ms, self._disk)
        is_old_kept = old.size > 0
        self._segments.add(new)
        if is_old_kept:
            self._segments.keep_warm(old)
        if is_flushed:
            self._index_due = old
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        return new

    def _write_producers(self, *, durable: bool, keep_from: int | None = None) -> None:
        """Write a snapshot of the producers.

        If one that is not durable is lost, an older one and the log replace it.
        """
        write_snapshot(
            self.producers, self.directory, self.log_end_offset, durable=durable, keep_from=keep_from, disk=self._disk
        )

    # -- Flushing ----------------------------------------------------------------------------------

    def flush_delay_ms(self, now_ms: int) -> int | None:
        """Return in how many milliseconds a flush() is due at the latest; None where nothing asks for one.

        It is due now by flush.messages, by flush.ms, for a closed segment and for one that has grown.
        """
        unflushed, config = self.log_end_offset - self.recovery_point, self.config
        if unflushed <= 0 or self._failure is not None or self._closed:
            return None
        active = self._segments.active
        if (
            unflushed >= config.flush_messages
            or self.recovery_point < active.base_offset
            or self._index_due is not None
            or (active.size >= UNFLUSHED_BYTES and active.unsynced_bytes >= UNFLUSHED_BYTES)
            or now_ms - self._unflushed_since_ms >= config.flush_ms
        ):
            return 0
        return config.flush_ms if config.flush_ms < NEVER else None

    def flush(self, up_to: int | None = None) -> None:
        """Force at least everything below offset `up_to` (default: all) to disk, then move the recovery point there.

        May run in a thread beside appends. Raises DiskError, after which the log takes no more writes.
        """
        self._check_writable()
        since_ms = self.last_append_ms
        # An fsync of the active segment covers all of it.
        if up_to is None or up_to >= self._segments.active.base_offset:
            target = self.log_end_offset
        else:
            target = up_to
        is_done = False
        while not is_done:
            self._sync(self._segments.dirty_below(target, self.recovery_point))
            with self._sealing:
                # A roll meanwhile has written indexes of the segment that was active: they must be durable first.
                dirty = self._segments.dirty_below(target, self.recovery_point)
                is_done = not any(segment.is_sealed for segment in dirty)
                if is_done:
                    self.recovery_point = max(self.recovery_point, target)
                    self._index_due = None
        if target >= self._segments.active.base_offset:
            self._unflushed_since_ms = since_ms

    def checkpoint(self) -> int:
        """Return the recovery point for a checkpoint that is about to be written.

        A start trusts the indexes of every segment that ends there, so it lies before the end of one whose indexes
        wait for their fsync.
        """
        due, point = self._index_due, self.recovery_point
        self._noted_point = point if due is None else min(point, max(due.last_base_offset, self.log_start_offset))
        return self._noted_point

    def lower_recovery_point(self, offset: int) -> bool:
        """Let the recovery point be at `offset` at most, before the log is cut there.

        Return whether a checkpoint may have a higher one, or say that more is clean: another must be on disk first.
        Otherwise batches that are appended later would pass for flushed, or for clean, after a crash.
        """
        self.recovery_point = min(self.recovery_point, offset)
        self.cut_to = min(self.cut_to, offset)
        return max(self._noted_point, self.point_on_disk, self.clean_on_disk) > offset

    def _sync(self, segments: list[Segment]) -> None:
        """Force `segments`, the leader epochs and the names of files to disk."""
        try:
            for segment in segments:
                self._sync_segment(segment)
            self._segments.names_dirty |= self.epochs.save()
            if self._segments.names_dirty:
                self._segments.names_dirty = False
                self._disk.fsync_dir(self.directory)
        except DiskError as error:
            # Other failures (no room for the epochs, no descriptor left) may pass.
            if error.operation == "fsync":
                self._failure = error
            elif self._closed:
                # The log was deleted while this thread was flushing: its files have other names, or are gone.
                raise self._closed_error() from error
            raise

    def _sync_segment(self, segment: Segment) -> None:
        unsynced_bytes = segment.unsynced_bytes
        try:
            segment.sync()
            self.flushed_bytes += unsynced_bytes
        except DiskError as error:
            # This runs in a thread, and the segment may have retired meanwhile.
            if error.operation == "fsync" or not segment.is_retired:
                raise

    # -- Removal -----------------------------------------------------------------------------------

    def advance_log_start(self, offset: int, max_segments: int = sys.maxsize) -> None:
        """Let the log begin at `offset` (DeleteRecords, retention); it never goes back.

        Segments wholly below it retire: their files are `.deleted` until the caller removes what take_retired()
        returns. More than `max_segments` of them stay for another call with the same offset.
        """
        self._check_writable()
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)
        self._segments.retire_below(self.log_start_offset, max_segments)

    def begin_anew(self, now_ms: int) -> None:
        """Remove all records: the log begins at its end, with an empty segment. Segments retire as they do above."""
        self._check_writable()
        if self._segments.active.size:
            # No batch tells the state of the producers any more.
            self._write_producers(durable=False)
            self._segments.add(Segment.create(self.directory, self.log_end_offset, now_ms, self._disk))
        self.advance_log_start(self.log_end_offset)

    def take_retired(self) -> list[Segment]:
        """Return the segments that have retired since the last call. The caller removes their files with unlink().

        Any thread may do that, once no reader needs them (file.delete.delay.ms).
        """
        return self._segments.take_retired()

    def replace_segments(
        self, old: tuple[Segment, ...], base_offset: int, size: int, aborted_bytes: int, now_ms: int
    ) -> None:
        """Put the cleaned segment at `base_offset`, whose files are `.swap`, in the place of `old`, which retire.

        `size` and `aborted_bytes` are those of its log file and its transaction index. `old` must lie side by side
        before the active segment. Call swap.finish() then, in a thread. Raises DiskError: the log is then as before,
        and swap.tidy() may run. Raises TornSwap where that failed, too: the next start completes the swap.
        """
        self._check_writable()
        new = Segment(self.directory, base_offset, size, now_ms, self._disk)
        new.aborted.found(aborted_bytes)
        try:
            self._segments.replace(old, new, lambda: swap.place(self.directory, base_offset, self._disk))
        except DiskError as error:
            self._failure = self._segments.take_back(
                old, lambda: swap.displace(self.directory, base_offset, self._disk)
            )
            if self._failure is not None:
                raise self._failure from error
            raise

    def truncate_to(self, offset: int, producers: ProducerStates, *, durable: bool = True) -> None:
        """Remove every batch that holds `offset` or later ones, durably. For followers that diverge from the leader.

        LogView.read_cut() has read what it reads, in a thread. Not `durable`: call flush() next, in a thread.
        `producers` are those of the log that is left (LogView.producers_before): to find them may take seconds. Lower
        the recovery point first, and write its checkpoint. No flush may run.
        """
        self._check_writable()
        if offset >= self.log_end_offset:
            # An epoch that wrote nothing may have begun at the end; the leader does not know it.
            self.epochs.truncate_from_end(offset)
            return
        self.cuts += 1
        self._segments.truncate_to(offset, self.config.index_interval_bytes)
        active = self._segments.active
        self.log_end_offset = active.next_offset
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        self.epochs.truncate_from_end(self.log_end_offset)
        self.producers = producers
        if durable or self._index_due is active or self._index_due not in self.segments:
            self._index_due = None
        if durable:
            self._sync(self._segments.dirty_below(self.log_end_offset, self.recovery_point))

    def give_up_lost(self, now_ms: int, producers: ProducerStates) -> None:
        """Remove every batch from `lost_from` on, durably, where another replica has them all.

        `producers` are those of the log that is left.

        No flush may run. Lower the recovery point first, and write its checkpoint.
        """
        offset = self.lost_from
        if offset is None:
            return
        if offset <= self.segments[0].base_offset:
            self.start_over(offset, now_ms)
        else:
            self.truncate_to(offset, producers)
        self.keep()

    def start_over(self, offset: int, now_ms: int) -> None:
        """Remove all records, and begin an empty log at `offset`, durably. For followers that are too far behind.

        Segments retire as in advance_log_start(). No flush may run. Lower the recovery point first, and write its
        checkpoint.
        """
        self._check_writable()
        self.cuts += 1
        self._segments.retire_all(lambda: Segment.create(self.directory, offset, now_ms, self._disk))
        self.log_start_offset = self.log_end_offset = self.recovery_point = self.start_on_disk = offset
        self._index_due = None
        self.epochs.truncate_from_end(0)
        self.producers = ProducerStates()
        for each in snapshot_offsets(self._disk.names(self.directory)):
            self._disk.unlink(snapshot_path(self.directory, each))
        self._sync([self._segments.active])

    # -- Closing -----------------------------------------------------------------------------------

    def at_this_moment(self) -> AtMoment:
        """Return all that a backup must know at its moment, in which nobody is served: next to no work."""
        segments = self._segments
        return segments.all, segments.active.size, self.log_start_offset, self.epochs.entries

    @property
    def is_resting(self) -> bool:
        """Whether no record has come since a start that knew where the log ends: a close has next to nothing to do."""
        return self._segments.active.is_resting

    def complete(self, *, durable: bool = False) -> None:
        """Complete the indexes and write the producers and the leader epochs, as a close does, and append no more.

        Not `durable`: nothing is forced to disk. Raises as close() does.
        """
        self._check_writable()
        active = self._segments.active
        if not active.is_sealed:
            active.seal()
        # While the log rests, the stop before has written a snapshot of the same producers.
        if not self.is_resting and not self._has_snapshot():
            self._write_producers(durable=durable, keep_from=active.base_offset)
            self._segments.names_dirty = True
        self._segments.names_dirty |= self.epochs.save(durable=durable)

    def close(self, *, is_on_disk: bool = False) -> None:
        """Flush, complete the indexes and save the producers, so that a clean start needs no checks. Idempotent.

        `is_on_disk`: the caller has forced the whole file system to disk after complete(). Raises DiskError, and
        LogClosed after an earlier failure: then the stop was not clean.
        """
        if self._closed:
            return
        try:
            self._check_writable()
            if is_on_disk:
                self.recovery_point, self._index_due = self.log_end_offset, None
            else:
                self.complete(durable=True)
                self.flush()
            self.is_whole = True
        finally:
            self._closed = True
            self._segments.release()

    def _has_snapshot(self) -> bool:
        return self.log_end_offset in snapshot_offsets(self._disk.names(self.directory))

    def known(self) -> KnownLog | None:
        """Return what is known of a log that was closed well; None where a start should open it. Raises DiskError."""
        active = self._segments.active
        # A start removes an empty segment behind others.
        is_rolled = not active.size and len(self.segments) > 1
        if not self.is_whole or self.recovery.gaps or is_rolled or any(each.damages for each in self.segments):
            return None
        timestamp_ms, offset = active.max_timestamp
        files = self._disk.stamps(self.directory)
        epochs = [list(each) for each in self.epochs.entries]
        if KNOWN_DAMAGE in files:
            return None
        return KnownLog(files, self.log_end_offset, timestamp_ms, offset, epochs, len(self.producers) > 0)

    def give_up(self, error: StorageError) -> None:
        """Take no more writes because of `error`, and close the files."""
        self._failure = self._failure or error
        self._segments.release()

    def set_aside(self, *, durable: bool = True) -> None:
        """Close without saving and rename the directory to NAME.N-delete, which takes no time, whatever its size.

        Not `durable`: the caller forces the names to disk.
        """
        self._closed = True
        self._segments.release()
        if self.directory.name.endswith(DELETED_DIR_SUFFIX):
            return
        number = 0
        while self._disk.exists(target := deleted_path(self.directory, str(number))):
            number += 1
        self._disk.rename(self.directory, target)
        if durable:
            self._disk.fsync_dir(target.parent)
        self.directory = target

    def _check_writable(self) -> None:
        if self._closed or self._failure is not None:
            raise self._closed_error()

    def _closed_error(self) -> LogClosed:
        if self._failure is None:
            return LogClosed(self.directory, "the log is closed")
        error = LogClosed(self.directory, f"no more writes after: {self._failure.message}")
        error.__cause__ = self._failure
        return error
