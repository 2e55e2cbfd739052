"""What the commands of `odradek archive` share: where the tables are, their names, and errors in one line."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from typing import Any

import click

from ..client.archive import ArchiveError, check_packages, errors_of_place
from .connection_options import with_options
from .errors import as_cli_error
from .session import failures_in_one_line
from .values import parse_value

CLIENT_ID = "odradek-archive"


def place_options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.argument("topics", metavar="TOPIC...", nargs=-1, required=True),
        click.option("--to", "target", metavar="TARGET", required=True, help="Where the tables are."),
        click.option("--catalog-db", metavar="FILE", help="The catalog's file of SQLite, for an object store."),
        click.option("--table", metavar="NAME", help="The table, with its namespace; odradek.TOPIC without it."),
    )
    return with_options(options, function)


def seconds(text: str) -> float:
    value = parse_value("--every.ms", text)
    if not value.isdigit():
        raise click.UsageError(f"a time needs a number with a unit, as 60s or 5min, not {text!r}")
    return int(value) / 1000


def table_names(topics: tuple[str, ...], table: str | None) -> dict[str, tuple[str, ...] | None]:
    """Return the table of each topic, None for that of its name."""
    if table is None:
        return dict.fromkeys(topics)
    parts = tuple(table.split("."))
    if len(topics) > 1 or len(parts) < 2 or not all(parts):
        raise click.UsageError("--table names the table of one topic, with its namespace: air.flights")
    return dict.fromkeys(topics, parts)


def name_of(topic: str, name: tuple[str, ...] | None) -> tuple[str, ...]:
    from ..client.archive.layout import table_name

    return name or table_name(topic)


@contextmanager
def opened_catalog(target: str, catalog_db: str | None, *, create: bool = False) -> Generator[Any]:
    """Open the catalog at a target. What fails meanwhile is said in one line."""
    with said_errors():
        check_packages()
        from ..client.archive.places import catalog_of

        with errors_of_place():
            catalog = catalog_of(target, catalog_db, create=create)
        with closing(catalog):
            yield catalog


@contextmanager
def said_errors() -> Generator[None]:
    """Say what failed in one line."""
    with failures_in_one_line(), as_cli_error(ArchiveError):
        yield
