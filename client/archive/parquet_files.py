"""Parquet files of an archive: the rows of one partition, split by day and written within bounded memory.

Tasks of Spark write them, too, so this needs pyarrow, and nothing of pyiceberg.

    <table>/data/<uuid of the table>/timestamp_day=2026-11-28/<partition>-<begin>-<round>-<number>.parquet

Two tables may be at one place: the first one was renamed, or its catalog was lost. So each has a folder of its own.

`begin` is the state of the partition which the file goes on from. A commit that names the file needs that state, so
once the table's state is beyond it, a file that no snapshot names is left over for good.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet

from ..arrow.brokers import Brokers
from ..arrow.connection import ReadOptions
from ..arrow.direct_read import range_reader
from ..arrow.fetch import OffsetRange
from .day_files import TARGET_BYTES, Day, DayFiles, TablePlace, split
from .rows import TYPED, TableRows, Typed

DAY_FIELD = "timestamp_day"
_DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1)
_NAME = re.compile(r"(\d+)-(\d+)-[0-9a-f]{32}-\d+\.parquet")
_COMPACTED = re.compile(r"compacted-(\d+)-[0-9a-f]{32}\.parquet")
_ENCODINGS = {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}
# Values that differ make a large dictionary, which costs more than it saves: it is given up here. Arrow's 1 MiB takes
# three times the CPU time for typed columns, and makes larger files.
_DICTIONARY_BYTES = 64 << 10
_PARQUET: Any = pyarrow.parquet
_DICTIONARIES = ["partition", "timestamp_type", "headers.list.element.key"]


class FileName(NamedTuple):
    """What the name of a file says: the state that it goes on from."""

    partition: int
    begin: int


def parsed_name(path: str) -> FileName | None:
    """Return what the name of an archiver's file says, None for the files of others."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return None if found is None else FileName(int(found[1]), int(found[2]))


def compacted_name(base: int) -> str:
    """Return a new name for a file that a commit on the snapshot `base` alone may name."""
    return f"compacted-{base}-{uuid.uuid4().hex}.parquet"


def base_of(path: str) -> int | None:
    """Return the snapshot that a compacted file was made on, None for other files."""
    found = _COMPACTED.fullmatch(path.rpartition("/")[2])
    return None if found is None else int(found[1])


class NewFile(NamedTuple):
    """A file that is whole."""

    path: str
    partition: int
    first: int
    last: int
    rows: int
    size_bytes: int


class PartitionFiles(DayFiles[NewFile]):
    """Writes the files of one partition from the state `begin` on. `finish` them, or `abandon`."""

    def __init__(
        self, place: TablePlace, partition: int, begin: int, target_bytes: int = TARGET_BYTES,
        most_files: int = sys.maxsize,
    ) -> None:  # fmt: skip
        super().__init__(place, target_bytes)
        self._most_files = most_files
        # An attempt that failed may have left files that go on from the same state.
        self._partition, self._begin, self._run = partition, begin, uuid.uuid4().hex
        # The first and the last offset of each open file.
        self._offsets: dict[int, tuple[int, int]] = {}

    def add(self, batch: Any) -> int:
        """Take rows of the table, in the order of offsets. Return how many: the others would make too many files."""
        days = _days_of(batch)
        taken = self._fitting(days)
        for number, part in split(batch.slice(0, taken), days[:taken]):
            self.add_part(number, part)
        self.keep_to_bound()
        return taken

    def _fitting(self, days: Any) -> int:
        """Return before which row a file too many would begin. Files that become large, or make room, may be more."""
        left = max(self._most_files - len(self._done) - len(self._days), 0)
        if left and len(days) and days.min() == days.max():
            return len(days)
        numbers, starts = np.unique(days, return_index=True)
        new = sorted(at for day, at in zip(numbers.tolist(), starts.tolist(), strict=True) if day not in self._days)
        return len(days) if len(new) <= left else new[left]

    @property
    def written_bytes(self) -> int:
        """The bytes of the files so far."""
        return sum(each.size_bytes for each in self._done) + self.open_bytes

    def _write(self, number: int, day: Day) -> None:
        first, last = (part.column("offset")[at].as_py() for part, at in ((day.pending[0], 0), (day.pending[-1], -1)))
        self._offsets[number] = self._offsets.get(number, (first, last))[0], last
        super()._write(number, day)

    def new_path(self, number: int, file: int) -> str:
        """Return the path of a new file of a day."""
        name = f"{self._partition}-{self._begin}-{self._run}-{file}.parquet"
        return f"{self.place.location}/{DAY_FIELD}={_EPOCH + timedelta(days=number)}/{name}"

    def new_writer(self, stream: Any) -> Any:
        """Return a writer of an archive's Parquet."""
        return parquet_writer(stream, self.place.schema)

    def noted(self, number: int, day: Day, size_bytes: int) -> NewFile:
        """Return a file that is whole."""
        return NewFile(day.path, self._partition, *self._offsets.pop(number), day.rows, size_bytes)


def write_range(
    wanted: OffsetRange, files: PartitionFiles, reading: ReadOptions, brokers: Brokers,
    goes_on: Callable[[int, int], bool], typed: Typed | None = None,
) -> tuple[int, list[NewFile]]:  # fmt: skip
    """Write the files of a range. Return the offset that was reached and the files. Raises DataLoss, KafkaError.

    `goes_on` gets the offset so far and the bytes written, and tells whether to go on. The files may be enough, too.
    """
    rows = TableRows(files.place.schema, wanted.topic, wanted.partition, wanted.start, wanted.end, typed)
    reader = range_reader(wanted, reading, brokers)
    reached, sections = wanted.end, reader.sections()

    def batches() -> Iterator[Any]:
        nonlocal reached
        for section in sections:
            yield from rows.feed(section)
            at = min(reader.position, wanted.end)
            if not goes_on(at, files.written_bytes):
                reached = at
                break
        yield from rows.rest()

    try:
        for batch in batches():
            taken = files.add(batch)
            if taken < len(batch):
                reached = batch.column("offset")[taken].as_py()
                break
        return reached, files.finish()
    except BaseException:
        files.abandon()
        raise
    finally:
        sections.close()


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


def _days_of(batch: Any) -> Any:
    """Return the day of each row, since 1970."""
    times = batch.column(2)
    return np.frombuffer(times.buffers()[1], np.int64, len(batch), times.offset * 8) // _DAY_US
