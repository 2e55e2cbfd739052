"""Where damage ends: the search for the next sound batch behind it.

A record's value may hold whole batches: a copy of a segment, say. Their CRCs are right, but they are no batches of this
log. So a sound CRC alone tells nothing; a candidate must also follow from what lies around it:

1. The damaged batch ends where its CRC agrees: then only its length, magic, epoch or offset is wrong.
2. Otherwise it ends where its header says, if a batch begins there. Where its magic is right as well, nothing that lies
   inside counts.
3. Otherwise the candidate counts from which whole batches follow each other up to an entry of the offset index, or to
   the end of the file. Batches inside a value end with the value, and no batch begins there.
4. Where none of these tells, because another damage follows before the next index entry, the first candidate counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from struct import Struct

from ...protocol.records.batch import HEADER_SIZE, BatchHeader, check_crc, read_header
from ...protocol.records.crc import crc32c
from ...protocol.records.errors import RecordError
from ..errors import CorruptBatch, DiskError
from ..files import Disk, File, read_surely
from . import walk
from .walk import MAX_INT32, readable_bytes

# Length, leader epoch, magic and CRC of a batch; they follow its offset, and the CRC covers what follows them.
_FIXED = Struct(">iibI")
_FIXED_AT = 8
_CRC_FROM = _FIXED_AT + _FIXED.size
_OVERHEAD = 12
_MAGIC_AT = 16
_MAGIC = b"\x02"
_WINDOW_BYTES = 1024 * 1024
# What a disk cannot read is lost by the page, which is the unit of the page cache.
_SECTOR_BYTES = 4096
# So many of them are tried one by one: sound batches may lie between some that cannot be read.
_SINGLE_STEPS = 8
# Behind a candidate that may end the damage, so much is searched for one where the CRC of the damaged batch agrees: a
# batch is hardly ever larger.
_DOUBT_BYTES = 4 * 1024 * 1024


def next_sound(
    disk: Disk, file: File, damaged: int, end: int, base_offset: int, starts: Collection[int] = frozenset()
) -> int:
    """Return where the next sound batch behind the damaged one at `damaged` begins, `end` if there is none.

    `base_offset` is the segment's: none of its batches lies below. `starts` are positions of the offset index behind
    the damage. This reads up to the next sound batch, in the worst case the whole segment. Raises DiskError, but not
    for bytes that the disk cannot read.
    """
    return _Search(disk, file, damaged, end, base_offset, starts).run()


class _Search:
    """One search; see the module's text."""

    def __init__(
        self, disk: Disk, file: File, damaged: int, end: int, base_offset: int, starts: Collection[int]
    ) -> None:
        self._disk = disk
        self._file = file
        self._damaged = damaged
        self._end = end
        self._base_offset = base_offset
        self._starts = starts
        # Where the damaged batch ends by its own header; None: the header does not tell.
        self._own_end: int | None = None
        # Up to here nothing counts, because it lies in the damaged batch.
        self._inside_up_to = 0
        # Where the checked bytes of the damaged batch end, and their CRC so far; None: the disk cannot read them.
        self._summed: tuple[int, int] | None = None
        self._crc = 0
        # Candidates that belong to a chain which leads nowhere.
        self._dead: set[int] = set()

    def run(self) -> int:
        self._read_damaged()
        anchored: int | None = None
        first: int | None = None
        for position, header in _candidates(self._disk, self._file, self._damaged + 1, self._end, self._base_offset):
            if position == self._own_end or self._is_end(position):
                return position
            if anchored is not None and (self._summed is None or position > anchored + _DOUBT_BYTES):
                return anchored
            if anchored is not None or position < self._inside_up_to:
                continue
            if self._leads_on(position, header):
                anchored = position
            elif first is None:
                first = position
        if self._inside_up_to == self._end or self._is_end(self._end):
            return self._end
        return next((each for each in (anchored, first) if each is not None), self._end)

    def _read_damaged(self) -> None:
        """Learn what the damaged batch's own header tells."""
        start = self._damaged
        try:
            data = read_surely(self._disk, self._file, _CRC_FROM - _FIXED_AT, start + _FIXED_AT)
        except DiskError as error:
            readable_bytes(error, start)
            return
        if len(data) < _FIXED.size:
            return
        length, _, magic, self._crc = _FIXED.unpack(data)
        self._summed = start + _CRC_FROM, 0
        end = start + _OVERHEAD + length
        if length >= HEADER_SIZE - _OVERHEAD and end <= self._end:
            self._own_end = end
            self._inside_up_to = end if magic == _MAGIC[0] else 0

    def _is_end(self, position: int) -> bool:
        """Return whether the CRC of the damaged batch is that of its bytes up to `position`."""
        if self._summed is None or position < self._damaged + HEADER_SIZE:
            return False
        at, crc = self._summed
        try:
            while at < position:
                data = read_surely(self._disk, self._file, min(_WINDOW_BYTES, position - at), at)
                if not data:
                    break
                at, crc = at + len(data), crc32c(data, crc)
        except DiskError as error:
            readable_bytes(error, at)
            self._summed = None
            return False
        self._summed = at, crc
        return crc == self._crc

    def _leads_on(self, position: int, header: BatchHeader) -> bool:
        """Return whether whole batches follow each other from `position` on up to a known start, or to the end."""
        following = position + header.size_bytes
        if position in self._starts:
            return True
        if position in self._dead:
            self._dead.discard(position)
            self._dead.add(following)
            return False
        try:
            for at, _ in walk.headers(self._disk, self._file, position, self._end):
                if at in self._starts:
                    return True
        except CorruptBatch:
            self._dead.add(following)
            return False
        return True


