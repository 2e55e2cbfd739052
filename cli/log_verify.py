"""`odradek log verify`: read every byte of a data directory, or of one partition's directory, that no broker uses.

Each finding is a row: file, position, size, what a start would do, and what is wrong. Status 1 if there are findings.
With --repair, damage that no repair can mend is written down for the broker; status 1 if there is some that was not
written down before. Without --repair no byte is changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ..broker.clock import Clock
from ..broker.log_dirs.partition_dirs import partition_of
from ..protocol.errors import KafkaError
from ..storage import checkpoints
from ..storage.backup import MANIFEST, Entry, checked, read_manifest
from ..storage.backup_places import BackupError, BackupPlace, place_of
from ..storage.errors import DamagedFile, DiskError, LockedError
from ..storage.files import DirectoryLock
from ..storage.integrity import KNOWN, Finding, Gap, repair, segment_files, verify
from ..storage.known_logs import CleanStop
from ..storage.segments.names import LOG_SUFFIX
from .errors import CliError, as_cli_error
from .notices import Progress
from .output import Rows, row_options

_COLUMNS = ("file", "position", "size", "at_start", "why")
# What a start does without a checkpoint.
_WITHOUT = {
    checkpoints.RECOVERY_POINT: "every log is checked from its start",
    checkpoints.LOG_START: "every log begins with its first segment",
    checkpoints.CLEANER_OFFSET: "every log is cleaned from its start",
}


@dataclass(slots=True, frozen=True)
class _Folder:
    """A partition's directory, with its offsets from the checkpoints of its data directory."""

    path: Path
    recovery_point: int  # -1: not known
    log_start_offset: int


@click.command(short_help="Check every byte of a data directory, offline; repair it.")
@click.argument("where", metavar="DIR")
@click.option("--repair", "repairs", is_flag=True, help="Do what a start after a crash does, and print it.")
@row_options
def command(where: str, repairs: bool) -> None:
    """Check DIR, a data directory or one partition's directory: every batch, every index entry, every small file.

    DIR may be a backup, also its URL in an object store: each file is compared with its CRC, and each batch is checked.

    Status 1 if something is wrong. With --repair the tail of a log is cut at its first bad batch, if that was never
    forced to disk, and indexes are built again. Damage before that stays. It is written down: from its next start on
    the broker names it in its log, readers get an error there, and a later --repair does not report it again.

    \b
    Examples:
      odradek log verify odradek-data
      odradek log verify odradek-data/flights-0 --json
      odradek log verify odradek-data --repair
      odradek log verify s3://backups/monday
    """
    if "://" in where or (Path(where) / MANIFEST).exists():
        _verify_backup(where, repairs)
        return
    directory = Path(where)
    if not directory.is_dir():
        raise CliError(f"{directory} is not a directory" if directory.exists() else f"{directory} does not exist")
    try:
        with ExitStack() as stack:
            data_dir = _data_dir(directory)
            if data_dir is not None:
                _lock(stack, data_dir, repairs)
            bad = _verify(data_dir, _folders(directory, data_dir), repairs)
    except LockedError as error:
        raise CliError(f"{error.message}: stop the broker first") from error
    except KafkaError as error:
        raise CliError(error.message) from error
    if bad:
        sys.exit(1)


def _verify_backup(url: str, repairs: bool) -> None:
    """Read a backup, a segment at a time, and print what is wrong."""
    if repairs:
        raise CliError("a backup is not repaired: restore it, and repair the data directory")
    with as_cli_error(KafkaError):
        place = place_of(url)
        entries = read_manifest(url).entries
        progress = Progress(sum(each.size for each in entries))
        counts = _Counts(len({each.path.rpartition("/")[0] for each in entries if each.path.endswith(LOG_SUFFIX)}))
        with Rows(_COLUMNS) as out, TemporaryDirectory() as folder:
            for each in entries:
                for finding in _verify_file(place, each, Path(folder), progress):
                    counts.add(finding)
                    progress.clear()
                    out.add((f"{place}/{each.path}", *_row(finding)[1:]))
    progress.clear()
    click.echo(f"{counts.partitions}, {progress.total:,} bytes read: {counts.text(repairs)}", err=True)
    if counts.found:
        sys.exit(1)


def _verify_file(place: BackupPlace, entry: Entry, folder: Path, progress: Progress) -> Iterator[Finding]:
    copy = folder / Path(entry.path).name
    try:
        with copy.open("wb") as file:
            file.writelines(checked(place, entry, progress.add))
        if entry.path.endswith(LOG_SUFFIX):
            yield from verify(folder, -1)
    except BackupError as error:
        yield Finding(copy, 0, entry.size, error.message, "restore refuses the backup")
    finally:
        copy.unlink(missing_ok=True)


def _data_dir(directory: Path) -> Path | None:
    """Return the data directory that DIR is or lies in."""
    for each in (directory, directory.absolute().parent):
        if (each / checkpoints.META_PROPERTIES).exists():
            return each
    return None


def _lock(stack: ExitStack, data_dir: Path, repairs: bool) -> None:
    if not repairs and not (data_dir / ".lock").exists():
        return
    try:
        stack.callback(DirectoryLock(data_dir).release)
    except DiskError:
        # Nobody can write to a read-only copy, so it needs no lock.
        if repairs:
            raise


