"""`odradek log`: commands that read the files of a data directory, offline. `dirs` alone asks running brokers.

`import` copies the partition directories of a Kafka broker into a data directory that no broker uses. Records keep
their offsets, topics their ids. It checks every batch and only reads the source. Afterwards all topics exist, or none.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..broker.clock import Clock
from ..broker.log_dirs.data_dir import StartError
from ..broker.topics.topic_import import Importer, check_apart, plan
from ..protocol.errors import KafkaError
from ..storage.partition_import import Imported
from . import log_dump, log_verify
from .errors import CliError, as_cli_error
from .names import partition_option, partitions_of
from .notices import Progress
from .output import Rows, print_rows, row_options
from .session import bootstrap_option, with_admin
from .values import WholeNumber

if TYPE_CHECKING:
    from ..client import Admin
    from ..client.admin.brokers import LogDir


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


command.add_command(log_dump.command, "dump")
command.add_command(log_verify.command, "verify")

_PARTITIONS = ("broker", "log_dir", "error", "topic", "partition", "size_bytes", "offset_lag", "is_future")
_SUMMARY = ("broker", "log_dir", "error", "partitions", "size_bytes", "total_bytes", "usable_bytes")
_Row = tuple[Any, ...]


@command.command(short_help="Print the data directories of running brokers.")
@partition_option("Only these partitions; repeatable.")
@click.option("--broker", "brokers", metavar="ID", type=WholeNumber(min=0), multiple=True, help="Only this broker.")
@click.option("--summary", is_flag=True, help="One line a directory, with the free space of its volume.")
@row_options
@bootstrap_option
def dirs(topics: tuple[str, ...], brokers: tuple[int, ...], summary: bool) -> None:
    """Print every partition with its data directory and its size on disk, or one line a directory.

    This command asks running brokers. A directory that is empty or offline has a line of its own.

    \b
    Examples:
      odradek log dirs
      odradek log dirs --summary
      odradek log dirs --topic flights --topic delays:0,1
    """

    async def work(admin: Admin) -> list[LogDir]:
        partitions = await partitions_of(admin, topics) if topics else None
        return await admin.describe_log_dirs(*brokers, partitions=partitions)

    columns, rows_of = (_SUMMARY, _summary) if summary else (_PARTITIONS, _partitions)
    print_rows(columns, (row for each in with_admin(work) for row in rows_of(each)))


def _summary(each: LogDir) -> list[_Row]:
    return [(*_directory(each), len(each.replicas), each.size_bytes, each.total_bytes, each.usable_bytes)]


def _partitions(each: LogDir) -> list[_Row]:
    rows = [
        (*_directory(each), *replica.partition, replica.size_bytes, replica.offset_lag, replica.is_future)
        for replica in each.replicas
    ]
    return rows or [(*_directory(each), None, None, None, None, None)]


def _directory(each: LogDir) -> _Row:
    return each.node_id, each.path, each.error.name if each.error else None


_COLUMNS = ("folder", "log_start_offset", "end_offset")


@command.command("import", short_help="Import topics from the data directory of a Kafka broker.")
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("./odradek-data"),
    show_default=True,
    help="The data directory to import into; made if missing.",
)
@row_options
def import_(directories: tuple[Path, ...], data_dir: Path) -> None:
    """Copy topics into a data directory. Each DIR is a partition's directory (TOPIC-NUMBER), or a whole log.dir.

    Kafka must have stopped, and no broker may use the data directory. Topics keep their offsets and ids, but not their
    configs. A whole log.dir is imported without internal topics (__consumer_offsets).

    \b
    Examples:
      odradek log import /var/lib/kafka/flights-0 /var/lib/kafka/flights-1
      odradek log import /var/lib/kafka --data-dir /var/lib/odradek
    """
    with as_cli_error(KafkaError, StartError):
        plans = plan(directories)
        if not plans:
            raise CliError("no partition's folder was found there")
        check_apart(plans, data_dir)
        progress = Progress(sum(each.size_bytes for each in plans))
        with Importer(data_dir) as importer, Rows(_COLUMNS) as out:

            def done(imported: Imported) -> None:
                progress.clear()
                out.add((str(imported.source), imported.log_start_offset, imported.end_offset))
                for cut in imported.cuts:
                    text = f"{imported.source / cut.path.name}: {cut.size} bytes from {cut.position} on are left out"
                    click.echo(f"{text}: {cut.why}", err=True)

            importer.run(plans, Clock().now_ms(), progress.add, done)
    for each in plans:
        missing = [str(index) for index in range(each.partitions) if index not in each.folders]
        if missing:
            click.echo(f"{each.name}: no folder for {', '.join(missing)}: begins empty there", err=True)
