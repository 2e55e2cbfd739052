"""`odradek log import`: copy the partition directories of a Kafka broker into a data directory that no broker uses.

Records keep their offsets, topics their ids. The import checks every batch and only reads the source. Afterwards all
topics exist, or none.
"""

from __future__ import annotations

from pathlib import Path

import click

from ..broker.clock import Clock
from ..broker.log_dirs.data_dir import StartError
from ..broker.topics.topic_import import Importer, check_apart, plan
from ..protocol.errors import KafkaError
from ..storage.partition_import import Imported
from .errors import CliError
from .output import Rows, row_options
from .progress import Progress

_COLUMNS = ("folder", "log_start_offset", "end_offset")


@click.command(short_help="Import topics from the data directory of a Kafka broker.")
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
def command(directories: tuple[Path, ...], data_dir: Path, as_json: bool) -> None:
    """Copy topics into a data directory. Each DIR is a partition's directory (TOPIC-NUMBER), or a whole log.dir.

    Kafka must have stopped, and no broker may use the data directory. Topics keep their offsets and ids, but not their
    configs. A whole log.dir is imported without internal topics (__consumer_offsets).

    \b
    Examples:
      odradek log import /var/lib/kafka/flights-0 /var/lib/kafka/flights-1
      odradek log import /var/lib/kafka --data-dir /var/lib/odradek
    """
    try:
        plans = plan(directories)
        if not plans:
            raise CliError("no partition's folder was found there")
        check_apart(plans, data_dir)
        progress = Progress(sum(each.size_bytes for each in plans))
        with Importer(data_dir) as importer, Rows(_COLUMNS, as_json) as out:

            def done(imported: Imported) -> None:
                progress.clear()
                out.add(_row(imported))
                for cut in imported.cuts:
                    text = f"{imported.source / cut.path.name}: {cut.size} bytes from {cut.position} on are left out"
                    click.echo(f"{text}: {cut.why}", err=True)

            importer.run(plans, Clock().now_ms(), progress.add, done)
    except (KafkaError, StartError) as error:
        raise CliError(error.message if isinstance(error, KafkaError) else str(error)) from error
    for each in plans:
        missing = [str(index) for index in range(each.partitions) if index not in each.folders]
        if missing:
            click.echo(f"{each.name}: no folder for {', '.join(missing)}: begins empty there", err=True)


def _row(imported: Imported) -> dict[str, object]:
    return dict(zip(_COLUMNS, (str(imported.source), imported.log_start_offset, imported.end_offset), strict=True))
