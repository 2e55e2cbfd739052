"""The report of what the opening of a log found and did, for the broker's log and `odradek log verify --repair`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from .segments.damage import Damage
from .segments.names import LOG_SUFFIX
from .segments.segment import Segment


@dataclass(slots=True)
class Cut:
    """A cut of the log: `size` bytes of `path` from `position` on."""

    path: Path
    position: int
    size: int
    why: str


@dataclass(slots=True)
class RecoveryReport:
    """See the module's text."""

    clean: bool
    checked_segments: int = 0
    checked_bytes: int = 0
    cuts: list[Cut] = field(default_factory=list[Cut])
    # Below the recovery point. They stay.
    damages: list[Damage] = field(default_factory=list[Damage])
    # From this offset up to the recovery point nothing is there, and nothing shows what was.
    missing: tuple[int, int] | None = None
    # Whether no segment was there at all.
    was_empty: bool = False
    # Where the first segment begins that has gone, or become shorter, since a clean stop.
    shrunk_from: int | None = None
    # From where an earlier start has found records lost that no replica has brought back (known_damage.py).
    lost_before: int | None = None
    # Offsets between two segments that no batch holds: [first, end). A cleaning leaves such gaps.
    gaps: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    # Log files whose indexes were built again, and checkpoints that were.
    rebuilt: list[Path] = field(default_factory=list[Path])
    # Leftovers, empty segments, segments behind a cut.
    removed: list[Path] = field(default_factory=list[Path])

    @property
    def has_lost(self) -> bool:
        """Whether records that were acknowledged may be missing. A leader that has them all must not be this log."""
        found = self.cuts or self.damages or self.gaps
        firsts = self.missing, self.shrunk_from, self.lost_before
        return bool(found) or self.was_empty or any(each is not None for each in firsts)

    def lines(self) -> list[str]:
        """Return what an operator should know: nothing after a clean start, or after one that found all whole."""
        lines = [f"{cut.path.name} cut at {cut.position}, {cut.size} bytes lost: {cut.why}" for cut in self.cuts]
        lines += [
            f"{each.path} is damaged at {each.position}: {each.size} bytes cannot be read, the rest of the file can "
            f"({each.why})"
            for each in self.damages
        ]
        if self.gaps:
            first, end = self.gaps[0]
            others = f", and nothing in {len(self.gaps) - 1} other gaps between segments" if len(self.gaps) > 1 else ""
            why = "a cleaning left that out, or it was lost before an fsync"
            lines.append(f"holds nothing from offset {first} up to {end}{others}: {why}")
        if self.missing is not None:
            lines.append(
                f"ends at offset {self.missing[0]}, though all up to {self.missing[1]} had been forced to disk"
            )
        return lines


def recovery_line(reports: Sequence[RecoveryReport], took_ms: int) -> str:
    """Return one line on a start after a stop that was not clean: what was checked, what was found, how long it took.

    `reports` are those of all logs. Details of each finding are in `RecoveryReport.lines`.
    """
    checked = [each for each in reports if not each.clean]
    size = sum(each.checked_bytes for each in checked)
    found = {
        "tails cut": sum(len(each.cuts) for each in checked),
        "damaged places kept": sum(len(each.damages) for each in checked),
        "indexes built again": sum(len(each.rebuilt) for each in checked),
    }
    findings = ", ".join(f"{what}: {count}" for what, count in found.items() if count) or "nothing was lost"
    done = f"recovered {len(checked)} of {len(reports)} partitions in {took_ms / 1000:.2f} s"
    return f"the last stop was not clean: {done}, {size / 1e6:.1f} MB checked, {findings}"


def first_lost(report: RecoveryReport, segments: Sequence[Segment], start: int, end: int) -> int | None:
    """Return the first offset of a log from `start` to `end` that its opening has found to be missing or damaged."""
    by_path = {each.path(LOG_SUFFIX): each for each in segments}
    found = [first for first, _ in report.gaps]
    damages = [each for each in report.damages if each.path in by_path]
    if damages:
        damage = min(damages, key=attrgetter("path.name", "position"))
        found.append(by_path[damage.path].offset_at(damage.position))
    if report.missing is not None:
        found.append(report.missing[0])
    if report.was_empty:
        found.append(start)
    if report.shrunk_from is not None:
        found.append(report.shrunk_from)
    first = max(min(found, default=end), start)
    return first if first < end else None
