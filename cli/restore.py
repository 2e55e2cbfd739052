"""`odradek restore`: make data directories from a backup, after a check of every byte."""

from __future__ import annotations

from pathlib import Path

import click

from ..protocol.errors import KafkaError
from ..storage.backup import read_manifest, restore
from .errors import CliError
from .progress import Progress


@click.command(short_help="Make data directories from a backup.")
@click.argument("backup", type=click.Path(path_type=Path))
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
def command(backup: Path, directories: tuple[Path, ...]) -> None:
    """Copy BACKUP to the data directories DIR..., which must be new or empty: as many as were backed up.

    An incomplete or damaged backup is refused, and then no data directory appears.

    \b
    Examples:
      odradek restore /backups/monday odradek-data
    """
    try:
        _, entries = read_manifest(backup)
        progress = Progress(sum(entry.size for entry in entries))
        count = restore(backup, directories, progress.add)
    except KafkaError as error:
        raise CliError(error.message) from error
    progress.clear()
    click.echo(f"{count} files, {progress.total:,} bytes to {', '.join(map(str, directories))}", err=True)
