"""`odradek sql`: query topics with SQL, by DuckDB. Each topic is a table.

Rows are printed as they come. On the broker's machine they are read from its files, elsewhere they are fetched.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast

import click

from ..client.core.record_json import as_json
from .connection_options import connection_options, reading_texts
from .output import Rows, chosen, row_options
from .schema_options import SchemaFormats, schema_options
from .session import failures_in_one_line
from .values import OneOf


@click.command(short_help="Query topics with SQL.")
@click.argument("query", metavar="SQL")
@click.option(
    "--schema", metavar="FIELDS",
    help='The fields of JSON values with their types, as "carrier string, delay int". Without it the first '
    "100 values tell.",
)  # fmt: skip
@click.option("--binary", is_flag=True, help="Keys and values are bytes; without it they are text.")
@click.option(
    "--isolation", type=OneOf(("read_committed", "read_uncommitted")), default="read_committed",
    show_default=True, help="read_uncommitted also has records of open and aborted transactions.",
)  # fmt: skip
@click.option(
    "--path", type=OneOf(("auto", "direct", "fetch")), default="auto", show_default=True,
    help="Read the broker's files where that is possible, or only so, or fetch.",
)  # fmt: skip
@click.option(
    "--archive", metavar="TARGET", help="Topics begin with the rows that `odradek archive` has of them there."
)
@click.option("--catalog-db", metavar="FILE", help="The archive's catalog of SQLite, for an object store.")
@click.option("--archive-only", is_flag=True, help="Read the archive alone, without a broker.")
@click.option("--csv", "as_csv", is_flag=True, help="Comma-separated values, with a header.")
@row_options
@connection_options("sql")
@schema_options(writes=False)
def command(
    query: str, schema: str | None, binary: bool, isolation: str, path: str, archive: str | None,
    catalog_db: str | None, archive_only: bool, as_csv: bool, bootstrap_server: str, formats: SchemaFormats,
) -> None:  # fmt: skip
    """Query topics with SQL, as DuckDB has it.

    A topic is a table with the columns key, value, topic, partition, offset, timestamp and headers, and a column for
    each field of JSON values. Conditions on partition and offset, and a lower bound of timestamp, leave out
    what need not be read.

    \b
    Examples:
      odradek sql "select * from flights limit 10"
      odradek sql "select carrier, avg(dep_delay) from flights group by 1"
      odradek sql "select * from flights where flights.offset >= 1000" --json
      odradek sql 'from "my-topic" where timestamp > now() - interval 1 hour'
      odradek sql "select a from t" --schema "a int, b string" --csv
      odradek sql "select count(*) from flights" --archive /archive
      odradek sql "copy (select * from flights) to 'flights.parquet'"
    """
    if as_csv and chosen("json"):
        raise click.UsageError("only one of --csv and --json")
    if binary and formats:
        raise click.UsageError("--binary has bytes, and --key-format and --value-format have JSON of them")
    if archive is None and (archive_only or catalog_db is not None):
        raise click.UsageError("--archive-only and --catalog-db need --archive")
    if archive is not None and isolation == "read_uncommitted":
        raise click.UsageError("archives have committed records alone: leave --isolation out")
    if not query.strip():
        raise click.UsageError("SQL is empty")
    options = reading_texts(bootstrap_server, path, "odradek-sql") | {"kafka.isolation.level": isolation}
    with failures_in_one_line():
        place: dict[str, Any] = {"archive": None, "archive_only": archive_only}
        if archive is not None:
            from ..client.archive import Archive

            place["archive"] = Archive(archive, catalog_db)
        _ask(query, options, schema, formats, place, binary=binary, as_csv=as_csv)


def _ask(
    query: str, options: dict[str, str], schema: str | None, formats: SchemaFormats, place: dict[str, Any], *,
    binary: bool, as_csv: bool,
) -> None:  # fmt: skip
    from ..client.errors import InvalidOption
    from ..client.sql import check_packages

    check_packages()
    from ..client.sql.fields import parse_fields
    from ..client.sql.topic_tables import TopicTables

    try:
        fields = None if schema is None else parse_fields(schema)
    except InvalidOption as error:
        raise click.UsageError(error.message) from None
    serializers = {name: each for name, each in (("key", formats.key), ("value", formats.value)) if each is not None}
    with TopicTables(options, fields=fields, is_binary=binary, serializers=serializers, **place) as tables:
        columns, portions = tables.run(query)
        if as_csv:
            _print_csv(columns, portions)
            return
        with Rows(columns) as rows:
            for portion in portions:
                for row in portion:
                    rows.add(tuple(map(_plain, row)))


def _print_csv(columns: list[str], portions: Iterator[list[tuple[Any, ...]]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for portion in portions:
        writer.writerows([_csv_cell(value) for value in row] for row in portion)


def _csv_cell(value: Any) -> Any:
    value = _plain(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return as_json(cast("dict[str, Any] | list[Any]", value)) if isinstance(value, list | dict) else value


def _plain(value: Any) -> Any:
    """Return a value as the outputs take it: times and intervals in ISO 8601, also those in lists and structs."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, tuple):
        # An interval has names, an entry of a map has none.
        parts = cast("tuple[Any, ...]", value)
        return _interval(*parts) if hasattr(parts, "nanoseconds") else [_plain(each) for each in parts]
    return value


def _interval(months: int, days: int, nanoseconds: int) -> str:
    """Return Arrow's interval in ISO 8601: P1M2DT3H4M5.5S. Each part has a sign of its own."""
    sign = "-" if nanoseconds < 0 else ""
    minutes, rest = divmod(abs(nanoseconds), 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{rest // 10**9}.{rest % 10**9:09d}".rstrip("0").rstrip(".")
    date = "".join(f"{number}{unit}" for number, unit in ((months, "M"), (days, "D")) if number)
    clock = "".join(f"{sign}{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M")) if number)
    if rest or not (date or clock):
        clock += f"{sign}{seconds}S"
    return f"P{date}T{clock}" if clock else f"P{date}"
