"""The data files of a table's head, and the rows of a partition in the order of offsets.

Files of one partition overlap in their offsets where records come late: each has one day. So row groups are read by
their first offsets, and rows are handed out once no group is left that begins before them. What is held at a time are
the groups that overlap.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from . import ArchiveError
from .state import Bounds, bounds_of

_PARQUET: Any = pyarrow.parquet
_COMPUTE: Any = pyarrow.compute
# Groups that meet are read until there is so much of them.
_HELD_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of the head, with its bounds and its day."""

    entry: Any
    bounds: Bounds
    day: int

    @property
    def path(self) -> str:
        """Where it is."""
        return self.entry.file_path


def files_of(table: Any) -> list[DataFile]:
    """Return the files of a table's head. Raises ArchiveError where rows of them are deleted."""
    found: list[DataFile] = []
    for task in table.scan().plan_files():
        if task.delete_files:
            why = "another engine has deleted rows by delete files, which are not understood here"
            raise ArchiveError(f"the table at {table.metadata.location}: {why}")
        found.append(DataFile(task.file, bounds_of(task.file, table.metadata), task.file.partition[0]))
    return found


class _Group(NamedTuple):
    """A row group of a file, with the least of its offsets that the footer says."""

    first: int
    path: str
    number: int


def partition_rows(table: Any, files: Sequence[DataFile], partition: int, columns: Sequence[str]) -> Iterator[Any]:
    """Yield tables with the rows of one partition, in the order of offsets. The columns have `offset` among them."""
    held: list[Any] = []
    for each in _groups(table, files, partition):
        if held and sum(rows.nbytes for rows in held) > _HELD_BYTES:
            ready, held = _split(held, each.first)
            if len(ready):
                yield ready
        held.append(_read(table, each, partition, columns))
    if held:
        yield pa.concat_tables(held).sort_by("offset")


def _groups(table: Any, files: Sequence[DataFile], partition: int) -> list[_Group]:
    found: list[_Group] = []
    for each in files:
        if not each.bounds.partition <= partition <= each.bounds.last_partition:
            continue
        with table.io.new_input(each.path).open() as source:
            footer = _PARQUET.ParquetFile(source).metadata
        for number in range(footer.num_row_groups):
            first = _least(footer.row_group(number), each.bounds.first)
            found.append(_Group(first, each.path, number))
    return sorted(found)


def _least(group: Any, otherwise: int) -> int:
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == "offset" and column.statistics is not None and column.statistics.has_min_max:
            return column.statistics.min
    return otherwise


def _read(table: Any, group: _Group, partition: int, columns: Sequence[str]) -> Any:
    names = list(dict.fromkeys(["partition", *columns]))
    with table.io.new_input(group.path).open() as source:
        rows = _PARQUET.ParquetFile(source).read_row_group(group.number, columns=names)
    return rows.filter(_COMPUTE.equal(rows["partition"], partition)).select(list(columns))


def _split(held: Sequence[Any], at: int) -> tuple[Any, list[Any]]:
    """Return the rows below an offset in their order, and the others."""
    rows = pa.concat_tables(held).sort_by("offset")
    below = _COMPUTE.sum(_COMPUTE.less(rows["offset"], at)).as_py() or 0
    return rows.slice(0, below), [rows.slice(below)] if below < len(rows) else []
