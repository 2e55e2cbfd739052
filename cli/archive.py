"""`odradek archive`: keep topics as tables of Apache Iceberg, and look after these tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..client.archive import errors_of_place
from . import archive_run
from .archive_place import CLIENT_ID, name_of, opened_catalog, place_options, seconds, table_names
from .connection_options import connection_options, reading_texts
from .errors import CliError
from .output import Rows, print_rows, row_options
from .session import with_admin
from .values import WholeNumber

if TYPE_CHECKING:
    from ..client import Admin

_STATUS = ("topic", "partition", "archived", "end", "lag", "oldest_ms", "retention_ms")
# The share of retention after which records that are not archived are in danger.
_DANGER = 0.5


@click.group(short_help="Keep topics as tables of Apache Iceberg, each record once.")
def command() -> None:
    """Keep topics as tables of Apache Iceberg: each committed record is in its table once.

    TARGET is a directory or an object store, whose catalog is a file of SQLite, or iceberg://NAME, a catalog of
    ~/.pyiceberg.yaml.

    \b
    Examples:
      odradek archive run flights --to /archive --once
      odradek archive run flights delays --to /archive --every 30s
      odradek archive status --to /archive flights
      odradek archive check --to /archive flights
      odradek archive expire --to iceberg://lake flights
      odradek archive restore --to /archive flights --data-dir new-data
    """


command.add_command(archive_run.command)


@command.command(short_help="Print how far each partition is archived.")
@place_options
@row_options
@connection_options("sql")
def status(
    topics: tuple[str, ...], target: str, catalog_db: str | None, table: str | None, bootstrap_server: str
) -> None:
    """Print how far each partition of TOPIC... is archived: the lag in offsets, and the age of its oldest record.

    Status 1 if a record that is not archived is older than half of the topic's retention.

    \b
    Examples:
      odradek archive status --to /archive flights
      odradek archive status --to /archive flights --json
    """
    names = table_names(topics, table)
    late: list[str] = []
    retention = {topic: int(_config(topic, "retention.ms") or -1) for topic in topics}
    with opened_catalog(target, catalog_db) as catalog:
        from ..client.archive.status import partitions_of
        from ..client.arrow.read_options import read_options

        reading = read_options(reading_texts(bootstrap_server, "fetch", CLIENT_ID), "archives")
        with errors_of_place():
            found = [each for topic in topics for each in partitions_of(catalog, topic, names[topic], reading)]
    with Rows(_STATUS) as rows:
        for each in found:
            oldest_ms, retention_ms = each.oldest_ms, retention[each.topic]
            rows.add((each.topic, each.partition, each.archived, each.end, each.lag, oldest_ms, retention_ms))
            if oldest_ms is not None and 0 < retention_ms <= oldest_ms / _DANGER:
                late.append(f"{each.topic}-{each.partition}")
    if late:
        names_of = ", ".join(late[:5])
        raise CliError(f"half of the retention has passed, and records are not archived: {names_of}")


def _config(topic: str, name: str) -> str:
    from ..client import ConfigResource

    async def work(admin: Admin) -> str:
        resource = ConfigResource.topic(topic)
        configs = await admin.describe_configs([resource], names=[name])
        return configs[resource][name].value or ""

    return with_admin(work)


@command.command(short_help="Check that each offset is in its table once.")
@place_options
@click.option("--deep", is_flag=True, help="Compare each row with the topic's record, as far as the log has it.")
@connection_options("sql")
def check(
    topics: tuple[str, ...], target: str, catalog_db: str | None, table: str | None, deep: bool, bootstrap_server: str
) -> None:
    """Check that each offset of TOPIC... is in its table once, and none beyond the table's state. Status 1 if not.

    The bounds in the table's manifests are enough for most files. Rows are read where these meet. Brokers are asked for
    --deep alone.

    \b
    Examples:
      odradek archive check --to /archive flights
      odradek archive check --to /archive flights --deep
    """
    count = 0
    with opened_catalog(target, catalog_db) as catalog:
        from ..client.archive import check as checks
        from ..client.archive.places import open_table
        from ..client.arrow.read_options import read_options

        for topic, name in table_names(topics, table).items():
            compacted = deep and "compact" in _config(topic, "cleanup.policy")
            with errors_of_place():
                opened = open_table(catalog, name_of(topic, name))
                found = list(checks.check(opened))
                if deep:
                    reading = read_options(reading_texts(bootstrap_server, "auto", CLIENT_ID), "archives")
                    found += checks.check_rows(opened, topic, reading, is_compacted=compacted)
            for text in found:
                click.echo(f"{topic}: {text}")
            count += len(found)
    if count:
        raise CliError(f"{count} findings: see above")


@command.command(short_help="Restore topics into a data directory.")
@place_options
@click.option("--data-dir", metavar="DIR", type=click.Path(path_type=Path), default=Path("./odradek-data"),
              show_default=True, help="The data directory, which no broker uses; made if missing.")  # fmt: skip
@row_options
def restore(topics: tuple[str, ...], target: str, catalog_db: str | None, table: str | None, data_dir: Path) -> None:
    """Restore TOPIC... from tables into a data directory: records with their offsets, times, keys, values and headers.

    What archives do not have does not come back: batches, producers, transaction markers, aborted records, configs.

    \b
    Examples:
      odradek archive restore --to /archive flights --data-dir new-data
    """
    from .archive_restore import COLUMNS
    from .archive_restore import restore as restored

    with opened_catalog(target, catalog_db) as catalog, errors_of_place():
        from ..client.archive.places import open_table

        names = table_names(topics, table).items()
        done = restored([(topic, open_table(catalog, name_of(topic, name))) for topic, name in names], data_dir)
    print_rows(COLUMNS, done)


@command.command(short_help="Make large files of small ones.")
@place_options
@click.option("--min-files", metavar="N", type=WholeNumber(min=2), default=8, show_default=True,
              help="The least small files of a partition and day that become one.")  # fmt: skip
def compact(topics: tuple[str, ...], target: str, catalog_db: str | None, table: str | None, min_files: int) -> None:
    """Make large files of the small ones of each partition and day. `run` does it between its commits.

    \b
    Examples:
      odradek archive compact --to /archive flights
    """
    for topic, name in table_names(topics, table).items():
        with opened_catalog(target, catalog_db) as catalog, errors_of_place():
            from ..client.archive import upkeep

            count = upkeep.compact(catalog, name_of(topic, name), min_files=min_files)
        click.echo(f"{topic}: {count} files became fewer", err=True)


@command.command(short_help="Expire old snapshots, and delete files that none names.")
@place_options
@click.option(
    "--keep", metavar="TIME", default="24h", show_default=True, help="What a compaction replaced stays for so long."
)
def expire(topics: tuple[str, ...], target: str, catalog_db: str | None, table: str | None, keep: str) -> None:
    """Expire snapshots, and delete files that no snapshot names and no commit can name.

    The last ten snapshots stay, and those that a compaction replaced since --keep: their readers have that time.
    `run` does it between its commits.

    \b
    Examples:
      odradek archive expire --to /archive flights --keep 6h
    """
    keep_ms = int(seconds(keep) * 1000)
    for topic, name in table_names(topics, table).items():
        with opened_catalog(target, catalog_db) as catalog, errors_of_place():
            from ..client.archive import upkeep

            snapshots, files = upkeep.expire(catalog, name_of(topic, name), keep_ms=keep_ms)
        click.echo(f"{topic}: {snapshots} snapshots expired, {files} files deleted", err=True)
