"""Opening a log's directory: after a clean stop it is taken as it is, after a crash it is checked.

After a clean stop a start reads the end of the newest segment only, from its last index entry on. After any other stop
it reads every segment from the one with the recovery point on. Below the recovery point it reads headers
(flushed_batches.py): an fsync has covered those batches, and the indexes are built again from them. From the recovery
point on it checks every batch: length, magic, CRC, ascending offsets. At the first bad batch the log is cut, later
segments are removed, and the report says what was lost.

A crash cannot explain a bad header below the recovery point, so nothing is cut for it. It is reported as damage, the
batches behind it are searched for and kept, and none of its offsets is assigned again. If no sound batch follows it,
the log goes on in a new segment, at the recovery point.

Where the recovery point is not known, every batch is checked, and all that is sound stays: a bad batch that sound ones
follow, in its segment or a later one, is reported as damage, and only what follows the last sound batch is cut. Offsets
that no batch holds stay as well, wherever they are: a cleaning leaves such gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..protocol.records.batch import BatchHeader
from .checkpoints import LEADER_EPOCH
from .config import LogConfig
from .errors import CorruptBatch, DamagedFile, UnreadableBatch
from .files import Disk
from .flushed_batches import FlushedBatches
from .known_damage import KNOWN_DAMAGE, LOST_RECORDS, mark_known, read_lost, write_lost
from .known_logs import KnownLog
from .leader_epochs import LeaderEpochs
from .producer_replay import replay
from .producer_snapshot import load_snapshot, snapshot_offsets
from .producers import ProducerStates
from .recovery_report import Cut, RecoveryReport
from .segments import swap, walk
from .segments.damage import MISPLACED, Damage
from .segments.names import (
    INDEX_SUFFIXES,
    LEFTOVER_SUFFIXES,
    LOG_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    base_offset_of,
    segment_name,
)
from .segments.segment import Segment
from .segments.transaction_index import AbortedTransaction


@dataclass(slots=True)
class Contents:
    """The parts of a log; see Log."""

    segments: list[Segment]
    producers: ProducerStates
    epochs: LeaderEpochs
    report: RecoveryReport
    # Whether files were made or removed.
    names_changed: bool


class Recovery:
    """Reads one directory. Call `run` once."""

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        now_ms: int,
        log_start_offset: int,
        disk: Disk,
        known: KnownLog | None = None,
    ) -> None:
        """`known`: what a clean stop has known of the log."""
        self._directory = directory
        self._config = config
        self._now_ms = now_ms
        self._log_start_offset = log_start_offset
        self._disk = disk
        self._known = known
        self._report = RecoveryReport(clean=False)
        self._segments: list[Segment] = []
        self._created = False
        # Whether a checkpoint says up to where the log was forced to disk.
        self._is_point_known = True
        # Empty segments behind the newest one with a batch, newest first. They go once the log's end is known.
        self._empty: list[Segment] = []
        # Ends of segments in which nothing is sound, and later segments follow. A later sound batch makes them damage.
        self._torn: list[tuple[Segment, Damage]] = []
        self._producers = ProducerStates()
        # Batches below this offset are in the snapshot.
        self._producers_from = 0
        # Whether every transaction index is made of whole entries.
        self._aborted_whole = True
        self._was_clean = False
        # Name -> size of the files that were there at first.
        self._sizes: dict[str, int] = {}

    def run(self, *, clean: bool, recovery_point: int) -> Contents:
        """Return segments (at least one, the last ready for appends), producers and epochs. Raises DiskError."""
        self._is_point_known = recovery_point >= 0
        # The directory is listed once: a start opens thousands of them.
        stamps = self._disk.stamps(self._directory)
        if self._known is not None and stamps != self._known.files:
            self._report.shrunk_from = self._shrunk_from(self._known, stamps)
            self._known = None
        sizes = {name: size for name, (size, _) in stamps.items()}
        sizes = self._sizes = swap.recover(self._directory, sizes, self._disk)
        if LOST_RECORDS in sizes:
            self._report.lost_before = read_lost(self._directory, self._disk)
        if not self._is_point_known:
            # A clean stop leaves a snapshot at the end of the log, and everything on disk.
            recovery_point = max(snapshot_offsets(sizes), default=0) if clean else 0
        self._segments = self._find_segments(sizes)
        if len(self._segments) == 1 and not self._segments[0].size and self._segments[0].base_offset < recovery_point:
            # All that an fsync has covered is gone from the only segment.
            self._remove_segment(self._segments.pop())
        self._segments = self._segments or [self._begin_at_known_end(recovery_point)]
        self._report.was_empty = self._created
        self._epochs = self._load_epochs()
        self._was_clean = clean
        self._report.clean = clean and self._aborted_whole and self._open_clean(recovery_point)
        if not self._report.clean:
            self._check(recovery_point)
        if self._segments[-1].next_offset < self._log_start_offset:
            self._start_over()
        if self._remove_empty() and self._report.clean:
            # Otherwise a power cut could bring the name back, behind batches that are appended now.
            self._disk.fsync_dir(self._directory)
        self._mark_known_damage()
        self._epochs.truncate_from_end(self._segments[-1].next_offset)
        self._producers.expire(self._now_ms, self._config.producer_id_expiration_ms)
        names_changed = not self._report.clean or self._created or bool(self._report.removed)
        return Contents(self._segments, self._producers, self._epochs, self._report, names_changed)

    # -- Files -------------------------------------------------------------------------------------

    def _find_segments(self, sizes: dict[str, int]) -> list[Segment]:
        for name in sizes:
            if name.endswith(LEFTOVER_SUFFIXES) or _is_index_without_log(name, sizes):
                self._remove(self._directory / name)
        bases = sorted(base for base in (base_offset_of(name, LOG_SUFFIX) for name in sizes) if base is not None)
        segments = [self._found(base, sizes) for base in bases]
        while len(segments) > 1 and segments[1].base_offset <= self._log_start_offset:
            self._remove_segment(segments.pop(0))
        self._set_empty_aside(segments)
        return segments

    def _set_empty_aside(self, segments: list[Segment]) -> None:
        while len(segments) > 1 and segments[-1].size == 0:
            # A roll that no append followed, or a roll that failed while the segment before it went on.
            self._empty.append(segments.pop())

    def _begin_at_known_end(self, recovery_point: int) -> Segment:
        """Return the first segment of a directory without any: no offset below the recovery point is given away again.

        A power cut may take the name of the only segment, after retention has removed those before it.
        """
        if self._log_start_offset < recovery_point:
            self._report.missing = self._log_start_offset, recovery_point
            if self._report.lost_before is None:
                # Before the segment is there: a start after this one must know that it is not all.
                write_lost(self._directory, self._log_start_offset, self._disk)
                self._report.lost_before = self._log_start_offset
        return self._create(max(self._log_start_offset, recovery_point))

    def _shrunk_from(self, known: KnownLog, stamps: Mapping[str, list[int]]) -> int | None:
        """Return where the first segment begins that is gone or shorter than the last stop has left it."""
        bases = (
            base_offset_of(name, LOG_SUFFIX)
            for name, (size, _) in known.files.items()
            if size > stamps.get(name, [0, 0])[0]
        )
        return min((each for each in bases if each is not None), default=None)

    def _remove_empty(self) -> bool:
        """Remove the empty segments whose place the log does not need. Return whether there were any."""
        kept = {each.base_offset for each in self._segments}
        gone = [segment for segment in self._empty if segment.base_offset not in kept]
        for segment in gone:
            self._remove_segment(segment)
        self._empty = []
        return bool(gone)

    @property
    def _rolled_to(self) -> int:
        """Where the newest segment begins, if it is empty."""
        return self._empty[0].base_offset if self._empty else 0

    def _found(self, base_offset: int, sizes: dict[str, int]) -> Segment:
        name = segment_name(base_offset)
        segment = Segment(self._directory, base_offset, sizes[name + LOG_SUFFIX], self._now_ms, self._disk)
        self._aborted_whole &= segment.aborted.found(sizes.get(name + TRANSACTION_INDEX_SUFFIX, 0))
        return segment

    def _load_epochs(self) -> LeaderEpochs:
        """Read the leader epochs. If the file is damaged, read them from the headers of all batches."""
        if self._known is not None:
            entries = tuple((epoch, offset) for epoch, offset in self._known.epochs)
            return LeaderEpochs(self._directory / LEADER_EPOCH, entries, self._disk)
        if LEADER_EPOCH not in self._sizes:
            return LeaderEpochs(self._directory / LEADER_EPOCH, disk=self._disk)
        try:
            return LeaderEpochs.load(self._directory, self._disk)
        except DamagedFile as error:
            self._report.rebuilt.append(error.path)
        epochs = LeaderEpochs(self._directory / LEADER_EPOCH, disk=self._disk)
        for segment in self._segments:
            for _, header in segment.sound_headers():
                epochs.assign(header.partition_leader_epoch, header.base_offset)
        return epochs

    def _create(self, base_offset: int) -> Segment:
        self._created = True
        return Segment.create(self._directory, base_offset, self._now_ms, self._disk)

    def _start_over(self) -> None:
        """Begin an empty log at its start: the records up to there were deleted, and the others are lost."""
        for segment in reversed(self._segments):
            self._remove_segment(segment)
        self._segments = [self._create(self._log_start_offset)]

    def _remove(self, path: Path) -> None:
        self._disk.unlink(path)
        self._report.removed.append(path)

    def _remove_segment(self, segment: Segment) -> None:
        segment.unlink()
        self._report.removed.append(segment.path(LOG_SUFFIX))

    # -- Producers and epochs ----------------------------------------------------------------------

    def _load_producers(self, up_to: int, names: Iterable[str] | None = None) -> None:
        self._producers, offset = load_snapshot(self._directory, up_to, self._disk, names)
        self._producers_from = offset if offset is not None else self._log_start_offset

    def _replay_headers(self, up_to: int) -> None:
        """Bring the producers from their snapshot to `up_to`."""
        for slot, segment in enumerate(self._segments):
            following = self._segments[slot + 1].base_offset if slot + 1 < len(self._segments) else up_to
            if following <= self._producers_from or segment.base_offset >= up_to or self._producers_from >= up_to:
                continue
            for position, header in segment.sound_headers_from(self._producers_from, self._note_damage):
                self._replay(segment, position, header)

    def _replay(self, segment: Segment, position: int, header: BatchHeader) -> AbortedTransaction | None:
        """Bring producers and epochs behind a batch; return the transaction that it aborts."""
        aborted = None
        # A batch across the log's start is read as a whole, so it counts.
        if header.last_offset >= self._producers_from:
            aborted = replay(self._producers, segment, position, header, self._now_ms, self._disk)
        if header.partition_leader_epoch > self._epochs.latest:
            self._epochs.assign(header.partition_leader_epoch, header.base_offset)
        return aborted

    def _mark_known_damage(self) -> None:
        if KNOWN_DAMAGE not in self._sizes:
            return
        segments = {each.base_offset: each for each in self._segments}
        for damage in mark_known(self._directory, segments, self._disk):
            self._note_damage(damage)

    def _note_damage(self, damage: Damage) -> None:
        found = self._report.damages
        if found and damage.covers(found[-1]):
            # A segment with too many damages joins two of them: the joined one replaces the one before.
            found.pop()
        if damage not in found:
            found.append(damage)

    # -- After a clean stop ------------------------------------------------------------------------

    def _open_clean(self, recovery_point: int) -> bool:
        """Take the log as it is. Return False if the end of its newest segment is not as a clean stop leaves it.

        The last batch decides where the log ends: its CRC is checked, and no CRC covers its offset, but a clean stop
        leaves the recovery point (0: not known) at the end.
        """
        active = self._segments[-1]
        if self._known is not None and recovery_point in (0, self._known.end_offset):
            self._rest(active, self._known)
            return True
        try:
            active.scan_tail(self._config.index_interval_bytes)
        except CorruptBatch:
            return False
        if recovery_point not in (0, active.next_offset) or not active.is_last_batch_sound:
            return False
        self._load_producers(active.next_offset, self._sizes)
        self._replay_headers(active.next_offset)
        active.release()
        return True

    def _rest(self, active: Segment, known: KnownLog) -> None:
        """Take the log as the stop knew it. Its files stay closed."""
        active.rest(known.end_offset, (known.max_timestamp_ms, known.max_offset))
        if known.has_producers:
            self._load_producers(known.end_offset, self._sizes)
            self._replay_headers(known.end_offset)

    # -- After a crash -----------------------------------------------------------------------------

    def _check(self, recovery_point: int) -> None:
        first = self._first_to_check(recovery_point)
        base_offset = self._segments[first].base_offset
        # From here on the batches tell the epochs. The file may know one that wrote nothing, and that the log has
        # forgotten since to follow another leader: batches of older epochs may lie behind its beginning.
        self._epochs.truncate_from_end(base_offset)
        # Not from inside the segment: to find its aborted transactions again, the check must know which transactions
        # were open when the segment began.
        self._load_producers(max(base_offset, self._log_start_offset))
        self._replay_headers(base_offset)
        for slot in range(first, len(self._segments)):
            segment = self._segments[slot]
            following = self._segments[slot + 1].base_offset if slot + 1 < len(self._segments) else None
            is_whole = self._check_segment(segment, recovery_point, following)
            if following is None:
                break
            segment.seal()
            if not is_whole or segment.next_offset > following:
                # Without an fsync an earlier part may be lost and a later one be there. A log has no such holes.
                self._drop_from(slot + 1, f"it does not follow {segment.path(LOG_SUFFIX).name}, which ends now")
                break
            if segment.next_offset < following and not segment.is_damaged_at_end:
                self._report.gaps.append((segment.next_offset, following))
        self._cut_torn_ends()
        self._keep_rolled_offset(recovery_point)
        self._protect_flushed_offsets(recovery_point)
        self._remove_empty()
        if self._report.cuts or self._report.removed or not self._aborted_whole:
            # Otherwise a power cut could bring back what was cut off, behind batches that are appended now, or the name
            # of an empty segment, which says that no batch before it reaches beyond its first offset; or it could take
            # transaction indexes below the recovery point, where the next start does not look. Older
            # segments come first: a power cut between must leave no hole before what is on disk.
            for segment in self._segments:
                if segment.is_dirty:
                    segment.sync()
            self._disk.fsync_dir(self._directory)

    def _cut_torn_ends(self) -> None:
        """Cut the torn ends of segments behind which no later segment holds anything sound, newest first."""
        while self._torn:
            segment, damage = self._torn.pop()
            if any(each.size for each in self._segments if each.base_offset > segment.base_offset):
                return
            self._report.damages.remove(damage)
            self._cut(segment, damage.position, damage.why)
            self._set_empty_aside(self._segments)
            end = self._segments[-1].base_offset
            self._report.gaps = [gap for gap in self._report.gaps if gap[1] <= end]

    def _keep_rolled_offset(self, recovery_point: int) -> None:
        """Let the log end where its newest segment began, though that is empty: offsets before it had been assigned.

        Behind a recovery point that is known nothing was promised: there the log goes on where the segment before ends.
        """
        last, gaps = self._segments[-1], self._report.gaps
        if self._is_point_known and last.base_offset > recovery_point and not last.size:
            if gaps and gaps[-1][1] == last.base_offset:
                self._remove_segment(self._segments.pop())
                gaps.pop()
            return
        bases = (each.base_offset for each in self._empty)
        end = max((each for each in bases if not self._is_point_known or each <= recovery_point), default=0)
        if last.next_offset < end and not last.is_damaged_at_end:
            gaps.append((last.next_offset, end))
            last.seal()
            self._segments.append(self._create(end))

    def _first_to_check(self, recovery_point: int) -> int:
        """Return the index of the segment with the recovery point; 0 if transaction indexes must be built again."""
        if not self._aborted_whole:
            return 0
        slot = max((slot for slot, each in enumerate(self._segments) if each.base_offset <= recovery_point), default=0)
        is_at_border = slot > 0 and self._segments[slot].base_offset == recovery_point
        return slot - 1 if is_at_border and not self._ends_soundly(self._segments[slot - 1], recovery_point) else slot

    def _ends_soundly(self, segment: Segment, recovery_point: int) -> bool:
        """Return whether the end of a closed segment is as the fsync left it that the recovery point stands for."""
        copy = segment.twin()
        try:
            copy.scan_tail(self._config.index_interval_bytes)
        except CorruptBatch:
            return False
        return copy.next_offset <= recovery_point and copy.is_last_batch_sound

    def _protect_flushed_offsets(self, recovery_point: int) -> None:
        """See that the next append gets no offset that an fsync has covered, and does not lie behind damage."""
        last = self._segments[-1]
        if last.size and last.next_offset < recovery_point and not last.is_damaged_at_end:
            self._report.missing = last.next_offset, recovery_point
            # A reader of these offsets gets an error, not the next record.
            last.mark(last.size, "batches that had been forced to disk are missing", last.size)
        if last.is_damaged_at_end:
            last.seal()
            self._segments.append(self._create(max(recovery_point, last.next_offset)))

    def _drop_from(self, slot: int, why: str) -> None:
        for segment in reversed(self._segments[slot:]):
            self._report.cuts.append(Cut(segment.path(LOG_SUFFIX), 0, segment.size, why))
            self._remove_segment(segment)
        del self._segments[slot:]

    def _check_segment(self, segment: Segment, recovery_point: int, following: int | None) -> bool:
        """Check one segment, build its indexes again, cut it at the first bad batch. Return whether it was whole.

        `following` is where the next segment begins, if there is one.
        """
        with segment.keeping_starts():
            segment.reset()
            segment.aborted.clear()
            self._report.rebuilt.append(segment.path(LOG_SUFFIX))
            return self._check_batches(segment, recovery_point, following)

    def _check_batches(self, segment: Segment, recovery_point: int, following: int | None) -> bool:
        next_base = following if following is not None else self._rolled_to
        tail = FlushedBatches(segment, recovery_point, self._take, self._note_damage, next_base).find_tail()
        self._require_readable(segment, tail.position)
        if tail.is_behind_damage:
            self._cut(segment, tail.position, "damage before it reaches past the recovery point")
            return False
        segment.mark_unsynced(tail.position)
        segment.forget_cached(tail.position)
        self._report.checked_segments += 1
        position: int | None = tail.position
        while position is not None and position < segment.size:
            try:
                self._check_tail(segment, position, following)
                position = None
            except UnreadableBatch:
                # The disk may be able to read the batch another time.
                raise
            except CorruptBatch as error:
                position = self._pass_over(segment, error, following)
                if position is None:
                    # Perhaps they had been forced to disk: no checkpoint says so, and a power cut leaves such holes.
                    behind = segment.next_sound(error.position)
                    more = f"; whole batches from {behind} on go with it" if behind < segment.size else ""
                    self._cut(segment, error.position, error.why + more)
                    return False
        return True

    def _pass_over(self, segment: Segment, error: CorruptBatch, following: int | None) -> int | None:
        """Return where the check of a tail goes on behind a bad batch; None where the log ends there.

        With a recovery point, a crash explains a bad batch, and the log ends at the first one. Without it nobody knows
        whether these bytes were forced to disk: they stay as damage, unless nothing sound follows them.
        """
        if self._is_point_known:
            return None
        end = segment.next_sound(error.position)
        if end >= segment.size and following is None:
            return None
        damage = segment.mark(error.position, error.why, end)
        if end >= segment.size and damage.position == error.position:
            self._torn.append((segment, damage))
        self._note_damage(damage)
        return end

    def _require_readable(self, segment: Segment, tail_position: int) -> None:
        """Raise UnreadableBatch where bytes that the disk cannot read may lie behind the recovery point.

        After a clean stop nothing lies there. After a crash these bytes may be acknowledged batches: to cut them off,
        or to assign their offsets again, would be a guess.
        """
        before = next((each for each in reversed(segment.damages) if each.position < tail_position), None)
        if not self._was_clean and before is not None and before.is_unreadable and before.end >= tail_position:
            raise before.error()

    def _check_tail(self, segment: Segment, start: int, following: int | None) -> None:
        """Check every batch from `start` on. Raises CorruptBatch at the first bad one, and UnreadableBatch."""
        end, path = start, segment.path(LOG_SUFFIX)
        try:
            for position, header, batch in segment.batches(start):
                if self._is_misplaced(segment, position, header, following):
                    self._note_damage(segment.mark(position, MISPLACED, position + len(batch)))
                else:
                    walk.check(path, position, header, batch, segment.next_offset, segment.base_offset)
                    self._take(segment, position, header)
                end = position + len(batch)
        finally:
            self._report.checked_bytes += end - start

    def _is_misplaced(self, segment: Segment, position: int, header: BatchHeader, following: int | None) -> bool:
        """Return whether only the offset of a batch is wrong: what lies behind it is sound, as no crash leaves it."""
        due, end = segment.next_offset, position + header.size_bytes
        if not self._is_point_known and following is not None and header.next_offset > following:
            return True
        if end == segment.size:
            is_wrong = header.base_offset < due or (following is not None and header.next_offset > following)
            return following is not None and is_wrong
        if not segment.is_misplaced(position, header, due):
            return False
        try:
            after = next(segment.headers(end), None)
        except CorruptBatch:
            return False
        return after is not None and after[1].base_offset >= due and segment.find_fault(*after) is None

    def _take(self, segment: Segment, position: int, header: BatchHeader) -> None:
        """Account for a batch of a segment whose indexes are built again."""
        segment.note(header, position, self._config.index_interval_bytes)
        if header.producer_id >= 0 or header.partition_leader_epoch > self._epochs.latest:
            aborted = self._replay(segment, position, header)
            if aborted is not None:
                segment.aborted.append(aborted)

    def _cut(self, segment: Segment, position: int, why: str) -> None:
        self._report.cuts.append(Cut(segment.path(LOG_SUFFIX), position, segment.size - position, why))
        segment.truncate(position)


def _is_index_without_log(name: str, sizes: dict[str, int]) -> bool:
    if not name.endswith(INDEX_SUFFIXES):
        return False
    base, _, suffix = name.rpartition(".")
    return base_offset_of(name, "." + suffix) is not None and base + LOG_SUFFIX not in sizes
