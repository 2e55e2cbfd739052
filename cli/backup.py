"""`odradek backup` and `restore`: copy the data directories of a stopped broker, with a sum of every file, and back.

A backup is whole once its manifest is there, which is written last. Afterwards every batch of the copy is checked, and
every byte is checked again before data directories are made from it.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from ..protocol.errors import KafkaError
from ..storage import checkpoints
from ..storage.backup import back_up, read_manifest, size_of
from ..storage.backup import restore as restore_files
from ..storage.errors import DiskError, LockedError
from ..storage.files import DirectoryLock
from ..storage.integrity import segment_files, verify
from .errors import CliError
from .notices import Progress


@click.command(short_help="Copy the data directories of a stopped broker.")
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
def command(directories: tuple[Path, ...], target: Path) -> None:
    """Copy the data directories DIR... of a stopped broker to TARGET, a new directory.

    Name all directories of `log.dirs`. Each file's CRC is kept for `odradek restore`. If the data are damaged, the
    backup is made all the same, and the status is 1.

    \b
    Examples:
      odradek backup odradek-data /backups/monday
      odradek backup /disk1/data /disk2/data /backups/monday
    """
    for each in directories:
        if not (each / checkpoints.META_PROPERTIES).exists():
            raise CliError(f"{each} is no data directory: it has no {checkpoints.META_PROPERTIES}")
    with ExitStack() as stack:
        try:
            for each in directories:
                _lock(stack, each)
            progress = Progress(size_of(directories))
            count = back_up(directories, target, progress.add)
        except LockedError as error:
            raise CliError(f"{error.message}: stop the broker first") from error
        except KafkaError as error:
            raise CliError(error.message) from error
    progress.clear()
    damaged = _damage(target, len(directories))
    click.echo(f"{count} files, {progress.total:,} bytes to {target}", err=True)
    if damaged:
        raise CliError(f"the backup is whole, but {damaged} of its batches or indexes are damaged: see above")


def _lock(stack: ExitStack, directory: Path) -> None:
    try:
        stack.callback(DirectoryLock(directory).release)
    except DiskError:
        # Nobody can write to a read-only copy, so it needs no lock.
        if (directory / ".lock").exists():
            return
        raise


def _damage(target: Path, directories: int) -> int:
    """Read every batch of the copy, and print what is damaged. Return how much is."""
    found = 0
    for number in range(directories):
        points = checkpoints.read_offsets(target / str(number) / checkpoints.RECOVERY_POINT)
        folders = sorted(each for each in (target / str(number)).iterdir() if each.is_dir() and segment_files(each))
        progress = Progress(sum(size for each in folders for _, _, size in segment_files(each)))
        for folder in folders:
            topic, _, partition = folder.name.rpartition("-")
            point = points.get((topic, int(partition)), -1) if partition.isdecimal() else -1
            for each in verify(folder, point, progress.add):
                progress.clear()
                found += 1
                click.echo(f"{each.path} at {each.position}: {each.why}", err=True)
        progress.clear()
    return found


@click.command(short_help="Make data directories from a backup.")
@click.argument("backup", type=click.Path(path_type=Path))
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
def restore(backup: Path, directories: tuple[Path, ...]) -> None:
    """Copy BACKUP to the data directories DIR..., which must be new or empty: as many as were backed up.

    An incomplete or damaged backup is refused, and then no data directory appears.

    \b
    Examples:
      odradek restore /backups/monday odradek-data
    """
    try:
        _, entries = read_manifest(backup)
        progress = Progress(sum(entry.size for entry in entries))
        count = restore_files(backup, directories, progress.add)
    except KafkaError as error:
        raise CliError(error.message) from error
    progress.clear()
    click.echo(f"{count} files, {progress.total:,} bytes to {', '.join(map(str, directories))}", err=True)
