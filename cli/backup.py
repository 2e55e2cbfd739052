"""`odradek backup` and `restore`: copy the data directories of a broker, with a sum of every file, and back.

A backup is whole once its manifest is there, which is written last. Afterwards every batch of the copy is checked, and
every byte is checked again before data directories are made from it.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..broker.log_dirs.partition_dirs import partition_of
from ..protocol.errors import KafkaError
from ..storage import checkpoints
from ..storage.backup import back_up, back_up_held, read_manifest, size_of
from ..storage.backup import restore as restore_files
from ..storage.backup_places import SECURE_SUFFIX, BackupError
from ..storage.errors import DiskError, LockedError
from ..storage.files import DirectoryLock
from ..storage.held_files import Held
from ..storage.integrity import Finding, segment_files, verify
from .connection_options import connection_options
from .errors import CliError, as_cli_error
from .log_verify import offsets_in
from .notices import Progress
from .session import with_admin

if TYPE_CHECKING:
    from ..client import Admin
    from ..client.admin.brokers import HeldFiles

# Renewals of the lease in the time that it holds for.
_RENEWALS = 3


@click.command(short_help="Copy the data of a broker, running or stopped.")
@click.argument("directories", metavar="[DIR]...", nargs=-1, type=click.Path(path_type=Path))
@click.argument("target")
@connection_options("admin")
def command(directories: tuple[Path, ...], target: str, bootstrap_server: str) -> None:
    """Copy the data directories DIR... of a stopped broker to TARGET, a new directory or a prefix in an object store.

    Name all directories of `log.dirs`. Each file's CRC is kept for `odradek restore`. If the data are damaged, the
    backup is made all the same, and the status is 1.

    Without DIR the running broker of -b is copied, on its own machine. It goes on meanwhile, and the backup holds all
    topics, groups and transactions as they are at one moment.

    \b
    Examples:
      odradek backup -b localhost:9092 /backups/monday
      odradek backup odradek-data /backups/monday
      odradek backup /disk1/data /disk2/data /backups/monday
      odradek backup -b localhost:9092 s3://backups/monday
    """
    with as_cli_error(KafkaError):
        if directories:
            number, (count, total) = len(directories), _copy_stopped(directories, target)
        else:
            number, count, total = _copy_running(target)
        damaged = 0 if "://" in target else _damage(Path(target), number)
        click.echo(f"{count} files, {total:,} bytes to {target}", err=True)
        for name in read_manifest(target).left_out:
            click.echo(f"{name} is not in the backup: keep a copy of this folder, it has keys and passwords", err=True)
    if damaged:
        raise CliError(f"the backup is whole, but {damaged} of its batches or small files are damaged: see above")


def _copy_stopped(directories: tuple[Path, ...], target: str) -> tuple[int, int]:
    """Return the numbers of files and bytes."""
    for each in directories:
        if not (each / checkpoints.META_PROPERTIES).exists():
            raise CliError(f"{each} is no data directory: it has no {checkpoints.META_PROPERTIES}")
    with ExitStack() as stack:
        try:
            for each in directories:
                _lock(stack, each)
        except LockedError as error:
            why = "stop the broker first, or leave DIR out to copy the running broker of -b"
            raise CliError(f"{error.message}: {why}") from error
        progress = Progress(size_of(directories))
        count = back_up(directories, target, progress.add)
    progress.clear()
    return count, progress.total


def _copy_running(target: str) -> tuple[int, int, int]:
    """Return the numbers of data directories, files and bytes."""

    async def main(admin: Admin) -> tuple[int, int, int]:
        held = await admin.begin_backup()
        renewing = asyncio.ensure_future(_renew(admin, held))
        interrupted = threading.Event()

        def passed(size: int) -> None:
            if interrupted.is_set():
                raise BackupError("interrupted")
            progress.add(size)

        try:
            for each in held.directories:
                if not each.exists():
                    raise CliError(f"{each} is not here: run this on the broker's machine")
            contents = [Held.read(each) for each in held.directories]
            progress = Progress(sum(each.size_bytes for each in contents))
            count = await asyncio.to_thread(back_up_held, contents, target, passed)
            progress.clear()
            return len(contents), count, progress.total
        finally:
            interrupted.set()  # where this is cancelled, the thread ends with its next chunk
            renewing.cancel()
            # The broker gives the files back by itself, too, and what this has copied stays as it is.
            with suppress(KafkaError):
                await admin.renew_backup(held, is_end=True)

    return with_admin(main)


async def _renew(admin: Admin, held: HeldFiles) -> None:
    """Keep the files until cancelled. Where they are gone the copy fails, and says which file."""
    while True:
        await asyncio.sleep(held.lease_ms / 1000 / _RENEWALS)
        with suppress(KafkaError):
            await admin.renew_backup(held)


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
    found: list[Finding] = []

    def tell(each: Finding) -> None:
        progress.clear()
        found.append(each)
        click.echo(f"{each.path} at {each.position}: {each.why}", err=True)

    for number in range(directories):
        folders = sorted(each for each in (target / str(number)).iterdir() if each.is_dir() and segment_files(each))
        progress = Progress(sum(size for each in folders for _, _, size in segment_files(each)))
        points = offsets_in(target / str(number), tell)[checkpoints.RECOVERY_POINT]
        for folder in folders:
            name = partition_of(folder.name)
            for each in verify(folder, -1 if name is None else points.get(name, -1), progress.add):
                tell(each)
        progress.clear()
    return len(found)


@click.command(short_help="Make data directories from a backup.")
@click.argument("backup")
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
def restore(backup: str, directories: tuple[Path, ...]) -> None:
    """Copy BACKUP to the data directories DIR..., which must be new or empty: as many as were backed up.

    An incomplete or damaged backup is refused, and then no data directory appears.

    \b
    Examples:
      odradek restore /backups/monday odradek-data
      odradek restore s3://backups/monday odradek-data
    """
    with as_cli_error(KafkaError):
        manifest = read_manifest(backup)
        progress = Progress(sum(entry.size for entry in manifest.entries))
        count = restore_files(backup, directories, progress.add)
    progress.clear()
    click.echo(f"{count} files, {progress.total:,} bytes to {', '.join(map(str, directories))}", err=True)
    for name in manifest.left_out:
        why = "without its keys and passwords the next secure start makes new ones"
        click.echo(f"{name} was not in the backup: put a copy beside as DIR{SECURE_SUFFIX}; {why}", err=True)
