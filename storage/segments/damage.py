"""Damage in a segment: bytes that hold no batch, with sound batches before and behind them.

A crash tears only the end of a log. Other damage comes from a disk, a file system or a person, and is never cut off,
because sound batches follow it. Reads pass over it, and a read of an offset that it held raises CorruptBatch. The next
sound batch is searched for byte by byte: its magic, a possible offset, a length that fits, and its CRC must all agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...protocol.records.batch import HEADER_SIZE, BatchHeader, check_crc, read_header
from ...protocol.records.errors import RecordError
from ..errors import UNREADABLE, CorruptBatch, DiskError, UnreadableBatch
from ..files import Disk, File
from .walk import MAX_INT32, readable_bytes

# The position of the magic byte in a batch, and its value.
_MAGIC_AT = 16
_MAGIC = b"\x02"
_WINDOW_BYTES = 1024 * 1024
# A read error loses a whole page, because that is the unit of the page cache.
_SECTOR_BYTES = 4096
WRONG_CRC = "its CRC is wrong"
# Why a batch whose CRC is right counts as damaged: no CRC covers the offset.
MISPLACED = "its offset does not fit between those around it"


@dataclass(slots=True, frozen=True)
class Damage:
    """The bytes [position, end) of the log file `path`, in which no batch can be read."""

    path: Path
    position: int
    end: int
    why: str

    @property
    def size(self) -> int:
        return self.end - self.position

    def error(self) -> CorruptBatch:
        """Return the error that a read which reaches the damage raises."""
        kind = UnreadableBatch if self.is_unreadable else CorruptBatch
        return kind(self.path, self.position, self.why)

    @property
    def is_unreadable(self) -> bool:
        """Whether the disk could not read it, so that nobody knows whether the bytes are sound."""
        return self.why.startswith(UNREADABLE)


def next_sound(disk: Disk, file: File, start: int, end: int, base_offset: int) -> int:
    """Return where the first sound batch at or behind `start` begins, `end` if there is none.

    `base_offset` is the segment's: none of its batches lies below. This reads up to the next sound batch, in the worst
    case the whole segment.
    """
    position, skip = start, _SECTOR_BYTES
    while position + HEADER_SIZE <= end:
        try:
            window = disk.read(file, min(_WINDOW_BYTES, end - position), position)
        except DiskError as error:
            readable = readable_bytes(error, position)
            if readable < HEADER_SIZE:
                # A disk tries for seconds before it gives a sector up: a large hole is passed in growing steps.
                position = (position + readable + skip) // _SECTOR_BYTES * _SECTOR_BYTES
                skip = min(skip * 2, _WINDOW_BYTES)
                continue
            window = disk.read(file, readable, position)
        else:
            skip = _SECTOR_BYTES
        at = window.find(_MAGIC, _MAGIC_AT)
        while at >= 0 and at - _MAGIC_AT + HEADER_SIZE <= len(window):
            candidate = position + at - _MAGIC_AT
            if _is_sound(disk, file, window, at - _MAGIC_AT, candidate, end, base_offset):
                return candidate
            at = window.find(_MAGIC, at + 1)
        if len(window) < HEADER_SIZE:
            break
        # The next window holds the header that the end of this one cuts.
        position += len(window) - HEADER_SIZE + 1
    return end


def _is_sound(disk: Disk, file: File, window: bytes, at: int, position: int, end: int, base_offset: int) -> bool:
    try:
        header = read_header(window, at)
        if not _may_be(header, position, end, base_offset):
            return False
        check_crc(disk.read(file, header.size_bytes, position), 0, header)
    except RecordError:
        return False
    except DiskError as error:
        readable_bytes(error, position)
        return False
    return True


def _may_be(header: BatchHeader, position: int, end: int, base_offset: int) -> bool:
    return (
        position + header.size_bytes <= end
        and header.last_offset_delta >= 0
        and base_offset <= header.base_offset
        and header.last_offset <= base_offset + MAX_INT32
    )
