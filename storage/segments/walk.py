"""Walks over a segment's log file, batch by batch, through a window of bounded size.

`headers` looks at headers alone (it skips what lies between them where batches are large), `batches` hands over whole
batches. Both stop at the given end, and raise CorruptBatch with the position where there is no whole v2 batch. Files
are read with pread, not mapped: a bad sector is then an error and does not kill the process, and a copy through the
CPU's cache costs less than a page fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ...protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, check_crc, peek_span, read_header
from ...protocol.records.errors import RecordError
from ..errors import CorruptBatch, DiskError, UnreadableBatch, WrongCrc, is_unreadable
from ..files import Disk, File, forget_around

# How far an offset may lie behind the start of its segment.
MAX_INT32 = 2**31 - 1
# A look-up starts about one index interval before its batch.
LOOKUP_WINDOW_BYTES = 4096
# For a walk over many small batches. Where batches are larger than this, most of the window is read for nothing.
HEADER_WINDOW_BYTES = 16 * 1024
# Fits the CPU's cache. A larger batch makes the window grow to its size.
BATCH_WINDOW_BYTES = 1024 * 1024


def cached_headers(disk: Disk, file: File, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield as `headers` does, from the page cache alone. Raises NotCached where a header is not in it."""
    return _headers(partial(disk.read_cached, file), file, start, end, LOOKUP_WINDOW_BYTES)


def find_adjoining(
    disk: Disk, file: File, entry: tuple[int, int], end: int, due: int, offset: int
) -> tuple[int, BatchHeader] | None:
    """Return position and header of the batch that holds `offset`, over batches without a gap between them.

    The walk begins at `entry`, (offset, position) of the offset index; `due` is the first batch's base offset, -1 where
    it is not known. Returns None where the walk meets anything else than what most logs hold: a gap, damage, an entry
    that is wrong. `cached_headers` then tells what is there. Raises NotCached.

    One loop over four fields: a step takes a fifth of the time of `cached_headers`, and a look-up walks a dozen.
    """
    entry_offset, position = entry
    # As in Segment._first_reaching: the batch at an entry, or the last of several, ends with the entry's offset.
    end_offset = entry_offset if position else -1
    held_from, held = position, bytearray()
    wanted = LOOKUP_WINDOW_BYTES
    while position < end:
        at = position - held_from
        if at + HEADER_SIZE > len(held):
            held = disk.read_cached(file, min(wanted, end - position), position)
            held_from, at = position, 0
            if len(held) < HEADER_SIZE:
                return None
        base_offset, length, magic, delta = peek_span(held, at)
        size = length + LOG_OVERHEAD
        last_offset = base_offset + delta
        is_usual = magic == MAGIC and size >= HEADER_SIZE and position + size <= end and delta >= 0
        if not is_usual or (base_offset != due and due >= 0) or 0 <= end_offset < last_offset:
            return None
        if last_offset >= offset:
            return position, read_header(held, at)
        if last_offset == end_offset:
            end_offset = -1
        due = last_offset + 1
        wanted = HEADER_SIZE if size >= LOOKUP_WINDOW_BYTES else LOOKUP_WINDOW_BYTES
        position += size
    return None


