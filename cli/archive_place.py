"""What the commands of `odradek archive` share: where the tables are, their names, and errors in one line."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import click

from ..client.archive import ArchiveError, check_packages, errors_of_place
from ..client.errors import KafkaError, NoBrokerReachable
from .connection_options import chosen_configs
from .errors import CliError
from .session import unreachable, with_advice
from .values import parse_value


def place_options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.argument("topics", metavar="TOPIC...", nargs=-1, required=True),
        click.option("--to", "target", metavar="TARGET", required=True, help="Where the tables are."),
        click.option("--catalog-db", metavar="FILE", help="The catalog's file of SQLite, for an object store."),
        click.option("--table", metavar="NAME", help="The table, with its namespace; odradek.TOPIC without it."),
    )
    for option in reversed(options):
        function = option(function)
    return function


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


def reading_texts(bootstrap_server: str, path: str) -> dict[str, str]:
    from .client_configs import texts_of

    of_profile, given = chosen_configs(click.get_current_context())
    configs = {f"kafka.{name}": value for name, value in texts_of("sql", of_profile, given).items()}
    return {"kafka.bootstrap.servers": bootstrap_server, "kafka.client.id": "odradek-archive", "path": path, **configs}


@contextmanager
def opened_catalog(target: str, catalog_db: str | None, *, create: bool = False) -> Generator[Any]:
    check_packages()
    from ..client.archive.places import catalog_of

    with errors_of_place():
        catalog = catalog_of(target, catalog_db, create=create)
    try:
        yield catalog
    finally:
        catalog.close()


@contextmanager
def said_errors() -> Generator[None]:
    """Say what failed in one line."""

    try:
        yield
    except ArchiveError as error:
        raise CliError(error.message) from error
    except NoBrokerReachable as error:
        raise unreachable(error) from error
    except KafkaError as error:
        raise CliError(with_advice(error)) from error
