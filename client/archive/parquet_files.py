"""Parquet files of an archive: the rows of one partition, split by day and written within bounded memory.

    <table>/data/<uuid of the table>/timestamp_day=2026-11-28/<partition>-<begin>-<round>-<number>.parquet

Two tables may be at one place: the first one was renamed, or its catalog was lost. So each has a folder of its own.

`begin` is the state of the partition which the file goes on from. A commit that names the file needs that state, so
once the table's state is beyond it, a file that no snapshot names is left over for good.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pyarrow import fs

from .rows import TYPED

DAY_FIELD = "timestamp_day"
TARGET_BYTES = 128 << 20
# Rows that wait, as Arrow. Those of one day become a row group, which takes about its size once more as it is written.
GROUP_BYTES = 8 << 20
# Of all days: the less there may be, the smaller are the files of many days at a time.
PENDING_BYTES = 16 << 20
# What Arrow needs for a batch of few rows, beside their bytes.
_PART_BYTES = 6 << 10
_ROW_GROUP = 131_072
# A file that is written on has the list of its row groups in memory, and a descriptor.
OPEN_FILES = 32
_DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1)
_NAME = re.compile(r"(\d+)-(\d+)-([0-9a-f]{32})-(\d+)\.parquet")
_COMPACTED = re.compile(r"compacted-(\d+)-[0-9a-f]{32}\.parquet")
_ENCODINGS = {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}
# Values that differ make a large dictionary, which costs more than it saves: it is given up here. Arrow's 1 MiB takes
# three times the CPU time for typed columns, and makes larger files.
_DICTIONARY_BYTES = 64 << 10
_PARQUET: Any = pyarrow.parquet
_DICTIONARIES = ["partition", "timestamp_type", "headers.list.element.key"]


class FileName(NamedTuple):
    """What the name of a file says: the state that it goes on from, and the round that wrote it."""

    partition: int
    begin: int
    round: str


def parsed_name(path: str) -> FileName | None:
    """Return what the name of an archiver's file says, None for the files of others."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return None if found is None else FileName(int(found[1]), int(found[2]), found[3])


def compacted_name(base: int) -> str:
    """Return a new name for a file that a commit on the snapshot `base` alone may name."""
    return f"compacted-{base}-{uuid.uuid4().hex}.parquet"


def base_of(path: str) -> int | None:
    """Return the snapshot that a compacted file was made on, None for other files."""
    found = _COMPACTED.fullmatch(path.rpartition("/")[2])
    return None if found is None else int(found[1])


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


class NewFile(NamedTuple):
    """A file that is whole."""

    path: str
    partition: int
    first: int
    last: int
    rows: int
    size_bytes: int


@dataclass(slots=True)
class _Day:
    """The rows of one day: those that wait, and the file that they go to."""

    pending: list[Any] = field(default_factory=list[Any])
    pending_bytes: int = 0
    pending_rows: int = 0
    path: str = ""
    stream: Any = None
    writer: Any = None
    first: int = -1
    last: int = -1
    rows: int = 0


