"""The data files of a table's head, and the rows of a partition in the order of offsets.

Files of one partition overlap in their offsets where records come late: each has one day. So row groups are read by
their first offsets, and rows are handed out once no group is left that begins before them. What is held at a time are
the groups that overlap.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from . import ArchiveError
from .state import Bounds, live_files

_PARQUET: Any = pyarrow.parquet
# Groups that meet are read until there is so much of them.
_HELD_BYTES = 16 << 20
LAST_OFFSET, FIRST_MS = 2**63 - 1, -(2**63)


class FilesGone(ArchiveError):
    """Files of the snapshot that is read are deleted: it has expired. A new read begins with a newer snapshot."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of the head, with its bounds and its day."""

    entry: Any
    bounds: Bounds
    day: int
    # The latest time of a row.
    last_ms: int = LAST_OFFSET

    def holds(self, partition: int, start: int = 0, end: int = LAST_OFFSET) -> bool:
        """Tell whether it may have rows of a partition whose offsets are in [start, end)."""
        first, last, least, most = self.bounds
        return first <= partition <= last and least < end and most >= start

    @property
    def path(self) -> str:
        """Where it is."""
        return self.entry.file_path


def files_of(table: Any) -> list[DataFile]:
    """Return the files of a table's head. Raises ArchiveError where rows of them are deleted."""
    return list(each_file(table))


def each_file(table: Any) -> Iterator[DataFile]:
    """Yield the files of a table's head, a manifest at a time. Raises ArchiveError where rows of them are deleted."""
    timestamp = table.schema().find_field("timestamp").field_id
    for file, bounds, is_deleted in live_files(table):
        if is_deleted:
            why = "another engine has deleted rows by delete files, which are not understood here"
            raise ArchiveError(f"the table at {table.metadata.location}: {why}")
        latest = (file.upper_bounds or {}).get(timestamp)
        last_ms = LAST_OFFSET if latest is None else int.from_bytes(latest, "little", signed=True) // 1000
        yield DataFile(file, bounds, file.partition[0], last_ms)


class _Group(NamedTuple):
    """A row group of a file, with the least of its offsets that the footer says."""

    first: int
    path: str
    number: int
    footer: Any


def partition_rows(
    table: Any, files: Sequence[DataFile], partition: int, columns: Sequence[str], start: int = 0,
    end: int = LAST_OFFSET, from_ms: int = FIRST_MS,
) -> Iterator[Any]:  # fmt: skip
    """Yield tables with the rows of one partition whose offsets are in [start, end), in the order of offsets.

    The columns have `offset` among them. Files whose times are all before `from_ms` are left out. Raises FilesGone.
    """
    held: list[Any] = []
    last = -1
    for each in _groups(table, files, partition, (start, end, from_ms)):
        if held and (each.first > last or sum(rows.nbytes for rows in held) > _HELD_BYTES):
            ready, held = _split(held, each.first)
            if len(ready):
                yield ready
        rows = _read(table, each, partition, columns, (start, end))
        if len(rows):
            held.append(rows)
            last = max(last, rows["offset"].to_numpy().max())
    if held:
        yield _ordered(held)


def _groups(table: Any, files: Sequence[DataFile], partition: int, wanted: tuple[int, int, int]) -> Iterator[_Group]:
    """Yield row groups by their first offsets. A footer is read once its file is due."""
    start, end, from_ms = wanted
    due = sorted(
        (each for each in files if each.holds(partition, start, end) and each.last_ms >= from_ms),
        key=lambda each: -each.bounds.first,
    )
    groups: list[tuple[int, int, _Group]] = []
    count = 0
    while due or groups:
        while due and (not groups or due[-1].bounds.first <= groups[0][0]):
            for group in _groups_of(table, due.pop(), start, end):
                count += 1
                heappush(groups, (group.first, count, group))
        if groups:
            yield heappop(groups)[-1]


def _groups_of(table: Any, file: DataFile, start: int, end: int) -> Iterator[_Group]:
    with _opened(table, file.path) as source:
        footer = _PARQUET.read_metadata(source)
    for number in range(footer.num_row_groups):
        first, last = _bounds(footer.row_group(number), file.bounds)
        if first < end and last >= start:
            yield _Group(first, file.path, number, footer)


def _bounds(group: Any, otherwise: Bounds) -> tuple[int, int]:
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == "offset" and column.statistics is not None and column.statistics.has_min_max:
            return column.statistics.min, column.statistics.max
    return otherwise.first, otherwise.last


def _opened(table: Any, path: str) -> Any:
    try:
        return table.io.new_input(path).open()
    except FileNotFoundError:
        raise FilesGone(f"{path} is gone: its snapshot has expired while it was read") from None


def _read(table: Any, group: _Group, partition: int, columns: Sequence[str], wanted: tuple[int, int]) -> Any:
    names = list(dict.fromkeys(["partition", *columns]))
    with _opened(table, group.path) as source:
        rows = _PARQUET.ParquetFile(source, metadata=group.footer).read_row_group(group.number, columns=names)
    places, offsets = rows["partition"].to_numpy(), rows["offset"].to_numpy()
    keep = (places == partition) & (offsets >= wanted[0]) & (offsets < wanted[1])
    return (rows if keep.all() else rows.filter(pa.array(keep))).select(list(columns))


def _ordered(held: Sequence[Any]) -> Any:
    rows = pa.concat_tables(held)
    offsets = rows["offset"].to_numpy()
    return rows if (np.diff(offsets) >= 0).all() else rows.take(pa.array(np.argsort(offsets, kind="stable")))


def _split(held: Sequence[Any], at: int) -> tuple[Any, list[Any]]:
    """Return the rows below an offset in their order, and the others."""
    rows = _ordered(held)
    below = int(np.searchsorted(rows["offset"].to_numpy(), at))
    return rows.slice(0, below), [rows.slice(below)] if below < len(rows) else []