def _folders(directory: Path, data_dir: Path | None) -> list[_Folder]:
    if data_dir is None:
        if not segment_files(directory):
            raise CliError(f"{directory} is neither a data directory (no meta.properties) nor a partition's folder")
        return [_Folder(directory, -1, 0)]
    paths = [directory] if directory != data_dir else sorted(each for each in data_dir.iterdir() if each.is_dir())
    offsets = offsets_in(data_dir)
    points, starts = offsets[checkpoints.RECOVERY_POINT], offsets[checkpoints.LOG_START]
    named = ((path, partition_of(path.name)) for path in paths)
    return [_Folder(path, points.get(name, -1), starts.get(name, 0)) for path, name in named if name is not None]


def offsets_in(
    data_dir: Path, on_damage: Callable[[Finding], None] = lambda _: None
) -> dict[str, dict[tuple[str, int], int]]:
    """Return the offsets of each checkpoint of a data directory; none for one that is damaged, as a start does."""
    found = dict[str, dict[tuple[str, int], int]]()
    for name, at_start in _WITHOUT.items():
        path = data_dir / name
        try:
            found[name] = checkpoints.read_offsets(path)
        except DamagedFile as error:
            found[name] = {}
            on_damage(Finding(path, error.position, path.stat().st_size, error.why, at_start))
    return found


def _verify(data_dir: Path | None, folders: list[_Folder], repairs: bool) -> int:
    """Verify the partitions' directories and print the findings. Return how many make the status 1."""
    progress = Progress(sum(size for each in folders for _, _, size in segment_files(each.path)))
    counts = _Counts(len(folders))
    stop = checkpoints.read_clean_shutdown(data_dir) if data_dir is not None and repairs else None
    if data_dir is not None and stop is not None:
        checkpoints.remove_clean_shutdown(data_dir)
    points: dict[tuple[str, int], int] = {}
    with Rows(_COLUMNS) as out:

        def tell(found: Finding) -> None:
            counts.add(found)
            if not repairs or found.at_start != KNOWN:
                progress.clear()
                out.add(_row(found))

        if data_dir is not None:
            offsets_in(data_dir, tell)
        for folder in folders:
            findings: list[Finding] = []
            gaps: list[Gap] = []
            for each in verify(folder.path, folder.recovery_point, progress.add, on_gap=gaps.append):
                findings.append(each)
                tell(each)
            if gaps:
                progress.clear()
                click.echo(_gaps(folder.path, gaps), err=True)
            if repairs:
                end = _repair(folder, findings)
                name = partition_of(folder.path.name)
                if name is not None:
                    points[name] = end
    progress.clear()
    if data_dir is not None and repairs:
        _note_repaired(data_dir, points, stop)
    click.echo(f"{counts.partitions}, {progress.total:,} bytes read: {counts.text(repairs)}", err=True)
    return counts.new_that_stay if repairs else counts.found


class _Counts:
    """The numbers of the last line."""

    def __init__(self, partitions: int) -> None:
        self.partitions = f"{partitions} partition{'s' if partitions != 1 else ''}"
        self.found = 0
        self.new_that_stay = 0
        self._known = 0

    def add(self, finding: Finding) -> None:
        self.found += 1
        self._known += finding.at_start == KNOWN
        self.new_that_stay += finding.stays and finding.at_start != KNOWN

    def text(self, repairs: bool) -> str:
        if not repairs:
            return f"{_problems(self.found)} found" if self.found else "no damage found"
        new = self.found - self._known
        kind = "new " * bool(self._known)
        parts = [f"{_problems(new, kind)} found" if new else f"no {kind}damage found"]
        parts += [f"{self.new_that_stay} cannot be repaired"] * bool(self.new_that_stay)
        parts += [f"{self._known} found earlier and unchanged"] * bool(self._known)
        return ", ".join(parts)


def _problems(count: int, kind: str = "") -> str:
    return f"{count} {kind}problem{'s' if count > 1 else ''}"


def _gaps(directory: Path, gaps: list[Gap]) -> str:
    """Return the line that announces offsets which no batch holds."""
    first, others = gaps[0], len(gaps) - 1
    more = f", and there {'are' if others > 1 else 'is'} {others} more such gap{'s' * (others > 1)}" if others else ""
    return f"{directory}: no batch holds offset {first.first} up to {first.end}{more} (a cleaning leaves gaps)"


def _row(each: Finding) -> tuple[object, ...]:
    return str(each.path), each.position, each.size, each.at_start, each.why


def _repair(folder: _Folder, findings: list[Finding]) -> int:
    report, end = repair(folder.path, folder.recovery_point, folder.log_start_offset, findings, Clock().now_ms())
    for cut in report.cuts:
        click.echo(f"{cut.path}: cut at {cut.position}, {cut.size} bytes taken off: {cut.why}", err=True)
    return end


def _note_repaired(data_dir: Path, points: dict[tuple[str, int], int], stop: CleanStop | None) -> None:
    """Write the recovery points, as all is on disk now and a later start need not check again, and damaged checkpoints.

    `stop` is what a clean stop knew. It no longer fits those logs that were repaired, which a start finds out.
    """
    damaged: list[Path] = []
    offsets = offsets_in(data_dir, lambda each: damaged.append(each.path))
    path = data_dir / checkpoints.RECOVERY_POINT
    if path in damaged or not path.exists():
        # A start takes a partition without a recovery point for a new one, of which nothing was forced to disk.
        named = (partition_of(each.name) for each in data_dir.iterdir() if each.is_dir())
        points = {name: -1 for name in named if name is not None} | points
    offsets[checkpoints.RECOVERY_POINT] |= points
    for each in {*damaged, path}:
        checkpoints.write_offsets(each, offsets[each.name])
    if stop is not None:
        checkpoints.write_clean_shutdown(data_dir, stop)