def _candidates(disk: Disk, file: File, start: int, end: int, base_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of all bytes from `start` on that are a batch of magic 2 with the right CRC."""
    position = start
    while position + HEADER_SIZE <= end:
        window = _window(disk, file, position, end)
        if not window:
            position = _behind_hole(disk, file, position, end)
            continue
        at = window.find(_MAGIC, _MAGIC_AT)
        while at >= 0 and at - _MAGIC_AT + HEADER_SIZE <= len(window):
            candidate = position + at - _MAGIC_AT
            header = _sound_header(disk, file, window, at - _MAGIC_AT, candidate, end, base_offset)
            if header is not None:
                yield candidate, header
            at = window.find(_MAGIC, at + 1)
        if len(window) < HEADER_SIZE:
            break
        # The next window holds the header that the end of this one cuts.
        position += len(window) - HEADER_SIZE + 1


def _window(disk: Disk, file: File, position: int, end: int) -> bytes:
    """Return the bytes from `position` on that can be read at once; none where they are too few for a header."""
    try:
        return disk.read(file, min(_WINDOW_BYTES, end - position), position)
    except DiskError as error:
        readable = readable_bytes(error, position)
    if readable < HEADER_SIZE:
        # The rest of a page, and the next one where a header that begins here reaches into it.
        readable = _SECTOR_BYTES - position % _SECTOR_BYTES
        readable += _SECTOR_BYTES if readable < HEADER_SIZE else 0
    try:
        return read_surely(disk, file, min(readable, end - position), position)
    except DiskError as error:
        readable_bytes(error, position)
        return b""


def _behind_hole(disk: Disk, file: File, position: int, end: int) -> int:
    """Return the first page behind `position` that the disk can read, where no header from there can be read.

    A disk tries for seconds before it gives a sector up: a large hole is passed in growing steps, and its end is then
    searched for between the last two.
    """
    at = (position + HEADER_SIZE - 1) // _SECTOR_BYTES * _SECTOR_BYTES
    if at <= position:
        at += _SECTOR_BYTES
    unreadable, step, tries = at - _SECTOR_BYTES, _SECTOR_BYTES, 0
    while at < end and not _is_readable(disk, file, at):
        tries += 1
        step = step * 2 if tries > _SINGLE_STEPS else step
        unreadable, at = at, at + step
    at = min(at, end)
    while at - unreadable > _SECTOR_BYTES:
        middle = unreadable + max((at - unreadable) // 2 // _SECTOR_BYTES, 1) * _SECTOR_BYTES
        if _is_readable(disk, file, middle):
            at = middle
        else:
            unreadable = middle
    return at


def _is_readable(disk: Disk, file: File, position: int) -> bool:
    try:
        read_surely(disk, file, 1, position)
    except DiskError as error:
        readable_bytes(error, position)
        return False
    return True


def _sound_header(
    disk: Disk, file: File, window: bytes, at: int, position: int, end: int, base_offset: int
) -> BatchHeader | None:
    """Return the header at `at` of the window if it may be a batch of this segment and its CRC is right."""
    try:
        header = read_header(window, at)
        if not _may_be(header, position, end, base_offset):
            return None
        check_crc(read_surely(disk, file, header.size_bytes, position), 0, header)
    except RecordError:
        return None
    except DiskError as error:
        readable_bytes(error, position)
        return None
    return header


def _may_be(header: BatchHeader, position: int, end: int, base_offset: int) -> bool:
    return (
        position + header.size_bytes <= end
        and header.last_offset_delta >= 0
        and base_offset <= header.base_offset
        and header.last_offset <= base_offset + MAX_INT32
    )
