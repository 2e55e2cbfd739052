"""The two halves of a topic as one table: `pyarrow.Table`, or a LazyFrame of Polars.

The lazy frame scans the files by Polars' own reader, which leaves out columns and row groups. Records of the log are
fetched once the frame is collected, with the columns that it needs, and go through its filter batch by batch.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import reduce
from typing import Any

import pyarrow as pa

from ..arrow.decoder import schema_of
from ..arrow.fetch import DataLoss, OffsetRange
from ..core.clock import first_ms
from ..errors import InvalidOption, UnknownTopic
from .data_files import FilesGone
from .union import STORED, Cut

Bound = str | int | datetime
# Cuts of one read: files expire and logs are cut while it goes on, and then it begins again.
_ATTEMPTS = 3


def read(
    look: Callable[[], Cut], columns: Sequence[str], within: Callable[[Cut], Cut], passed: Callable[[int, int], bool]
) -> Any:
    """Return a `pyarrow.Table` of the part of a topic that `within` leaves. `passed` tells whether to go on.

    Partition by partition, each in the order of its offsets. Raises ArchiveError, DataLoss, KafkaError.
    """
    for attempt in range(_ATTEMPTS):
        cut = within(look())
        try:
            return pa.Table.from_batches(list(_batches(cut, columns, passed)), schema=schema_of(tuple(columns)))
        except (FilesGone, DataLoss):
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _batches(cut: Cut, columns: Sequence[str], passed: Callable[[int, int], bool]) -> Iterator[Any]:
    done, total = 0, sum(each.size for each in (*cut.cold, *cut.hot))
    halves = [(each, cut.cold_batches) for each in cut.cold] + [(each, cut.hot_batches) for each in cut.hot]
    for wanted, batches in sorted(halves, key=lambda half: (half[0].partition, half[0].start)):
        if wanted.size <= 0:
            continue
        for batch in batches(wanted, columns):
            yield batch
            if not passed(done, total):
                return
        done += wanted.size
    passed(done, total)


def part(
    cut: Cut, start: Bound | Mapping[int, Bound], end: Bound | Mapping[int, Bound], partitions: Collection[int] | None
) -> Cut:
    """Return the part of a topic between two bounds. A time is the first record at or after it."""

    known = {each.partition for each in (*cut.cold, *cut.hot)}
    if unknown := set(partitions or ()) - known:
        raise UnknownTopic(f"topic '{cut.topic}' has no partition {min(unknown)}")

    def cut_to(half: list[OffsetRange]) -> list[OffsetRange]:
        wanted = [each for each in half if partitions is None or each.partition in partitions]
        limited: list[OffsetRange] = []
        for each in wanted:
            first, last = (_offset(cut, bound, each.partition) for bound in (start, end))
            begin = each.start if first is None else min(max(first, each.start), each.end)
            limited.append(replace(each, start=begin, end=each.end if last is None else min(last, each.end)))
        return limited

    return replace(cut, cold=cut_to(cut.cold), hot=cut_to(cut.hot))


def _offset(cut: Cut, bound: Bound | Mapping[int, Bound], partition: int) -> int | None:
    """Return the offset of a bound, None where it bounds nothing."""
    if isinstance(bound, Mapping):
        if partition not in bound:
            raise InvalidOption(f"no bound is given for partition {partition}")
        bound = bound[partition]
    if isinstance(bound, datetime):
        found = cut.first_at(partition, first_ms(bound))
        return (
            max(each.end for each in (*cut.cold, *cut.hot) if each.partition == partition) if found is None else found
        )
    if isinstance(bound, int):
        return bound
    ends = (each.end for each in (*cut.cold, *cut.hot) if each.partition == partition)
    return max(ends) if bound == "latest" else None


# -- Polars


def lazy(cut: Cut, columns: Sequence[str]) -> Any:
    """Return a `polars.LazyFrame` of both halves. Raises ImportError."""
    import polars

    frames = [_files(polars, cut, columns), *(_log(polars, cut, each, columns) for each in cut.hot if each.size > 0)]
    return polars.concat([frame for frame in frames if frame is not None])


def _files(polars: Any, cut: Cut, columns: Sequence[str]) -> Any:
    wanted = {each.partition: each for each in cut.cold if each.size > 0}
    paths = [
        _local(file.path)
        for file in cut.files
        if any(file.holds(each.partition, each.start, each.end) for each in wanted.values())
    ]
    if not paths:
        return polars.from_arrow(schema_of(tuple(columns)).empty_table()).lazy()
    column = polars.col
    within = [
        (column("partition") == each.partition) & column("offset").is_between(each.start, each.end, closed="left")
        for each in wanted.values()
    ]
    entry = polars.element().struct
    header = polars.struct(entry.field("key"), entry.field("value"))
    made = {
        "topic": polars.lit(cut.topic).alias("topic"),
        "headers": column("headers").list.eval(header).alias("headers"),
    }
    chosen = [made.get(name, column(STORED.get(name, name)).alias(name)) for name in columns]
    return polars.scan_parquet(paths, glob=False).filter(reduce(lambda one, other: one | other, within)).select(chosen)


def _local(path: str) -> str:
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    if "://" in path:
        raise InvalidOption("lazy frames read archives of this machine; other formats read object stores, too")
    return path


def _log(polars: Any, cut: Cut, wanted: OffsetRange, columns: Sequence[str]) -> Any:
    from polars.io.plugins import register_io_source

    def source(
        with_columns: Sequence[str] | None, predicate: Any, n_rows: int | None, batch_size: int | None
    ) -> Iterator[Any]:
        left = n_rows
        for batch in cut.hot_batches(
            wanted, [name for name in columns if with_columns is None or name in with_columns]
        ):
            frame = polars.from_arrow(batch)
            frame = frame if predicate is None else frame.filter(predicate)
            yield frame if left is None else frame.head(left)
            left = None if left is None else max(left - len(frame), 0)
            if left == 0:
                return

    empty = polars.from_arrow(schema_of(tuple(columns)).empty_table())
    return register_io_source(source, schema=empty.schema)
