"""`odradek archive`: keep topics as tables of Apache Iceberg, and look after these tables.

`run` prints a row for each commit. SIGTERM ends it once what it has read is committed: status 0. Ctrl-C ends it at
once, and loses nothing: the next run begins where the table is.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ..client.archive import check_packages, errors_of_place
from ..client.errors import InvalidOption, KafkaError, NoBrokerReachable
from ..client.record import EARLIEST, LATEST
from .connection_options import chosen_configs, connection_options
from .errors import CliError
from .notices import Progress
from .output import Rows, row_options
from .schema_options import registry_client, registry_options
from .session import unreachable, with_admin, with_advice
from .values import OneOf, WholeNumber, parse_value

if TYPE_CHECKING:
    from ..client import Admin
    from ..client.archive.run import Archiver, Round
    from ..client.archive.typed import TypedValues
    from ..client.schemas import SchemaRegistry

_COMMITS = ("topic", "rows", "files", "size_bytes", "lag")
_STATUS = ("topic", "partition", "archived", "end", "lag", "oldest_ms", "retention_ms")
# The share of retention after which records that are not archived are in danger.
_DANGER = 0.5
# From a look at how many offsets wait to the next.
_LOOK_S = 1.0


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


def _place_options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.argument("topics", metavar="TOPIC...", nargs=-1, required=True),
        click.option("--to", "target", metavar="TARGET", required=True, help="Where the tables are."),
        click.option("--catalog-db", metavar="FILE", help="The catalog's file of SQLite, for an object store."),
        click.option("--table", metavar="NAME", help="The table, with its namespace; odradek.TOPIC without it."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@command.command("run", short_help="Archive topics, once or again and again.")
@_place_options
@click.option("--every", metavar="TIME", default="60s", show_default=True, help="The time from a commit to the next.")
@click.option("--once", is_flag=True, help="Archive what there is, and end.")
@click.option("--max-lag", metavar="N", type=WholeNumber(min=1),
              help="Commit before --every is over, too, once so many offsets of a topic wait.")  # fmt: skip
@click.option("--target-bytes", metavar="SIZE", default="128MiB", show_default=True,
              help="A data file ends at this size.")  # fmt: skip
@click.option(
    "--from", "start", metavar="WHERE", default="earliest", show_default=True,
    help="Where a new table begins: earliest, latest, an offset, or a time in ISO 8601.",
)  # fmt: skip
@click.option("--skip-lost", is_flag=True, help="Go on where retention has removed records before they were archived.")
@click.option(
    "--path", type=OneOf(("auto", "direct", "fetch")), default="auto", show_default=True,
    help="Read the broker's files where that is possible, or only so, or fetch.",
)  # fmt: skip
@click.option("--value-format", type=OneOf(("json", "avro", "json-schema")),
              help="Values have types, in the column value_: by --fields, or by the registry's schema.")  # fmt: skip
@click.option("--fields", metavar="FIELDS", help='The fields of JSON values: "carrier string, delay int".')
@click.option("--bad", type=OneOf(("keep", "fail", "skip")), default="keep", show_default=True,
              help="A value that does not fit: keep it with its error, end, or leave the record out.")  # fmt: skip
@registry_options
@click.option("--metrics", metavar="HOST:PORT", help="Answer Prometheus there: commits, rows, bytes and lag.")
@row_options
@connection_options("sql")
def run_(
    topics: tuple[str, ...], target: str, catalog_db: str | None, table: str | None, every: str, once: bool,
    max_lag: int | None, target_bytes: str, start: str, skip_lost: bool, path: str, value_format: str | None,
    fields: str | None, bad: str, registry: str | None, registry_login_file: Path | None, registry_ca: str | None,
    metrics: str | None, bootstrap_server: str,
) -> None:  # fmt: skip
    """Archive TOPIC... in tables at TARGET, and print a row for each commit.

    A second archiver of the same topic does no harm: the first commit wins, and the other one goes on behind it.
    SIGTERM ends the command once what it has read is committed; Ctrl-C ends it at once, and loses nothing.

    \b
    Examples:
      odradek archive run flights --to /archive --once
      odradek archive run flights --to iceberg://lake --table air.flights
      odradek archive run flights --to s3://bucket/x --catalog-db archive.db
      odradek archive run t --to /archive --value-format json --fields "delay int"
    """
    every_s, size = _seconds(every), _bytes(target_bytes)
    names = _table_names(topics, table)
    begin = _start(start)
    client = None if registry is None else registry_client(registry, registry_login_file, registry_ca)
    values = {topic: _values(topic, value_format, fields, bad, client) for topic in topics}
    with _errors(), _catalog(target, catalog_db, create=True) as catalog:
        from ..client.archive.run import ArchiveOptions, Archiver
        from ..client.arrow.read_options import read_options

        reading = read_options(_reading(bootstrap_server, path), "archives")
        archivers: list[Archiver] = []
        for topic in topics:
            options = ArchiveOptions(
                names[topic], fail_on_data_loss=not skip_lost, values=values[topic], target_bytes=size, **begin
            )
            archivers.append(Archiver(catalog, topic, reading, options))
        with _metrics(archivers, metrics):
            _run(archivers, None if once else every_s, max_lag)


def _run(archivers: Sequence[Archiver], every_s: float | None, max_lag: int | None) -> None:
    """Archive once, or until SIGTERM."""
    stopped = threading.Event()

    def stop(*_: object) -> None:
        stopped.set()
        for each in archivers:
            each.stop()

    with _on_sigterm(stop), Rows(_COMMITS) as rows:
        while not stopped.is_set():
            began = time.monotonic()
            behind = [_archive(each, rows) for each in archivers if not stopped.is_set()]
            is_behind = any(behind)
            if every_s is None and not is_behind:
                return
            if every_s is not None and not is_behind:
                _wait(archivers, stopped, began + every_s, max_lag)


def _wait(archivers: Sequence[Archiver], stopped: threading.Event, until: float, max_lag: int | None) -> None:
    """Return when it is time for the next commit, or when a topic has too much that waits."""
    while (left := until - time.monotonic()) > 0 and not stopped.wait(left if max_lag is None else min(left, _LOOK_S)):
        if max_lag is not None and any(each.waiting() >= max_lag for each in archivers):
            return


def _archive(archiver: Archiver, rows: Rows) -> bool:
    """Do a round, and return whether more is there already."""
    from ..client.archive.upkeep import keep_up

    with errors_of_place():
        done = _round(archiver)
    if done.is_committed:
        rows.add((archiver.topic, done.rows, done.files, done.size_bytes, done.lag))
        with errors_of_place():
            keep_up(archiver)
    return done.lag > 0 or done.is_overtaken


def _round(archiver: Archiver) -> Round:
    shown: list[Progress] = []
    done = [0]

    def progress(at: int, total: int) -> None:
        if not shown:
            shown.append(Progress(total, f"{total} offsets of {archiver.topic}"))
        shown[0].add(at - done[0])
        done[0] = at

    try:
        return archiver.round(progress)
    finally:
        for each in shown:
            each.clear()


@contextmanager
def _metrics(archivers: Sequence[Archiver], place: str | None) -> Generator[None]:
    """Answer Prometheus at HOST:PORT meanwhile."""
    if place is None:
        yield
        return
    from ..client.core.metrics import PrometheusBridge
    from ..client.core.option_values import bootstrap_addresses

    bridge = PrometheusBridge()
    for each in archivers:
        bridge.add(each)
    import prometheus_client

    registry = prometheus_client.CollectorRegistry()
    registry.register(cast("Any", bridge))
    ((host, port),) = bootstrap_addresses(place)
    try:
        server, thread = prometheus_client.start_http_server(port, host, registry)
    except OSError as error:
        raise CliError(f"--metrics {place}: {error.strerror}") from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def _on_sigterm(stop: Callable[..., None]) -> Generator[None]:
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# -- Looking


@command.command(short_help="Print how far each partition is archived.")
@_place_options
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
    names = _table_names(topics, table)
    late: list[str] = []
    retention = {topic: int(_config(topic, "retention.ms") or -1) for topic in topics}
    with _errors(), _catalog(target, catalog_db) as catalog:
        from ..client.archive.status import partitions_of
        from ..client.arrow.read_options import read_options

        reading = read_options(_reading(bootstrap_server, "fetch"), "archives")
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
@_place_options
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
    with _errors(), _catalog(target, catalog_db) as catalog:
        from ..client.archive import check as checks
        from ..client.archive.places import open_table
        from ..client.arrow.read_options import read_options

        for topic, name in _table_names(topics, table).items():
            compacted = deep and "compact" in _config(topic, "cleanup.policy")
            with errors_of_place():
                opened = open_table(catalog, _name_of(topic, name))
                found = list(checks.check(opened))
                if deep:
                    reading = read_options(_reading(bootstrap_server, "auto"), "archives")
                    found += checks.check_rows(opened, topic, reading, is_compacted=compacted)
            for text in found:
                click.echo(f"{topic}: {text}")
            count += len(found)
    if count:
        raise CliError(f"{count} findings: see above")


@command.command(short_help="Restore topics into a data directory.")
@_place_options
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

    with _errors(), _catalog(target, catalog_db) as catalog, errors_of_place():
        from ..client.archive.places import open_table

        names = _table_names(topics, table).items()
        done = restored([(topic, open_table(catalog, _name_of(topic, name))) for topic, name in names], data_dir)
    with Rows(COLUMNS) as rows:
        for each in done:
            rows.add(each)


@command.command(short_help="Make large files of small ones.")
@_place_options
@click.option("--min-files", metavar="N", type=WholeNumber(min=2), default=8, show_default=True,
              help="The least small files of a partition and day that become one.")  # fmt: skip
def compact(topics: tuple[str, ...], target: str, catalog_db: str | None, table: str | None, min_files: int) -> None:
    """Make large files of the small ones of each partition and day. `run` does it between its commits.

    \b
    Examples:
      odradek archive compact --to /archive flights
    """
    for topic, name in _table_names(topics, table).items():
        with _errors(), _catalog(target, catalog_db) as catalog, errors_of_place():
            from ..client.archive import upkeep

            count = upkeep.compact(catalog, _name_of(topic, name), min_files=min_files)
        click.echo(f"{topic}: {count} files became fewer", err=True)


@command.command(short_help="Expire old snapshots, and delete files that none names.")
@_place_options
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
    keep_ms = int(_seconds(keep) * 1000)
    for topic, name in _table_names(topics, table).items():
        with _errors(), _catalog(target, catalog_db) as catalog, errors_of_place():
            from ..client.archive import upkeep

            snapshots, files = upkeep.expire(catalog, _name_of(topic, name), keep_ms=keep_ms)
        click.echo(f"{topic}: {snapshots} snapshots expired, {files} files deleted", err=True)


# -- Options


def _seconds(text: str) -> float:
    value = parse_value("--every.ms", text)
    if not value.isdigit():
        raise click.UsageError(f"a time needs a number with a unit, as 60s or 5min, not {text!r}")
    return int(value) / 1000


def _bytes(text: str) -> int:
    value = parse_value("--target.bytes", text)
    if not value.isdigit() or not int(value):
        raise click.UsageError(f"--target-bytes needs a number with a unit, as 128MiB, not {text!r}")
    return int(value)


def _start(text: str) -> dict[str, int]:
    """Return the options of an archiver that say where it begins."""

    if text.isascii() and text.isdigit():
        return {"start": int(text)}
    if text in ("earliest", "latest"):
        return {"start": EARLIEST if text == "earliest" else LATEST}
    try:
        return {"start_ms": round(datetime.fromisoformat(text.removeprefix("@")).timestamp() * 1000)}
    except ValueError:
        why = f"--from takes earliest, latest, an offset or a time as 2026-11-21T08:00:00+01:00, not {text!r}"
        raise click.UsageError(why) from None


def _values(
    topic: str, value_format: str | None, fields: str | None, bad: str, registry: SchemaRegistry | None
) -> Callable[[], TypedValues] | None:
    """Return what gives the values of a topic their types, None where they stay bytes."""
    with _errors():
        check_packages()
    from ..client.archive.run import values_by

    try:
        return values_by(topic, value_format, fields, registry, bad)
    except InvalidOption as error:
        raise click.UsageError(error.message) from error


def _table_names(topics: tuple[str, ...], table: str | None) -> dict[str, tuple[str, ...] | None]:
    """Return the table of each topic, None for that of its name."""
    if table is None:
        return dict.fromkeys(topics)
    parts = tuple(table.split("."))
    if len(topics) > 1 or len(parts) < 2 or not all(parts):
        raise click.UsageError("--table names the table of one topic, with its namespace: air.flights")
    return dict.fromkeys(topics, parts)


def _name_of(topic: str, name: tuple[str, ...] | None) -> tuple[str, ...]:
    from ..client.archive.layout import table_name

    return name or table_name(topic)


def _reading(bootstrap_server: str, path: str) -> dict[str, str]:
    from .client_configs import texts_of

    of_profile, given = chosen_configs(click.get_current_context())
    configs = {f"kafka.{name}": value for name, value in texts_of("sql", of_profile, given).items()}
    return {"kafka.bootstrap.servers": bootstrap_server, "kafka.client.id": "odradek-archive", "path": path, **configs}


@contextmanager
def _catalog(target: str, catalog_db: str | None, *, create: bool = False) -> Generator[Any]:
    check_packages()
    from ..client.archive.places import catalog_of

    with errors_of_place():
        catalog = catalog_of(target, catalog_db, create=create)
    try:
        yield catalog
    finally:
        catalog.close()


@contextmanager
def _errors() -> Generator[None]:
    """Say what failed in one line."""
    from ..client.archive import ArchiveError

    try:
        yield
    except ArchiveError as error:
        raise CliError(error.message) from error
    except NoBrokerReachable as error:
        raise unreachable(error) from error
    except KafkaError as error:
        raise CliError(with_advice(error)) from error
