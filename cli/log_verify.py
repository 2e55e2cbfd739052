"""`odradek log verify`: read every byte of a data directory, or of one partition's directory, that no broker uses.

Each finding is a row: file, position, size, what a start would do, and what is wrong. Status 1 if there are findings;
with --repair only if some remain that no repair can mend. Without --repair no byte is changed.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click

from ..broker.clock import Clock
from ..broker.log_dirs.partition_dirs import partition_of
from ..protocol.errors import KafkaError
from ..storage import checkpoints
from ..storage.errors import DiskError, LockedError
from ..storage.files import DirectoryLock
from ..storage.integrity import STAYS, Finding, repair, segment_files, verify
from .errors import CliError
from .output import Rows, row_options
from .progress import Progress

_COLUMNS = ("file", "position", "size", "at_start", "why")


@dataclass(slots=True, frozen=True)
class _Folder:
    """A partition's directory, with its offsets from the checkpoints of its data directory."""

    path: Path
    recovery_point: int
    log_start_offset: int


@click.command(short_help="Check every byte of a data directory, offline; repair it.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--repair", "repairs", is_flag=True, help="Do what a start after a crash does, and print it.")
@row_options
def command(directory: Path, repairs: bool, as_json: bool) -> None:
    """Check DIR, a data directory or one partition's directory: every batch, every index entry, every small file.

    Status 1 if something is wrong. With --repair the tail of a log is cut at its first bad batch, if that was never
    forced to disk, and indexes are built again. Damage before that stays, and readers get an error there.

    \b
    Examples:
      odradek log verify odradek-data
      odradek log verify odradek-data/flights-0 --json
      odradek log verify odradek-data --repair
    """
    if not directory.is_dir():
        raise CliError(f"{directory} is not a directory")
    try:
        with ExitStack() as stack:
            data_dir = _data_dir(directory)
            if data_dir is not None:
                _lock(stack, data_dir, repairs)
            bad = _verify(data_dir, _folders(directory, data_dir), repairs, as_json)
    except LockedError as error:
        raise CliError(f"{error.message}: stop the broker first") from error
    except KafkaError as error:
        raise CliError(error.message) from error
    if bad:
        sys.exit(1)


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
        # There is no recovery point. All but the newest segment are on disk, because a roll forces a segment out.
        return [_Folder(directory, segment_files(directory)[-1][0], 0)]
    paths = [directory] if directory != data_dir else sorted(each for each in data_dir.iterdir() if each.is_dir())
    points = checkpoints.read_offsets(data_dir / checkpoints.RECOVERY_POINT)
    unknown = 0 if points else -1
    starts = checkpoints.read_offsets(data_dir / checkpoints.LOG_START)
    named = ((path, partition_of(path.name)) for path in paths)
    return [_Folder(path, points.get(name, unknown), starts.get(name, 0)) for path, name in named if name is not None]


def _verify(data_dir: Path | None, folders: list[_Folder], repairs: bool, as_json: bool) -> int:
    """Verify the partitions' directories and print the findings. Return how many are left."""
    progress = Progress(sum(size for each in folders for _, _, size in segment_files(each.path)))
    found, left = 0, 0
    was_clean = data_dir is not None and repairs and checkpoints.take_clean_shutdown(data_dir)
    points: dict[tuple[str, int], int] = {}
    with Rows(_COLUMNS, as_json) as out:
        for folder in folders:
            findings: list[Finding] = []
            for each in verify(folder.path, folder.recovery_point, progress.add):
                findings.append(each)
                progress.clear()
                out.add(_row(each))
            found += len(findings)
            left += sum(1 for each in findings if each.at_start == STAYS)
            if repairs:
                end = _repair(folder, findings)
                name = partition_of(folder.path.name)
                if name is not None:
                    points[name] = end
    progress.clear()
    if data_dir is not None and repairs:
        _note_repaired(data_dir, points, was_clean)
    what = f"{len(folders)} partition{'s' if len(folders) != 1 else ''}, {progress.total:,} bytes read"
    click.echo(f"{what}: {found or 'nothing'} found{f', {left} of them stay' if repairs and found else ''}", err=True)
    return left if repairs else found


def _row(each: Finding) -> dict[str, object]:
    values = (str(each.path), each.position, each.size, each.at_start, each.why)
    return dict(zip(_COLUMNS, values, strict=True))


def _repair(folder: _Folder, findings: list[Finding]) -> int:
    report, end = repair(folder.path, folder.recovery_point, folder.log_start_offset, findings, Clock().now_ms())
    for cut in report.cuts:
        click.echo(f"{cut.path}: cut at {cut.position}, {cut.size} bytes taken off: {cut.why}", err=True)
    return end


def _note_repaired(data_dir: Path, points: dict[tuple[str, int], int], was_clean: bool) -> None:
    """Write the recovery points: all is on disk now, and a later start need not check again."""
    path = data_dir / checkpoints.RECOVERY_POINT
    checkpoints.write_offsets(path, checkpoints.read_offsets(path) | points)
    if was_clean:
        checkpoints.write_clean_shutdown(data_dir)
