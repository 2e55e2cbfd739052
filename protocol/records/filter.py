"""A v2 batch with some of its records left out: what compaction writes in the place of the batch that it read.

Base offset, last offset delta, producer, sequence and leader epoch stay, so that no offset changes and a producer is
remembered by its last batch even when no record of it is left (a batch of 0 records, Kafka's too). Records that stay
keep their bytes, for nothing in them counts from anything that changes; only a delete horizon (KIP-534: bit 6, the base
timestamp is when the tombstones may go) has their timestamp deltas written again.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple, cast

from .batch import HEADER_SIZE, BatchHeader, TimestampType, with_body
from .columns import Columns, iter_columns
from .compression import Compression, compress, decompress
from .record import NO_SIZE_LIMIT, NO_TIMESTAMP, check_sizes, encode_varint, read_long_varint, record_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DELETE_HORIZON = 0x40


class Part(NamedTuple):
    """A record where it lies in its batch's decompressed body."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    has_value: bool  # Invariant: False for a tombstone
    start: int  # where its length begins
    end: int


class Keys(NamedTuple):
    """The keys of some records that follow each other. Records without a key are left out."""

    offsets: list[int]
    keys: list[bytes]
    has_tombstone: bool


# So many records of a batch are in memory at once: a batch of a few KiB may decompress to millions.
RECORDS_A_RUN = 1000

# A named tuple made without its Python-level constructor, in half the time.
_new_part = cast("Callable[[type[Part], tuple[object, ...]], Part]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]


class Selection:
    """The records of a batch that stay, `add`ed in order: runs of bytes of the body, not an object for each record.

    A batch of a few KiB may decompress to millions of records. Eight bytes a run are less than the records of it.
    """

    __slots__ = ("count", "has_tombstone", "max_timestamp_ms", "runs")

    def __init__(self) -> None:
        self.count = 0
        self.has_tombstone = False
        self.max_timestamp_ms = NO_TIMESTAMP
        # Start, end, start, end ... Invariant: ascending; MAX_DECOMPRESSED_BYTES fits into 32 bits.
        self.runs = array("I")

    def add(self, part: Part) -> None:
        """Let a record stay."""
        runs = self.runs
        if runs and runs[-1] == part.start:
            runs[-1] = part.end
        else:
            runs.append(part.start)
            runs.append(part.end)
        self.max_timestamp_ms = part.timestamp_ms if not self.count else max(self.max_timestamp_ms, part.timestamp_ms)
        self.count += 1
        self.has_tombstone |= not part.has_value


def body_of(batch: memoryview, header: BatchHeader, most_record_bytes: int = NO_SIZE_LIMIT) -> bytes:
    """Return the records' bytes of a whole batch, decompressed.

    Raises RecordError, RecordTooLarge where a compressed record has more than `most_record_bytes`.
    """
    body = decompress(header.compression, batch[HEADER_SIZE : header.size_bytes])
    if most_record_bytes < NO_SIZE_LIMIT and header.compression is not Compression.NONE:
        check_sizes(body, header.record_count, most_record_bytes)
    return body


def iter_keys(body: bytes, header: BatchHeader) -> Iterator[Keys]:
    """Yield the keys of the records in `body`, run by run. Raises InvalidRecord."""
    for offsets, _, keys, values, _ in _runs(body, header):
        if None in keys:
            keyed = [index for index, key in enumerate(keys) if key is not None]
            offsets, values = [offsets[index] for index in keyed], [values[index] for index in keyed]
        yield Keys(offsets, [key for key in keys if key is not None], None in values)


def iter_parts(body: bytes, header: BatchHeader) -> Iterator[Part]:
    """Yield where each record lies in `body`. Raises InvalidRecord."""
    start = 0
    for offsets, timestamps, keys, values, _ in _runs(body, header):
        ends = record_ends(body, start, len(offsets))
        for offset, timestamp_ms, key, value, end in zip(offsets, timestamps, keys, values, ends, strict=True):
            yield _new_part(Part, (offset, timestamp_ms, key, value is not None, start, end))
            start = end


def _runs(body: bytes, header: BatchHeader) -> Iterator[Columns]:
    return iter_columns(body, header.record_count, header.base_offset, header.base_timestamp, RECORDS_A_RUN)


def with_selection(
    header: BatchHeader, body: bytes, selection: Selection, delete_horizon_ms: int | None = None
) -> bytearray:
    """Return the batch with the selected records only, at least one.

    `delete_horizon_ms`: when its tombstones may go. A batch that has a horizon already keeps it.
    """
    if header.timestamp_type is TimestampType.CREATE_TIME:
        header = header._replace(max_timestamp=selection.max_timestamp_ms)
    kept, view, runs = bytearray(), memoryview(body), selection.runs
    for at in range(0, len(runs), 2):
        if delete_horizon_ms is None:
            kept += view[runs[at] : runs[at + 1]]
        else:
            _rebase(kept, body, runs[at], runs[at + 1], header.base_timestamp - delete_horizon_ms)
    if delete_horizon_ms is not None:
        attributes = header.attributes | _DELETE_HORIZON
        header = header._replace(attributes=attributes, base_timestamp=delete_horizon_ms)
    compression = header.compression
    return with_body(header._replace(record_count=selection.count), compress(compression, kept), compression)


def emptied(header: BatchHeader) -> bytearray:
    """Return the batch without a record: its offsets, its producer and its sequence are what it still says."""
    attributes = header.attributes & ~_DELETE_HORIZON
    bare = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0)
    return with_body(bare, b"", Compression.NONE)


def _rebase(out: bytearray, body: bytes, start: int, end: int, shift_ms: int) -> None:
    """Append the records in [start, end) of `body` to `out`, their timestamp deltas larger by `shift_ms`."""
    while start < end:
        number, position = read_long_varint(body, start)
        start = position + (number >> 1)
        late, rest = read_long_varint(body, position + 1)
        delta_ms = encode_varint(((late >> 1) ^ -(late & 1)) + shift_ms)
        out += encode_varint(1 + len(delta_ms) + start - rest)
        out += b"\0"
        out += delta_ms
        out += body[rest:start]