class PartitionFiles:
    """Writes the files of one partition from the state `begin` on. `finish` them, or `abandon`."""

    def __init__(self, place: TablePlace, partition: int, begin: int, target_bytes: int = TARGET_BYTES) -> None:
        self._place, self.schema = place, place.schema
        # An attempt that failed may have left files that go on from the same state.
        self._partition, self._begin, self._run = partition, begin, uuid.uuid4().hex
        self._target_bytes = target_bytes
        self._days: dict[int, _Day] = {}
        self._pending_bytes = 0
        self._done: list[NewFile] = []
        self._count = 0

    def add(self, batch: Any) -> None:
        """Take rows of the table, in the order of offsets."""
        for number, part in _by_day(batch):
            day = self._days.setdefault(number, _Day())
            day.pending.append(part)
            size = part.nbytes + _PART_BYTES
            day.pending_bytes += size
            day.pending_rows += len(part)
            self._pending_bytes += size
            if day.pending_rows >= _ROW_GROUP or day.pending_bytes >= GROUP_BYTES:
                self._write(number, day)
        while self._pending_bytes > PENDING_BYTES:
            self._write(*max(self._days.items(), key=lambda each: each[1].pending_bytes))

    @property
    def written_bytes(self) -> int:
        """The bytes of the files so far."""
        opened = (day.stream.tell() for day in self._days.values() if day.writer is not None)
        return sum(each.size_bytes for each in self._done) + sum(opened)

    def finish(self) -> list[NewFile]:
        """Write the rest, and return all files."""
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

    def _write(self, number: int, day: _Day) -> None:
        """Write the rows of a day that wait as a row group, and end the file where it is large enough."""
        rows = pa.Table.from_batches(day.pending, schema=self.schema)
        if day.writer is None:
            day.first = rows["offset"][0].as_py()
            day.writer = self._opened(number, day)
        day.writer.write_table(rows, row_group_size=_ROW_GROUP)
        day.last = rows["offset"][-1].as_py()
        day.rows += len(rows)
        self._pending_bytes -= day.pending_bytes
        day.pending, day.pending_bytes, day.pending_rows = [], 0, 0
        if day.stream.tell() >= self._target_bytes:
            self._close(number)
        elif sum(each.writer is not None for each in self._days.values()) > OPEN_FILES:
            opened = {key: each for key, each in self._days.items() if each.writer is not None and each is not day}
            self._close(min(opened, key=lambda key: opened[key].rows))

    def _opened(self, number: int, day: _Day) -> Any:
        name = f"{self._partition}-{self._begin}-{self._run}-{self._count}.parquet"
        self._count += 1
        day.path = f"{self._place.location}/{DAY_FIELD}={_EPOCH + timedelta(days=number)}/{name}"
        day.stream = self._place.created(day.path)
        return parquet_writer(day.stream, self.schema)

    def _close(self, number: int) -> None:
        """End the file of a day. Rows that wait, and those that come, go to another one."""
        day = self._days.pop(number)
        if day.writer is not None:
            day.writer.close()
            size = day.stream.tell()
            day.stream.close()
            sync(day.path)
            self._done.append(NewFile(day.path, self._partition, day.first, day.last, day.rows, size))
        if day.pending:
            self._days[number] = _Day(day.pending, day.pending_bytes, day.pending_rows)


def parquet_writer(stream: Any, schema: Any) -> Any:
    """Return a writer of an archive's Parquet."""
    # Of typed columns readers leave out row groups, too.
    typed = [f"{TYPED}.{each.name}" for each in schema.field(TYPED).type] if TYPED in schema.names else []
    return _PARQUET.ParquetWriter(
        stream,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=_DICTIONARIES + typed,
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        column_encoding=_ENCODINGS,
        write_statistics=["partition", "offset", "timestamp", "timestamp_type", *typed],
        store_schema=False,
    )


def _by_day(batch: Any) -> Iterator[tuple[int, Any]]:
    """Yield the days of rows, since 1970, each with its rows in their order.

    They are copies: slices of rows that wait would keep all rows that came with them.
    """
    if not len(batch):
        return
    times = batch.column(2)
    days = np.frombuffer(times.buffers()[1], np.int64, len(batch), times.offset * 8) // _DAY_US
    if days.min() == days.max():
        yield int(days[0]), batch
        return
    order = np.argsort(days, kind="stable")
    days = days[order]
    starts = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(batch)]
    for start, end in pairwise(starts):
        yield int(days[start]), batch.take(pa.array(order[start:end]))


def sync(path: str) -> None:
    """Have a file of this machine on disk before a commit names it. Object stores have it once it is written."""
    name = path.removeprefix("file://")
    if "://" not in name:
        opened = os.open(name, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
