"""`odradek archive run`: a round of each topic, and another one when it is time.

A row is printed for each commit. SIGTERM ends it once what it has read is committed: status 0. Ctrl-C ends it at once,
and loses nothing: the next run begins where the table is.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ..client.archive import check_packages, errors_of_place
from ..client.errors import InvalidOption, KafkaError
from ..client.record import EARLIEST, LATEST
from .archive_place import CLIENT_ID, opened_catalog, place_options, said_errors, seconds, table_names
from .connection_options import connection_options, reading_texts
from .errors import CliError
from .notices import Progress
from .output import Rows, row_options
from .schema_options import registry_client, registry_options
from .values import OneOf, WholeNumber, parse_search_time_ms, parse_value

if TYPE_CHECKING:
    from ..client.archive.run import Archiver, Round
    from ..client.archive.typed import TypedValues
    from ..client.schemas import SchemaRegistry

_COMMITS = ("topic", "rows", "files", "size_bytes", "lag")
# From a look at how many offsets wait to the next.
_LOOK_S = 1.0


@click.command("run", short_help="Archive topics, once or again and again.")
@place_options
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
def command(
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
    # Arrow's allocator keeps 20 MiB more of what it has freed than the system's. It is chosen as pyarrow is loaded.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    every_s, size = seconds(every), _bytes(target_bytes)
    names = table_names(topics, table)
    begin = _start(start)
    client = None if registry is None else registry_client(registry, registry_login_file, registry_ca)
    values = {topic: _values(topic, value_format, fields, bad, client) for topic in topics}
    with opened_catalog(target, catalog_db, create=True) as catalog:
        from ..client.archive.run import ArchiveOptions, Archiver
        from ..client.arrow.read_options import read_options

        reading = read_options(reading_texts(bootstrap_server, path, CLIENT_ID), "archives")
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
            is_behind, failed = False, list[KafkaError]()
            for each in (each for each in archivers if not stopped.is_set()):
                try:
                    is_behind = _archive(each, rows) or is_behind
                except KafkaError as error:  # it keeps no other topic out of the archive
                    failed.append(error)
            if failed:
                raise failed[0] if len(failed) == 1 else CliError("; ".join(each.message for each in failed))
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


# -- Options


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
    start_ms = parse_search_time_ms(text.removeprefix("@"))
    if start_ms is None:
        why = f"--from takes earliest, latest, an offset or a time as 2026-11-21T08:00:00+01:00, not {text!r}"
        raise click.UsageError(why)
    return {"start_ms": start_ms}


def _values(
    topic: str, value_format: str | None, fields: str | None, bad: str, registry: SchemaRegistry | None
) -> Callable[[], TypedValues] | None:
    """Return what gives the values of a topic their types, None where they stay bytes."""
    with said_errors():
        check_packages()
    from ..client.archive.typed import values_by

    try:
        return values_by(topic, value_format, fields, registry, bad)
    except InvalidOption as error:
        raise click.UsageError(error.message) from error
