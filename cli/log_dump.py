"""`odradek log dump`: the batches or records of a segment, or the entries of an index or a producer snapshot.

A file is read from front to back in bounded memory. Promise: the command prints everything before the first damage,
then names the damage with its position, with status 1. So a dump that ends with status 0 has checked every CRC.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any

import click

from ..protocol.errors import KafkaError
from ..protocol.records.batch import BatchHeader, TimestampType, check_crc, iter_records
from ..protocol.records.control import control_type, read_marker
from ..protocol.records.errors import RecordError
from ..protocol.records.record import Record
from ..storage.files import DISK
from ..storage.producer_snapshot import decode as decode_snapshot
from ..storage.segments import walk
from ..storage.segments.segment_indexes import OffsetIndex, TimeIndex
from .errors import CliError, as_cli_error
from .output import Row, TimeText, print_rows, row_options, time_format, time_options
from .record_format import INTERNAL_TOPICS

_BATCH = (
    "base_offset", "last_offset", "count", "position", "size", "codec", "max_timestamp", "timestamp_type",
    "leader_epoch", "producer_id", "producer_epoch", "base_sequence", "transactional", "control",
)  # fmt: skip
_RECORD = ("offset", "timestamp", "key", "value", "headers")
_PRODUCER = ("producer_id", "epoch", "first_sequence", "last_sequence", "first_offset", "last_offset", "timestamp")


@click.command(short_help="Print the batches of a segment, or the entries of an index.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--records", is_flag=True, help="The records of a segment instead of its batches.")
@row_options
@time_options
def command(file: Path, records: bool) -> None:
    """Print the content of FILE: a segment (.log), an index (.index, .timeindex) or a producer snapshot (.snapshot).

    Checks the CRC of every batch. Status 1 if one is wrong.

    \b
    Examples:
      odradek log dump odradek-data/flights-0/00000000000000000000.log
      odradek log dump flights-0/00000000000000000000.log --records --json
      odradek log dump odradek-data/flights-0/00000000000000000000.timeindex
    """
    columns, rows = _reader(file, records)
    with as_cli_error(KafkaError, RecordError):
        print_rows(columns, rows)


def _reader(file: Path, records: bool) -> tuple[tuple[str, ...], Iterator[Row | tuple[Any, ...]]]:
    """Return the columns and rows of a file, by its suffix."""
    if not file.is_file():
        raise CliError(f"{file} is not a file" if file.exists() else f"{file} does not exist")
    if file.suffix == ".log":
        return (_RECORD, _records(file)) if records else (_BATCH, _batches(file))
    if records:
        raise click.UsageError("--records is for segments (.log)")
    match file.suffix:
        case ".index":
            return ("offset", "position"), _index(file, OffsetIndex.ENTRY, ("offset", "position"))
        case ".timeindex":
            return ("timestamp", "offset"), _index(file, TimeIndex.ENTRY, ("timestamp", "offset"))
        case ".snapshot":
            return _PRODUCER, _producers(file)
        case _:
            raise CliError(f"{file}: expected a name that ends in .log, .index, .timeindex or .snapshot")


def _walk(file: Path) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield position, header and bytes of every batch, after a check of its CRC."""
    opened = DISK.open(file, writable=False)
    for position, header, data in walk.batches(DISK, opened, 0, DISK.size(opened)):
        try:
            check_crc(data, 0, header)
        except RecordError as error:
            raise CliError(f"{file} at {position}: {error}") from error
        yield position, header, data


def _batches(file: Path) -> Iterator[tuple[Any, ...]]:
    time_text = time_format()
    for position, header, _ in _walk(file):
        values = (
            header.base_offset, header.last_offset, header.record_count, position, header.size_bytes,
            header.compression.name.lower(), time_text(header.max_timestamp), _clock(header),
            header.partition_leader_epoch, header.producer_id, header.producer_epoch, header.base_sequence,
            header.is_transactional, header.is_control,
        )  # fmt: skip
        yield values


def _clock(header: BatchHeader) -> str:
    return "append" if header.timestamp_type is TimestampType.LOG_APPEND_TIME else "create"


def _records(file: Path) -> Iterator[Row]:
    time_text = time_format()
    topic = file.absolute().parent.name.rpartition("-")[0]
    for position, header, data in _walk(file):
        try:
            for record in iter_records(data, 0, header, check=False):
                row = _record(record, header.is_control, time_text)
                yield row if header.is_control else {**row, **_in_words(topic, record)}
        except RecordError as error:
            raise CliError(f"{file} at {position}: {error}") from error


def _in_words(topic: str, record: Record) -> Row:
    """Return key and value of a record of an internal topic as objects, nothing for others."""
    if topic not in INTERNAL_TOPICS:
        return {}
    from .internal_records import decode

    found = decode(topic, record.key, record.value)
    return {} if found is None else {"key": found[0], "value": found[1]}


def _record(record: Record, control: bool, time_text: TimeText) -> Row:
    row: dict[str, Any] = {"offset": record.offset, "timestamp": time_text(record.timestamp_ms)}
    if not control:
        headers = [f"{name}={(value or b'').decode('utf-8', 'backslashreplace')}" for name, value in record.headers]
        return row | {"key": record.key, "value": record.value, "headers": headers}
    kind = control_type(record).name
    if kind in ("COMMIT", "ABORT"):
        return row | {"key": kind, "value": f"coordinator epoch {read_marker(record).coordinator_epoch}", "headers": []}
    return row | {"key": kind, "value": record.value, "headers": []}


def _index(file: Path, entry: Struct, names: tuple[str, str]) -> Iterator[Row]:
    """Yield the entries of an index, without the zeros that a killed broker leaves behind them."""
    time_text = time_format()
    base_offset = _base_offset(file)
    data = DISK.read_file(file)
    whole = len(data) - len(data) % entry.size
    for number, (first, second) in enumerate(entry.iter_unpack(data[:whole])):
        if number and not first and not second:
            break
        if names[0] == "offset":
            yield {"offset": base_offset + first, "position": second}
        else:
            yield {"timestamp": time_text(first), "offset": base_offset + second}
    if whole != len(data):
        raise CliError(f"{file}: {len(data)} bytes are no whole number of entries of {entry.size} bytes")


def _base_offset(file: Path) -> int:
    if not (file.stem.isascii() and file.stem.isdigit()):
        raise CliError(f"{file}: the name of an index is its base offset in 20 digits; offsets are counted from it")
    return int(file.stem)


def _producers(file: Path) -> Iterator[tuple[Any, ...]]:
    time_text = time_format()
    states = decode_snapshot(DISK.read_file(file), file)
    for producer_id, producer in states.items():
        for batch in producer.batches:
            values = (
                producer_id, producer.epoch, batch.first_sequence, batch.last_sequence,
                batch.last_offset - batch.offset_delta, batch.last_offset, time_text(batch.timestamp_ms),
            )  # fmt: skip
            yield values
