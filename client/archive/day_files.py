"""Rows -> a file for each day, within bounded memory, for archives and for a pipeline's own rows.

Rows of a day wait until they are a row group, or until all that wait are too many. A file that is large enough ends,
and so does the smallest one where too many are open: later rows of its day go to another file.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import fs

Done = TypeVar("Done")

TARGET_BYTES = 128 << 20
# Rows that wait, as Arrow. Those of one day become a row group, which takes about its size once more as it is written.
GROUP_BYTES = 8 << 20
# Of all days: the less there may be, the smaller are the files of many days at a time.
PENDING_BYTES = 16 << 20
ROW_GROUP = 131_072
# A file that is written on has the list of its row groups in memory, and a descriptor.
OPEN_FILES = 32


class TablePlace(NamedTuple):
    """Where the files of a table go to. It can be pickled, and tasks of Spark need no pyiceberg for it."""

    # A filesystem of pyarrow, and where the table's data files are in it.
    files: Any
    root: str
    # The same as the table says it.
    location: str
    # Of Arrow, with the field ids of the table.
    schema: Any

    def created(self, path: str) -> Any:
        """Return the stream of a new file."""
        name = self.root + path.removeprefix(self.location)
        if isinstance(self.files, fs.LocalFileSystem):
            self.files.create_dir(name.rpartition("/")[0])
        return self.files.open_output_stream(name)


@dataclass(slots=True)
class Day:
    """The rows of one day: those that wait, and the file that they go to."""

    pending: list[Any] = field(default_factory=list[Any])
    pending_bytes: int = 0
    pending_rows: int = 0
    path: str = ""
    stream: Any = None
    writer: Any = None
    rows: int = 0


class DayFiles(ABC, Generic[Done]):
    """Writes rows to files of one day each. `finish` them, or `abandon`."""

    # What Arrow needs for a part of few rows, beside their bytes.
    part_bytes = 6 << 10

    def __init__(self, place: TablePlace, target_bytes: int) -> None:
        self.place = place
        self._target_bytes = target_bytes
        self._days: dict[int, Day] = {}
        self._pending_bytes = 0
        self._count = 0
        # What is noted of the files that are whole.
        self._done: list[Done] = []

    @abstractmethod
    def new_path(self, number: int, file: int) -> str:
        """Return the path of a new file of a day, which is the `file`th of all."""

    @abstractmethod
    def new_writer(self, stream: Any) -> Any:
        """Return a writer of Parquet."""

    @abstractmethod
    def noted(self, number: int, day: Day, size_bytes: int) -> Done:
        """Return what is noted of a file that is whole."""

    def add_part(self, number: int, part: Any) -> None:
        """Take rows of one day, in their order."""
        day = self._days.setdefault(number, Day())
        size = part.nbytes + self.part_bytes
        day.pending.append(part)
        day.pending_bytes += size
        day.pending_rows += len(part)
        self._pending_bytes += size
        if day.pending_rows >= ROW_GROUP or day.pending_bytes >= GROUP_BYTES:
            self._write(number, day)

    def keep_to_bound(self) -> None:
        """Write rows that wait, the most of one day first, until they are few enough."""
        while self._pending_bytes > PENDING_BYTES:
            self._write(*max(self._days.items(), key=lambda each: each[1].pending_bytes))

    def join_parts(self) -> None:
        """Where too many bytes wait, make one part of those of each day: parts of few rows take more memory."""
        if self._pending_bytes <= PENDING_BYTES:
            return
        for day in self._days.values():
            if len(day.pending) > 1:
                day.pending = pa.Table.from_batches(day.pending).combine_chunks().to_batches()
                day.pending_bytes = sum(part.nbytes + self.part_bytes for part in day.pending)
        self._pending_bytes = sum(day.pending_bytes for day in self._days.values())

    @property
    def open_bytes(self) -> int:
        """The bytes of the files that are not whole yet, so far."""
        return sum(day.stream.tell() for day in self._days.values() if day.writer is not None)

    def finish(self) -> list[Done]:
        """Write all rows that wait, end all files, and return what is noted of them."""
        while self._days:
            # Where too many files are open, a write ends one of another day, too.
            number = min(self._days)
            day = self._days[number]
            if day.pending:
                self._write(number, day)
            if self._days.get(number) is day:
                self._close(number)
        return self._done

    def abandon(self) -> None:
        """Close what is open. No commit will name these files."""
        for day in self._days.values():
            if day.writer is not None:
                with suppress(OSError, pa.ArrowException):
                    day.writer.close()
                    day.stream.close()
        self._days.clear()

    def _write(self, number: int, day: Day) -> None:
        """Write the rows of a day that wait as a row group, and end the file where it is large enough."""
        rows = pa.Table.from_batches(day.pending, schema=self.place.schema)
        if day.writer is None:
            day.writer = self._open(number, day)
        day.writer.write_table(rows, row_group_size=ROW_GROUP)
        day.rows += len(rows)
        self._pending_bytes -= day.pending_bytes
        day.pending, day.pending_bytes, day.pending_rows = [], 0, 0
        if day.stream.tell() >= self._target_bytes:
            self._close(number)
        elif sum(each.writer is not None for each in self._days.values()) > OPEN_FILES:
            opened = {key: each for key, each in self._days.items() if each.writer is not None and each is not day}
            self._close(min(opened, key=lambda key: opened[key].rows))

    def _open(self, number: int, day: Day) -> Any:
        day.path = self.new_path(number, self._count)
        self._count += 1
        day.stream = self.place.created(day.path)
        return self.new_writer(day.stream)

    def _close(self, number: int) -> None:
        """End the file of a day. Rows that wait, and those that come, go to another one."""
        day = self._days.pop(number)
        if day.writer is not None:
            day.writer.close()
            size = day.stream.tell()
            day.stream.close()
            sync(day.path)
            self._done.append(self.noted(number, day, size))
        if day.pending:
            self._days[number] = Day(day.pending, day.pending_bytes, day.pending_rows)


def split(batch: Any, days: Any) -> Iterator[tuple[int, Any]]:
    """Yield the days of rows, which `days` says row by row, each with its rows in their order.

    They are copies: slices of rows that wait would keep all rows that came with them.
    """
    if not len(batch):
        return
    if days.min() == days.max():
        yield int(days[0]), batch
        return
    order = np.argsort(days, kind="stable")
    days = days[order]
    starts = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(batch)]
    for start, end in pairwise(starts):
        yield int(days[start]), batch.take(pa.array(order[start:end]))


def sync(path: str) -> None:
    """Have a local file, or the names in a folder, on disk. Object stores have files once they are written."""
    name = path.removeprefix("file://")
    if "://" not in name:
        opened = os.open(name, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
