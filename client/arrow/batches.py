"""Fetched bytes as a table of record batches: which there are, which a reader may see, and their plain records.

scan(bytes) -> (bytes as an array, table of batch headers, why it ended)
readable(table, ...) -> the table without batches that no reader may see
decompressed(source, table) -> sources with tables in which no batch is compressed
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...kernel import door
from ...protocol.records.batch import CONTROL, HEADER_SIZE, MAGIC, read_header
from ...protocol.records.compression import Compression, decompress
from ...protocol.records.crc import crc32c
from ...protocol.records.errors import CorruptCrc, UnsupportedCodec

Bytes = NDArray[np.uint8]
BatchTable = NDArray[np.int64]

# Columns of the table (kernel/arrow.pxi).
POSITION, SIZE, BASE_OFFSET, LAST_OFFSET, COUNT, ATTRIBUTES = 0, 1, 2, 3, 4, 5
BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, CRC, RECORDS_START, RECORDS_END = 6, 7, 8, 9, 10, 11
TABLE_WIDTH = 12

_CODEC_MASK, _TRANSACTIONAL = 0x07, 0x10
_CRC_FROM = 21
# Where the magic stands, and the bytes in front of what a length counts.
_MAGIC_AT, _LENGTH_AT, _OVERHEAD = 16, 8, 12


class Section(NamedTuple):
    """Batches as they arrived. Valid until the next section: the buffer is used again."""

    source: Bytes
    table: BatchTable


class ScanEnd(Enum):
    """Why a scan ended."""

    END = "the bytes end where a batch ends"
    TORN = "the last batch is cut off"
    OLD_MAGIC = "a message of magic 0 or 1 follows"


def scan(records: memoryview) -> tuple[Bytes, BatchTable, ScanEnd]:
    """Find the whole batches in `records`. Raises CorruptBatch, UnsupportedMagic."""
    source = np.frombuffer(records, np.uint8)
    found, table = None, np.empty((len(source) // HEADER_SIZE, TABLE_WIDTH), np.int64)
    if door.compiled is not None:
        found = door.compiled.scan_batches(source, table)
    if found is None:
        table, end = _scan_in_python(source.data)
        return source, table, end
    rows, at = found
    if at < len(source) and _is_old(source.data, at):
        return source, table[:rows], ScanEnd.OLD_MAGIC
    return source, table[:rows], ScanEnd.END if at == len(source) else ScanEnd.TORN


def _scan_in_python(records: memoryview) -> tuple[BatchTable, ScanEnd]:
    rows: list[tuple[int, ...]] = []
    at, end = 0, ScanEnd.END
    while at < len(records):
        if _is_old(records, at):
            end = ScanEnd.OLD_MAGIC
            break
        header = read_header(records, at) if len(records) - at >= HEADER_SIZE else None
        if header is None or header.size_bytes > len(records) - at:
            end = ScanEnd.TORN
            break
        rows.append(
            (
                at, header.size_bytes, header.base_offset, header.last_offset, header.record_count,
                header.attributes & 0xFFFF, header.base_timestamp, header.max_timestamp, header.producer_id,
                header.crc, at + HEADER_SIZE, at + header.size_bytes,
            )
        )  # fmt: skip
        at += header.size_bytes
    return np.array(rows, np.int64).reshape(len(rows), TABLE_WIDTH), end


def _is_old(records: memoryview, at: int) -> bool:
    """Whether a message of magic 0 or 1 begins here. A whole one can be shorter than the header of a batch."""
    left = len(records) - at
    if left <= _MAGIC_AT or records[at + _MAGIC_AT] >= MAGIC:
        return False
    length = int.from_bytes(records[at + _LENGTH_AT : at + _OVERHEAD], "big", signed=True)
    return left >= HEADER_SIZE or left >= _OVERHEAD + length


def next_offset(table: BatchTable) -> int:
    """Return the offset after the last batch of `table`, which must not be empty."""
    return int(table[-1, LAST_OFFSET]) + 1


def first_offset(table: BatchTable) -> int:
    """Return the first offset of `table`, which must not be empty."""
    return int(table[0, BASE_OFFSET])


def scanned_bytes(table: BatchTable) -> int:
    """Return where the last batch of `table` ends in its source; it must not be empty."""
    return int(table[-1, POSITION] + table[-1, SIZE])


def readable(table: BatchTable, start: int, end: int, aborted: Sequence[tuple[int, int]]) -> BatchTable:
    """Return the batches for a reader of [start, end), without control batches and aborted transactions.

    `aborted` holds (first offset, producer id) of each aborted transaction, as the broker returned them. It is empty
    for read_uncommitted.
    """
    keep = (table[:, LAST_OFFSET] >= start) & (table[:, BASE_OFFSET] < end)
    attributes = table[:, ATTRIBUTES]
    control = attributes & CONTROL != 0
    if aborted:
        keep &= ~_in_aborted(table, control, aborted)
    keep &= ~control
    return table if keep.all() else table[keep]


def _in_aborted(table: BatchTable, control: NDArray[np.bool_], aborted: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Mark the batches of aborted transactions: from the first offset to the marker of the producer (KIP-98)."""
    coming = sorted(aborted)
    heapq.heapify(coming)
    open_producers: set[int] = set()
    hidden = np.zeros(len(table), np.bool_)
    for row, batch in enumerate(table):
        while coming and coming[0][0] <= batch[LAST_OFFSET]:
            open_producers.add(heapq.heappop(coming)[1])
        producer = int(batch[PRODUCER_ID])
        if control[row]:
            # Commit or abort: the aborted transaction has ended before its producer ends another one.
            open_producers.discard(producer)
        elif batch[ATTRIBUTES] & _TRANSACTIONAL and producer in open_producers:
            hidden[row] = True
    return hidden


def check_crcs(source: Bytes, table: BatchTable) -> None:
    """Compare the CRC of each batch with that of its bytes. Raises CorruptCrc."""
    view = source.data
    columns = [POSITION, SIZE, CRC]
    for position, size, crc in table[:, columns].tolist():
        computed = crc32c(view[position + _CRC_FROM : position + size])
        if computed != crc:
            raise CorruptCrc(f"batch at byte {position} of a fetch: CRC {crc:#010x}, computed {computed:#010x}")


def decompressed(source: Bytes, table: BatchTable) -> Iterator[tuple[Bytes, BatchTable]]:
    """Yield sources with tables of these batches in which no batch is compressed. Raises RecordError."""
    codecs = table[:, ATTRIBUTES] & _CODEC_MASK
    if not codecs.any():
        yield source, table
        return
    for row, codec in enumerate(codecs.tolist()):
        one = table[row : row + 1]
        yield _decompressed(source, one, codec) if codec else (source, one)


def _decompressed(source: Bytes, table: BatchTable, codec: int) -> tuple[Bytes, BatchTable]:
    """Return the decompressed records of the one batch in `table` as a new source and table. Raises RecordError."""
    if codec > Compression.ZSTD:
        raise UnsupportedCodec(f"compression codec {codec} does not exist")
    start, end = int(table[0, RECORDS_START]), int(table[0, RECORDS_END])
    data = np.frombuffer(decompress(codec, source.data[start:end]), np.uint8)
    table = table.copy()
    table[0, RECORDS_START], table[0, RECORDS_END] = 0, len(data)
    return data, table