def headers(
    disk: Disk, file: File, start: int, end: int, window: int = HEADER_WINDOW_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of every batch in [start, end) of `file`."""
    return _headers(partial(_read, disk, file), file, start, end, window)


def _headers(
    read: Callable[[int, int], bytes | bytearray], file: File, start: int, end: int, window: int
) -> Iterator[tuple[int, BatchHeader]]:
    position, held_from, held, wanted = start, start, b"", window
    while position < end:
        at = position - held_from
        if at + HEADER_SIZE > len(held):
            held_from, held, at = position, read(min(wanted, end - position), position), 0
        header = _header(held, at, file, position, end)
        yield position, header
        size = header.size_bytes
        # Another large batch may follow: reading more than its header would be for nothing.
        wanted = HEADER_SIZE if size >= window else window
        position += size


def batches(disk: Disk, file: File, start: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield (position, header, bytes) of every batch in [start, end) of `file`.

    The bytes are valid until the next step.
    """
    buffer = memoryview(bytearray(min(BATCH_WINDOW_BYTES, max(end - start, 1))))
    position, held_from, held = start, start, 0
    while position < end:
        at = position - held_from
        if at + HEADER_SIZE > held:
            held, held_from, at = _refill(disk, file, buffer, at, held, position, end, HEADER_SIZE), position, 0
        header = _header(buffer[:held], at, file, position, end)
        size = header.size_bytes
        if at + size > held:
            if size > len(buffer):
                larger = memoryview(bytearray(size))
                larger[: held - at] = buffer[at:held]
                held, at, buffer = held - at, 0, larger
            held, held_from, at = _refill(disk, file, buffer, at, held, position, end, size), position, 0
            if held < size:
                raise CorruptBatch(file.path, position, f"torn: {size} bytes announced, {held} there")
        yield position, header, buffer[at : at + size]
        position += size


def check(
    path: Path, position: int, header: BatchHeader, batch: memoryview, due_offset: int, segment_offset: int
) -> None:
    """Raise CorruptBatch if a batch's CRC is wrong, or if its offsets cannot be.

    It begins at `due_offset` or later, in a segment that begins at `segment_offset`.
    """
    check_offsets(path, position, header, due_offset, segment_offset)
    try:
        check_crc(batch, 0, header)
    except RecordError as error:
        raise WrongCrc(path, position, str(error)) from error


def check_offsets(path: Path, position: int, header: BatchHeader, due_offset: int, segment_offset: int) -> None:
    """Raise CorruptBatch if a batch begins below `due_offset`, or too far behind the start of its segment."""
    if header.base_offset < due_offset:
        raise CorruptBatch(path, position, f"offset {header.base_offset} where {due_offset} or more was due")
    if header.last_offset - segment_offset > MAX_INT32:
        why = f"offset {header.last_offset} in a segment that begins at {segment_offset}"
        raise CorruptBatch(path, position, why)


def readable_bytes(error: DiskError, position: int) -> int:
    """Return how many bytes from `position` on a failed read could have returned. Raises `error` if it is another."""
    if not is_unreadable(error):
        raise error
    return 0 if error.position is None else max(error.position - position, 0)


def _read(disk: Disk, file: File, size: int, position: int) -> bytes:
    """Return the bytes up to the first that the disk cannot read. Raises UnreadableBatch where no header is left."""
    try:
        return disk.read(file, size, position)
    except DiskError as error:
        readable = readable_bytes(error, position)
    if readable >= HEADER_SIZE:
        return _read(disk, file, min(readable, size - 1), position)
    # What cannot be read may lie behind the header, in the same folio.
    forget_around(disk, file, HEADER_SIZE, position)
    try:
        return disk.read(file, min(size, HEADER_SIZE), position)
    except DiskError as error:
        readable_bytes(error, position)
        raise UnreadableBatch.of(file.path, position, error) from error


def _refill(
    disk: Disk, file: File, buffer: memoryview, at: int, held: int, position: int, end: int, needed: int
) -> int:
    """Fill `buffer` with the bytes from the batch at `position` on, and return how many there are.

    The bytes that it holds already, from `at` up to `held`, are moved and not read again. Where the disk cannot read
    all of them, `needed` bytes are enough; raises UnreadableBatch without these.
    """
    kept = max(held - at, 0)
    buffer[:kept] = buffer[at : at + kept]
    wanted = min(len(buffer), end - position)
    enough, is_forgotten = min(needed, wanted), False
    while True:
        try:
            return kept + disk.read_into(file, buffer[kept:wanted], position + kept)
        except DiskError as error:
            readable = kept + readable_bytes(error, position + kept)
            if readable >= enough:
                wanted = min(readable, wanted - 1)
                continue
            if is_forgotten:
                raise UnreadableBatch.of(file.path, position, error) from error
            # What cannot be read may lie behind the batch, in the same folio.
            forget_around(disk, file, enough, position)
            wanted, is_forgotten = enough, True


def _header(held: bytes | bytearray | memoryview, at: int, file: File, position: int, end: int) -> BatchHeader:
    """Return the header at `at`. Raises CorruptBatch if its batch does not end by `end`."""
    try:
        header = read_header(held, at)
    except RecordError as error:
        raise CorruptBatch(file.path, position, _why(held, at, error)) from error
    if position + header.size_bytes > end:
        raise CorruptBatch(file.path, position, f"torn: {header.size_bytes} bytes announced, {end - position} there")
    # A wrong base offset is found by a comparison with the neighbours: no CRC covers it, and the rest may be sound.
    if header.last_offset_delta < 0:
        raise CorruptBatch(file.path, position, f"a last offset delta of {header.last_offset_delta} cannot be")
    return header


def _why(held: bytes | bytearray | memoryview, at: int, error: RecordError) -> str:
    if len(held) - at < HEADER_SIZE:
        return f"torn: {len(held) - at} bytes where a header should be"
    if not any(held[at : at + HEADER_SIZE]):
        return "zeros where a batch should be"
    return str(error)
