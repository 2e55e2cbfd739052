"""Topics as tables of Apache Iceberg: each offset is in its table exactly once.

layout         columns, partitions and properties of a table      places    where tables and their catalog are
state          the offsets that a table holds                     once      a commit whose fate is known
rows           fetched batches -> rows of the table               day_files       rows -> files of one day each
parquet_files  a range of the topic -> files of its partition
run            from the topic to the table, commit by commit      upkeep    compact, expire
check          what is wrong with its offsets and rows            status    how far a topic is archived
data_files     rows of a partition in the order of offsets        restore   rows -> record batches again
typed          values as columns by fields or a schema, and the table's evolution
row_files      a pipeline's own rows -> files                     row_tables      tables of such rows, each batch once
local_files    what a directory needs to survive a power cut
union          the table up to its offsets, the log behind them  union_table   both as one table of Arrow or Polars
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from ... import how_to_install
from ..errors import ClientError, InvalidOption


class ArchiveError(ClientError, retriable=False):
    """An archive cannot be used or gone on with; the text says why."""


@dataclass(frozen=True, slots=True)
class Archive:
    """Where a topic's table is: `target` as `odradek archive run --to` takes it, `catalog_db` and `table` likewise."""

    target: str
    catalog_db: str | None = None
    # With its namespace, "air.flights"; None: that of the topic's name.
    table: str | None = None


# Whose errors say that a catalog or a store cannot be used.
_LIBRARIES = {"pyiceberg", "sqlalchemy", "pyarrow", "requests", "botocore", "psycopg2"}


@contextmanager
def errors_of_place() -> Generator[None]:
    """Raise ArchiveError for what failed where the tables are: a disk, a store, a catalog."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _LIBRARIES:
            why = next(iter(str(error).splitlines()), type(error).__name__)
            raise ArchiveError(f"the archive cannot be used: {why}") from error
        raise


def check_packages() -> None:
    """Raise InvalidOption where a package is missing that archives need. Call it before another module is imported."""
    missing = [name for name in ("pyiceberg", "sqlalchemy", "pyarrow", "numpy") if find_spec(name) is None]
    if missing:
        why = f"archives need {' and '.join(missing)}"
        raise InvalidOption(f"{why}: {how_to_install('archive')}")


@contextmanager
def opened(archive: Archive | str, *, create: bool = False) -> Generator[tuple[Any, tuple[str, ...] | None]]:
    """Open the catalog of an archive, which comes with the name of its table, if it has one of its own.

    Raises InvalidOption, ArchiveError.
    """
    check_packages()
    from .places import catalog_of  # pyiceberg takes a second, which other reads do not pay

    at = Archive(archive) if isinstance(archive, str) else archive
    name = None if at.table is None else tuple(at.table.split("."))
    with errors_of_place(), closing(catalog_of(at.target, at.catalog_db, create=create)) as catalog:
        yield catalog, name
