"""Topics as tables of Apache Iceberg: each offset is in its table exactly once.

layout         columns, partitions and properties of a table      places    where tables and their catalog are
state          the offsets that a table holds                     once      a commit whose fate is known
rows           fetched batches -> rows of the table               parquet_files   rows -> files of one day each
run            from the topic to the table, commit by commit      upkeep    compact, expire
status         how far a topic is archived
"""

from __future__ import annotations

from importlib.util import find_spec

from ... import how_to_install
from ..errors import ClientError, InvalidOption


class ArchiveError(ClientError, retriable=False):
    """An archive cannot be used or gone on with; the text says why."""


def check_packages() -> None:
    """Raise InvalidOption where a package is missing that archives need. Call it before another module is imported."""
    missing = [name for name in ("pyiceberg", "sqlalchemy", "pyarrow", "numpy") if find_spec(name) is None]
    if missing:
        why = f"archives need {' and '.join(missing)}"
        raise InvalidOption(f"{why}: {how_to_install('archive')}")
