"""Opening a log's directory: taking over what a clean stop left, checking what a crash may have torn.

After a clean stop nothing is read but the end of the newest segment, from its last index entry on. After any other,
every segment from the one with the recovery point on is gone through: below the point headers only (they were
fsynced; the indexes are built again from them), from the point on batch by batch, with length, magic, CRC and
ascending offsets. At the first bad one the log is cut, later segments are removed, and the report says what was lost.
A bad header below the recovery point is nothing that a crash explains: CorruptBatch, and nothing is cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..protocol.records.batch import BatchHeader, check_crc
from ..protocol.records.errors import RecordError
from .config import LogConfig
from .epochs import LeaderEpochs
from .errors import CorruptBatch
from .files import TEMPORARY_SUFFIX, Disk
from .producers import ProducerStates, load_snapshot
from .segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment

# Left by a deletion or a cleaning that a crash cut short; Kafka's names. They hold nothing that the log still needs.
LEFTOVER_SUFFIXES = (".deleted", ".cleaned", TEMPORARY_SUFFIX)


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
    rebuilt: list[Path] = field(default_factory=list[Path])  # log files whose indexes were built again
    removed: list[Path] = field(default_factory=list[Path])  # leftovers, empty segments, segments behind a cut

    def lines(self) -> list[str]:
        """What an operator should know: nothing after a clean start, or one that found all whole."""
        return [f"{cut.path.name} cut at {cut.position}, {cut.size} bytes lost: {cut.why}" for cut in self.cuts]


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
        self._epochs = LeaderEpochs.load(directory, disk)

    def run(self, *, clean: bool, recovery_point: int) -> Contents:
        """Return segments (at least one, the last ready to be appended to), producers and epochs.

        Raises CorruptBatch, DiskError, DamagedFile.
        """
        self._segments = self._find_segments()
        self._report.clean = clean and self._trust()
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
            index_stem = _stem(name, INDEX_SUFFIX) or _stem(name, TIME_INDEX_SUFFIX)
            if name.endswith(LEFTOVER_SUFFIXES) or (index_stem and index_stem + LOG_SUFFIX not in sizes):
                self._remove(self._directory / name)
        segments = [
            Segment(self._directory, base, sizes[f"{base:020d}{LOG_SUFFIX}"], self._now_ms, self._disk)
            for base in bases
        ]
        while len(segments) > 1 and segments[1].base_offset <= self._log_start_offset:
            self._remove_segment(segments.pop(0))
        while len(segments) > 1 and segments[-1].size == 0:
            # A roll that nothing followed, or one that failed half way while the segment before it grew on.
            self._remove_segment(segments.pop())
        return segments or [self._create(self._log_start_offset)]

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
            found = segment.find(self._producers_from)
            for _, header in segment.headers(found[0]) if found else ():
                self._replay(header)

    def _replay(self, header: BatchHeader) -> None:
        if header.base_offset >= self._producers_from:
            self._producers.apply(header, self._now_ms)
        if header.partition_leader_epoch > self._epochs.latest:
            self._epochs.assign(header.partition_leader_epoch, header.base_offset)

    # -- after a crash -----------------------------------------------------------------------------

    def _check(self, recovery_point: int) -> None:
        first = max((slot for slot, each in enumerate(self._segments) if each.base_offset <= recovery_point), default=0)
        base_offset = self._segments[first].base_offset
        self._load_producers(max(min(recovery_point, self._segments[-1].base_offset), self._log_start_offset))
        self._replay_headers(base_offset)
        for slot in range(first, len(self._segments)):
            segment = self._segments[slot]
            whole = self._check_segment(segment, recovery_point)
            if slot + 1 == len(self._segments):
                return
            segment.seal()
            if not whole or self._segments[slot + 1].base_offset != segment.next_offset:
                # Of what was not fsynced an earlier part may be lost and a later one be there: no holes.
                self._drop_from(slot + 1, f"it does not follow {segment.path(LOG_SUFFIX).name}, which ends now")
                return

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
        self._report.rebuilt.append(segment.path(LOG_SUFFIX))
        start = self._skip_checked(segment, recovery_point)
        segment.mark_unsynced(start)
        self._report.checked_segments += 1
        end = start
        try:
            for position, header, batch in segment.batches(start):
                self._check_batch(segment, position, header, batch)
                segment.note(header, position, self._config.index_interval_bytes)
                self._replay(header)
                end = position + len(batch)
        except CorruptBatch as error:
            self._report.cuts.append(Cut(error.path, error.position, segment.size - error.position, error.why))
            segment.cut(error.position)
            return False
        finally:
            self._report.checked_bytes += end - start
        return True

    def _skip_checked(self, segment: Segment, recovery_point: int) -> int:
        """Note the batches below the recovery point by their headers; return where the first other one begins."""
        end = 0
        below = segment.headers()
        # Not one header further than that: what follows may be torn.
        while segment.next_offset < recovery_point and end < segment.size:
            position, header = next(below)
            if header.next_offset > recovery_point:
                break
            segment.note(header, position, self._config.index_interval_bytes)
            self._replay(header)
            end = position + header.size_bytes
        return end

    def _check_batch(self, segment: Segment, position: int, header: BatchHeader, batch: memoryview) -> None:
        if header.base_offset < segment.next_offset:
            why = f"offset {header.base_offset} where {segment.next_offset} or more was due"
            raise CorruptBatch(segment.path(LOG_SUFFIX), position, why)
        try:
            check_crc(batch, 0, header)
        except RecordError as error:
            raise CorruptBatch(segment.path(LOG_SUFFIX), position, str(error)) from error


def _stem(name: str, suffix: str) -> str:
    """Return the 20 digits of a segment's file name, or ''."""
    stem = name.removesuffix(suffix)
    return stem if stem != name and len(stem) == 20 and stem.isdecimal() else ""
