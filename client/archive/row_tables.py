"""Tables of a pipeline's own rows: each batch of a query is in its table once.

    odradek.batch.<query>     {"batch", "commit"}      in the summary of a snapshot, and the same as a property

The number of the newest ancestor of the table's head that has it counts, as the offsets of an archive do (state.py): a
rollback goes back to the batch of that snapshot. A batch that is not above it is committed already.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError, ValidationError
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException
from pyiceberg.transforms import DayTransform

from ..errors import InvalidOption
from ..schemas.tables import MAX_LEVELS
from . import ArchiveError
from .layout import COMMIT_PROPERTIES, plain_arrow
from .once import COMMIT_TIMEOUT_S, Moved, Once, looked
from .row_files import Batch
from .run import commit_files
from .state import TOPIC_KEY, ancestors, in_summary

log = logging.getLogger(__name__)

BATCH_KEY = "odradek.batch."
_DAY = re.compile(r"\s*day\(\s*(.+?)\s*\)\s*", re.IGNORECASE)
_ATTEMPTS = 5
# What pyiceberg raises for columns that no table has, or not this one.
_MISFITS = (ValueError, TypeError, ValidationError, NotImplementedError, UnsupportedPyArrowTypeException)


class RowsRejected(ArchiveError):
    """The rows of a pipeline do not fit their table."""


def day_column(partition_by: str) -> str:
    """Return the column of "day(column)". Raises InvalidOption."""
    found = _DAY.fullmatch(partition_by)
    if found is None:
        raise InvalidOption(f"{partition_by!r} is no day(COLUMN)")
    return found[1]


def open_rows(catalog: Any, name: tuple[str, ...], rows: Any, day: str | None = None) -> tuple[Any, str | None]:
    """Return a table that takes rows of this Arrow schema, and the column of its days. It is created where it is not.

    New columns are added, and narrower types get wider. Raises RowsRejected.
    """
    text = ".".join(name)
    for each in rows:
        if _is_deeper(each.type, MAX_LEVELS):
            raise RowsRejected(f"{each.name} has a part inside of more than {MAX_LEVELS} types: no column is so deep")
    table = looked(lambda: _opened(catalog, name, rows, day))
    if TOPIC_KEY in table.metadata.properties:
        raise RowsRejected(f"{text} is the archive of a topic, which takes no other rows")
    spec = [(table.schema().find_column_name(each.source_id), each.transform) for each in table.spec().fields]
    held = spec[0][0] if len(spec) == 1 and isinstance(spec[0][1], DayTransform) else None
    if spec and held is None:
        raise RowsRejected(f"{text} has partitions {table.spec()}: rows are written by day(COLUMN), or without any")
    if day not in (None, held):
        raise RowsRejected(f"{text} is not partitioned by day({day})")
    held_names = {each.name.lower(): each.name for each in table.schema().fields}
    other = next((each for each in rows.names if held_names.get(each.lower(), each) != each), None)
    if other is not None:
        raise RowsRejected(f"{text} has the column {held_names[other.lower()]}, and {other} is the same one in SQL")
    missing = [each.name for each in table.schema().fields if each.required and each.name not in rows.names]
    if missing:
        raise RowsRejected(f"{text} needs the column {missing[0]}, which the rows lack")
    return looked(lambda: _widened(catalog, table, rows)), held


def _is_deeper(kind: Any, levels: int) -> bool:
    """Tell whether a type has parts in parts of more levels."""
    if pa.types.is_map(kind):
        parts = [kind.key_type, kind.item_type]
    else:
        parts = [kind.field(number).type for number in range(kind.num_fields)]
    return bool(parts) and (levels == 0 or any(_is_deeper(each, levels - 1) for each in parts))


def _opened(catalog: Any, name: tuple[str, ...], rows: Any, day: str | None) -> Any:
    if catalog.table_exists(name):
        return catalog.load_table(name)
    if day is not None and day not in rows.names:
        raise RowsRejected(f"the rows have no column {day}, by whose days the table would be partitioned")
    catalog.create_namespace_if_not_exists(name[:-1])
    try:
        with (
            suppress(TableAlreadyExistsError, CommitFailedException),
            catalog.create_table_transaction(name, rows) as made,
        ):
            if day is not None:
                with made.update_spec() as spec:
                    spec.add_field(day, DayTransform())
            made.set_properties(COMMIT_PROPERTIES)
    except _MISFITS as error:
        raise RowsRejected(f"{'.'.join(name)} cannot be made of these columns: {error}") from error
    return catalog.load_table(name)


def _widened(catalog: Any, table: Any, rows: Any) -> Any:
    """Return the table with all columns of the rows. Others may widen it at the same time."""
    name = table.name()
    for _ in range(_ATTEMPTS):
        try:
            with table.update_schema() as update:
                update.union_by_name(rows)
            return catalog.load_table(name)
        except CommitFailedException as error:
            log.info("%s: %s", ".".join(name), error)
            table = catalog.load_table(name)
        except _MISFITS as error:
            raise RowsRejected(f"the columns of the rows do not fit {'.'.join(name)}: {error}") from error
    raise ArchiveError(f"the columns of {'.'.join(name)} change all the time")


def rows_schema(table: Any) -> Any:
    """Return the Arrow schema of a table's files, with field ids."""
    return plain_arrow(table.schema())


# -- Batches


def last_batch(metadata: Any, query_id: str) -> int | None:
    """Return the number of the last batch of a query that is in a table, None if there is none. Raises ArchiveError."""
    key = BATCH_KEY + query_id
    text = next((found for each in ancestors(metadata) if (found := in_summary(each, key)) is not None), None)
    if text is None:
        text = metadata.properties.get(key)
        if text is None or any(in_summary(each, key) == text for each in metadata.snapshots):
            return None  # none yet, or rolled back
    try:
        return int(json.loads(text)["batch"])
    except (ValueError, TypeError, KeyError):
        raise ArchiveError(f"the table at {metadata.location} has no readable {key}: {text[:200]}") from None


def commit_rows(
    catalog: Any, name: tuple[str, ...], paths: Sequence[str], batch: Batch | None = None,
    timeout_s: float = COMMIT_TIMEOUT_S,
) -> int | None:  # fmt: skip
    """Commit the files of a batch. Return the number of the commit in its table; None if the batch is there already.

    Raises ArchiveError, CommitUncertain.
    """
    deadline = time.monotonic() + timeout_s
    entries: dict[str, str] = {}
    if batch is not None:
        entries[BATCH_KEY + batch.query_id] = json.dumps({"batch": batch.number, "commit": uuid.uuid4().hex})
    while True:
        table = looked(lambda: catalog.load_table(name), timeout_s)
        if batch is not None and _is_there(table.metadata, batch):
            return None
        try:
            commit_files(table, Once(catalog, timeout_s), list(paths), entries)
            return table.metadata.last_sequence_number
        except Moved:
            if time.monotonic() > deadline:
                raise ArchiveError(f"other commits to {'.'.join(name)} came first for too long") from None


def _is_there(metadata: Any, batch: Batch) -> bool:
    last = last_batch(metadata, batch.query_id)
    if last is None or last < batch.number:
        return False
    if last > batch.number:
        raise ArchiveError(
            f"batch {batch.number} of query {batch.query_id} was committed, and batch {last} after it: "
            "was the checkpoint restored from an older copy? Use a new checkpoint location"
        )
    return True
