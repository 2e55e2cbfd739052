"""`odradek log`: commands that read the files of a data directory, offline. `dirs` alone asks running brokers."""

from __future__ import annotations

import click

from . import log_dirs, log_dump, log_import, log_verify


@click.group(short_help="Look into the files of a data directory, offline; verify, repair, import.")
def command() -> None:
    """Look into the files of a data directory that no broker uses. Only `verify --repair` and `import` change files.

    `dirs` asks running brokers for their data directories.

    \b
    Examples:
      odradek log verify odradek-data
      odradek log dump odradek-data/flights-0/00000000000000000000.log --records
      odradek log dirs --summary
    """


command.add_command(log_dirs.command, "dirs")
command.add_command(log_dump.command, "dump")
command.add_command(log_verify.command, "verify")
command.add_command(log_import.command, "import")
