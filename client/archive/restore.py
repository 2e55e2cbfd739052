"""An archive -> a topic's batches again: every record with its offset, time, key, value and headers.

What an archive does not have cannot come back: batches as they were with their codecs, producers and their sequences,
transaction markers, aborted records and leader epochs. A partition ends with a batch without records where the archive
ends behind its last record: a group that has committed this offset is within the log, and no new record gets it.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ...protocol.records.batch import TimestampType, encode_batch, read_header
from ...protocol.records.compression import Compression
from ...protocol.records.filter import emptied
from ...protocol.records.record import Headers, Record
from . import ArchiveError
from .data_files import DataFile, partition_rows
from .layout import COLUMNS

# A batch ends with the record that fills it.
_BATCH_BYTES, _BATCH_ROWS = 1 << 20, 10_000
# Offsets are of 32 bits within a batch.
_MAX_DELTA = 2**31 - 1


class Batch(NamedTuple):
    """A record batch as a log has it."""

    first: int
    last: int
    records: int
    data: bytes


def batches_of(table: Any, files: Sequence[DataFile], partition: int, end: int) -> Iterator[Batch]:
    """Yield the batches of a partition, whose log is to end at `end`. Raises ArchiveError for doubled offsets."""
    records: list[Record] = []
    kind: tuple[int, int | None] = (0, None)
    size, last = 0, -1
    for record, time_type in _records(table, files, partition):
        if not last < record.offset < end:
            raise ArchiveError(f"offset {record.offset} of partition {partition} is wrong there: see `archive check`")
        # With the broker's time all records of a batch have the same one.
        now = time_type, record.timestamp_ms if time_type else None
        is_full = size >= _BATCH_BYTES or len(records) == _BATCH_ROWS
        if records and (is_full or now != kind or record.offset - records[0].offset > _MAX_DELTA):
            yield _batch(records, kind[0])
            records, size = [], 0
        records.append(record)
        kind, last = now, record.offset
        size += (
            len(record.key or b"") + len(record.value or b"") + sum(len(value or b"") for _, value in record.headers)
        )
    if records:
        yield _batch(records, kind[0])
    if last + 1 < end:
        header = read_header(encode_batch([Record(end - 1)], base_offset=end - 1))
        yield Batch(end - 1, end - 1, 0, bytes(emptied(header)))


def _batch(records: list[Record], time_type: int) -> Batch:
    first = records[0].offset
    kind = TimestampType.LOG_APPEND_TIME if time_type else TimestampType.CREATE_TIME
    data = encode_batch(records, base_offset=first, compression=Compression.LZ4, timestamp_type=kind)
    return Batch(first, records[-1].offset, len(records), data)


def _records(table: Any, files: Sequence[DataFile], partition: int) -> Iterator[tuple[Record, int]]:
    for rows in partition_rows(table, files, partition, COLUMNS):
        for batch in rows.to_batches(max_chunksize=_BATCH_ROWS):
            times = batch["timestamp"].cast(pa.int64()).to_pylist()
            columns = [batch[name].to_pylist() for name in ("offset", "key", "value", "headers", "_timestamp_ms")]
            types = batch["timestamp_type"].to_pylist()
            for offset, key, value, headers, ms, time, time_type in zip(*columns, times, types, strict=True):
                yield Record(offset, time // 1000 if ms is None else ms, key, value, _headers(headers)), time_type


def _headers(entries: list[dict[str, Any]] | None) -> Headers:
    return tuple(
        (
            each["key"] if each["raw_key"] is None else each["raw_key"].decode("utf-8", "surrogateescape"),
            each["value"],
        )
        for each in entries or ()
    )
