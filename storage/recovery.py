"""Opening a log's directory: taking over what a clean stop left, checking what a crash may have torn.

After a clean stop nothing is read but the end of the newest segment, from its last index entry on. After any other,
every segment from the one with the recovery point on is gone through: below the point headers only (they were
fsynced; the indexes are built again from them), from the point on batch by batch, with length, magic, CRC and
ascending offsets. At the first bad one the log is cut, later segments are removed, and the report says what was lost.

A bad header below the recovery point is nothing that a crash explains, and nothing is cut for it: it is reported as
damage, what lies behind it is searched for and kept, and no offset of it is given away again. Where nothing sound is
behind it the log goes on in a new segment, at the recovery point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..protocol.records.batch import BatchHeader
from ..protocol.records.control import ControlType
from .checkpoints import LEADER_EPOCH
from .config import LogConfig
from .errors import CorruptBatch, DamagedFile
from .files import TEMPORARY_SUFFIX, Disk
from .leader_epochs import LeaderEpochs
from .producers import ProducerStates, load_snapshot
from .segments import swap, walk
from .segments.damage import MISPLACED, WRONG_CRC, Damage
from .segments.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment
from .segments.transaction_index import ABORTED_SUFFIX, marker_of

# Left by a deletion or a cleaning that a crash cut short; Kafka's names. They hold nothing that the log still needs.
_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, ABORTED_SUFFIX)
LEFTOVER_SUFFIXES = (".deleted", ".cleaned", TEMPORARY_SUFFIX)

# Where a batch begins in its segment, and its header.
Found = tuple[int, BatchHeader]


@dataclass(slots=True)
class Cut:
    """What was taken off the log: `size` bytes of `path` from `position` on."""

    path: Path
    position: int
    size: int
    why: str


@dataclass(slots=True)
class RecoveryReport:
    """What opening a log found and did."""

    clean: bool
    checked_segments: int = 0
    checked_bytes: int = 0
    cuts: list[Cut] = field(default_factory=list[Cut])
    damages: list[Damage] = field(default_factory=list[Damage])  # below the recovery point; they stay
    missing_from: int | None = None  # from here up to the recovery point nothing is there, nor any trace of it
    rebuilt: list[Path] = field(default_factory=list[Path])  # log files whose indexes were built again
    removed: list[Path] = field(default_factory=list[Path])  # leftovers, empty segments, segments behind a cut

    def lines(self) -> list[str]:
        """What an operator should know: nothing after a clean start, or one that found all whole."""
        lines = [f"{cut.path.name} cut at {cut.position}, {cut.size} bytes lost: {cut.why}" for cut in self.cuts]
        lines += [
            f"{each.path} is damaged at {each.position}, {each.size} bytes cannot be read, what lies around them can: "
            f"{each.why}"
            for each in self.damages
        ]
        if self.missing_from is not None:
            lines.append(f"ends at offset {self.missing_from}, though more had been forced to disk")
        return lines


@dataclass(slots=True)
class Contents:
    """What a log is made of; see Log."""

    segments: list[Segment]
    producers: ProducerStates
    epochs: LeaderEpochs
    report: RecoveryReport
    names_changed: bool  # files were made or removed


class Recovery:
    """Reads one directory; `run` once."""

    def __init__(self, directory: Path, config: LogConfig, now_ms: int, log_start_offset: int, disk: Disk) -> None:
        self._directory = directory
        self._config = config
        self._now_ms = now_ms
        self._log_start_offset = log_start_offset
        self._disk = disk
        self._report = RecoveryReport(clean=False)
        self._segments: list[Segment] = []
        self._created = False
        self._producers = ProducerStates()
        self._producers_from = 0  # batches below are in the snapshot
        self._aborted_whole = True  # no index of aborted transactions ends inside an entry

    def run(self, *, clean: bool, recovery_point: int) -> Contents:
        """Return segments (at least one, the last ready to be appended to), producers and epochs. Raises DiskError."""
        swap.recover(self._directory, self._disk)
        self._segments = self._find_segments()
        self._epochs = self._load_epochs()
        self._report.clean = clean and self._aborted_whole and self._trust()
        if not self._report.clean:
            self._check(recovery_point)
        active = self._segments[-1]
        if active.next_offset < self._log_start_offset:
            self._start_over()
        self._epochs.truncate_from_end(self._segments[-1].next_offset)
        self._producers.expire(self._now_ms, self._config.producer_id_expiration_ms)
        names_changed = not self._report.clean or self._created or bool(self._report.removed)
        return Contents(self._segments, self._producers, self._epochs, self._report, names_changed)

    # -- files -------------------------------------------------------------------------------------

    def _find_segments(self) -> list[Segment]:
        sizes = self._disk.sizes(self._directory)
        bases = sorted(int(stem) for stem in (_stem(name, LOG_SUFFIX) for name in sizes) if stem)
        for name in sizes:
            index_stem = next(filter(None, (_stem(name, suffix) for suffix in _INDEX_SUFFIXES)), "")
            if name.endswith(LEFTOVER_SUFFIXES) or (index_stem and index_stem + LOG_SUFFIX not in sizes):
                self._remove(self._directory / name)
        segments = [
            Segment(self._directory, base, sizes[f"{base:020d}{LOG_SUFFIX}"], self._now_ms, self._disk)
            for base in bases
        ]
        for segment in segments:
            self._aborted_whole &= segment.aborted.found(sizes.get(segment.path(ABORTED_SUFFIX).name, 0))
        while len(segments) > 1 and segments[1].base_offset <= self._log_start_offset:
            self._remove_segment(segments.pop(0))
        while len(segments) > 1 and segments[-1].size == 0:
            # A roll that nothing followed, or one that failed half way while the segment before it grew on.
            self._remove_segment(segments.pop())
        return segments or [self._create(self._log_start_offset)]

    def _load_epochs(self) -> LeaderEpochs:
        """Read the history of leader epochs; the headers of all batches say the same as a file that is damaged."""
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
        """The log ends below its own start: records up to there were deleted, and the rest is lost."""
        for segment in reversed(self._segments):
            self._remove_segment(segment)
        self._segments = [self._create(self._log_start_offset)]

    def _remove(self, path: Path) -> None:
        self._disk.unlink(path)
        self._report.removed.append(path)

    def _remove_segment(self, segment: Segment) -> None:
        segment.unlink()
        self._report.removed.append(segment.path(LOG_SUFFIX))

    # -- after a clean stop ------------------------------------------------------------------------

    def _trust(self) -> bool:
        """Take the log as it is; False if the end of its newest segment is not as a clean stop leaves it."""
        active = self._segments[-1]
        try:
            active.scan_tail(self._config.index_interval_bytes)
        except CorruptBatch:
            return False
        self._load_producers(active.next_offset)
        self._replay_headers(active.next_offset)
        active.release()
        return True

    def _load_producers(self, up_to: int) -> None:
        self._producers, offset = load_snapshot(self._directory, up_to, self._disk)
        self._producers_from = offset if offset is not None else self._log_start_offset

    def _replay_headers(self, up_to: int) -> None:
        """Bring the producers from their snapshot to `up_to`."""
        for slot, segment in enumerate(self._segments):
            following = self._segments[slot + 1].base_offset if slot + 1 < len(self._segments) else up_to
            if following <= self._producers_from or segment.base_offset >= up_to or self._producers_from >= up_to:
                continue
            for position, header in segment.sound_headers(self._producers_from, self._note_damage):
                self._replay(segment, position, header)

    def _note_damage(self, damage: Damage) -> None:
        if damage not in self._report.damages:
            self._report.damages.append(damage)

    def _replay(self, segment: Segment, position: int, header: BatchHeader, *, is_checked: bool = False) -> None:
        """Take note of a batch. The index of aborted transactions is made anew where the segment `is_checked`."""
        # A batch across the log's start is read as a whole, so it counts.
        if header.last_offset >= self._producers_from:
            marker = marker_of(self._disk, segment.file, position, header) if header.is_control else None
            if marker is None:
                self._producers.apply(header, self._now_ms)
            else:
                aborted = self._producers.aborted_by(header)
                if is_checked and aborted is not None and marker.type is ControlType.ABORT:
                    segment.aborted.append(aborted)
                self._producers.apply(header, self._now_ms, coordinator_epoch=marker.coordinator_epoch)
        if header.partition_leader_epoch > self._epochs.latest:
            self._epochs.assign(header.partition_leader_epoch, header.base_offset)

    # -- after a crash -----------------------------------------------------------------------------

    def _check(self, recovery_point: int) -> None:
        first = max((slot for slot, each in enumerate(self._segments) if each.base_offset <= recovery_point), default=0)
        if not self._aborted_whole:
            first = 0
        base_offset = self._segments[first].base_offset
        # Not from inside the segment: its aborted transactions are found again with what was open when it began.
        self._load_producers(max(base_offset, self._log_start_offset))
        self._replay_headers(base_offset)
        for slot in range(first, len(self._segments)):
            segment = self._segments[slot]
            whole = self._check_segment(segment, recovery_point)
            if slot + 1 == len(self._segments):
                break
            segment.seal()
            if not whole or self._segments[slot + 1].base_offset != segment.next_offset:
                # Of what was not fsynced an earlier part may be lost and a later one be there: no holes.
                self._drop_from(slot + 1, f"it does not follow {segment.path(LOG_SUFFIX).name}, which ends now")
                break
        self._complete(recovery_point)

    def _complete(self, recovery_point: int) -> None:
        """See that what is appended next gets no offset that was on disk for certain, and lies behind nothing bad."""
        last = self._segments[-1]
        if last.is_damaged_at_end:
            last.seal()
            self._segments.append(self._create(max(recovery_point, last.next_offset)))
        elif last.next_offset < recovery_point:
            self._report.missing_from = last.next_offset

    def _drop_from(self, slot: int, why: str) -> None:
        for segment in reversed(self._segments[slot:]):
            self._report.cuts.append(Cut(segment.path(LOG_SUFFIX), 0, segment.size, why))
            self._remove_segment(segment)
        del self._segments[slot:]

    def _check_segment(self, segment: Segment, recovery_point: int) -> bool:
        """Go through one segment and build its indexes again; return whether it was whole.

        It is cut at the first bad batch.
        """
        segment.reset()
        segment.aborted.clear()
        self._report.rebuilt.append(segment.path(LOG_SUFFIX))
        start = self._skip_checked(segment, recovery_point)
        if start is None:
            return False
        segment.mark_unsynced(start)
        self._report.checked_segments += 1
        end, path, interval_bytes = start, segment.path(LOG_SUFFIX), self._config.index_interval_bytes
        try:
            for position, header, batch in segment.batches(start):
                walk.check(path, position, header, batch, segment.next_offset)
                segment.note(header, position, interval_bytes)
                if header.producer_id >= 0 or header.partition_leader_epoch > self._epochs.latest:
                    self._replay(segment, position, header, is_checked=True)
                end = position + len(batch)
        except CorruptBatch as error:
            self._report.cuts.append(Cut(error.path, error.position, segment.size - error.position, error.why))
            segment.cut(error.position)
            return False
        finally:
            self._report.checked_bytes += end - start
        return True

    def _skip_checked(self, segment: Segment, recovery_point: int) -> int | None:
        """Note the batches below the recovery point by their headers; return where the first other one begins.

        None: damage reaches past the recovery point, and the segment was cut behind it.
        """
        end, due = 0, segment.next_offset
        # It is believed once the next one agrees: its own last offset may be what is wrong.
        last: Found | None = None
        below = segment.sound_headers(passed=self._note_damage)
        # Not one header further than that: what follows may be torn.
        while end < segment.size:
            if due >= recovery_point:
                # Where the tail begins is what the last batch says: it has to be right.
                if last is None or not segment.has_wrong_crc(*last):
                    break
                below = self._pass_over(segment, last[0])
                due, last = segment.next_offset, None
                continue
            found = next(below, None)
            if last is not None and segment.is_damaged(last[0]):
                due, last = segment.next_offset, None
            if found is None:
                end = segment.size
                break
            position, header = found
            wrong = self._wrong(segment, last, found, due, recovery_point)
            if wrong is not None:
                if wrong is found:
                    self._believe(segment, last)
                below = self._pass_over(segment, wrong[0])
                due, last = segment.next_offset, None
                continue
            # Most are as they should be, and there may be a million: what is asked first keeps them from the rest.
            if header.base_offset < due or header.next_offset > recovery_point:
                if self._is_misplaced(segment, position, header, due, recovery_point):
                    end = position + header.size_bytes
                    self._note_damage(segment.mark(position, MISPLACED, end))
                    continue
                self._believe(segment, last)
                if header.base_offset > recovery_point and position > end:
                    why = "damage before it reaches past the recovery point"
                    self._report.cuts.append(Cut(segment.path(LOG_SUFFIX), position, segment.size - position, why))
                    segment.cut(position)
                    return None
                return position
            self._believe(segment, last)
            due, last, end = header.next_offset, found, position + header.size_bytes
        self._believe(segment, last)
        return end

    def _believe(self, segment: Segment, found: Found | None) -> None:
        """Take note of a batch below the recovery point."""
        if found is None:
            return
        position, header = found
        segment.note(header, position, self._config.index_interval_bytes)
        if header.producer_id >= 0 or header.partition_leader_epoch > self._epochs.latest:
            self._replay(segment, position, header, is_checked=True)

    def _wrong(self, segment: Segment, last: Found | None, found: Found, due: int, recovery_point: int) -> Found | None:
        """Return the batch whose last offset cannot be, if its CRC says so: the recovery point ends a batch, too."""
        header = found[1]
        if last is not None and header.base_offset < due:
            suspect = last
        elif header.base_offset < recovery_point < header.next_offset:
            suspect = found
        else:
            return None
        return suspect if segment.has_wrong_crc(*suspect) else None

    def _pass_over(self, segment: Segment, position: int) -> Iterator[Found]:
        """Note that a batch is damaged; return the headers behind it."""
        damage = segment.mark(position, WRONG_CRC)
        self._note_damage(damage)
        return segment.sound_headers(passed=self._note_damage, start=damage.end)

    def _is_misplaced(
        self, segment: Segment, position: int, header: BatchHeader, due: int, recovery_point: int
    ) -> bool:
        """Whether a header's offset cannot be: no CRC covers it, so what comes behind has to say."""
        if header.base_offset < due:
            return True
        if header.next_offset <= recovery_point:
            return False
        try:
            following = next(segment.headers(position + header.size_bytes), None)
        except CorruptBatch:
            return False
        return following is not None and due <= following[1].base_offset < recovery_point


def _stem(name: str, suffix: str) -> str:
    """Return the 20 digits of a segment's file name, or ''."""
    stem = name.removesuffix(suffix)
    return stem if stem != name and len(stem) == 20 and stem.isdecimal() else ""
