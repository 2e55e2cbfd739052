"""The names of a segment's files: `BASE.log` and its indexes. BASE is the segment's base offset in 20 digits.

An extension behind the suffix says that the file is not, or no longer, part of the log: `BASE.log.cleaned`. All names
are Kafka's.
"""

from __future__ import annotations

from pathlib import Path

from ..files import TEMPORARY_SUFFIX

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
# Every file of a segment, the log first.
SEGMENT_SUFFIXES = (LOG_SUFFIX, *INDEX_SUFFIXES)

# A cleaning is writing the file.
CLEANED_SUFFIX = ".cleaned"
# A cleaning has written the file, and it replaces others (swap.py).
SWAP_SUFFIX = ".swap"
# The segment has left the log; readers may still hold the file. Before the suffix of ours stands a number,
# `BASE.7.log.deleted`: a base offset is cleaned again and again. Kafka has none there.
DELETED_FILE_SUFFIX = ".deleted"
# A deletion, a cleaning or a write that a crash interrupted leaves such files. The log needs nothing that is in them.
LEFTOVER_SUFFIXES = (DELETED_FILE_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)

_DIGITS = 20


def segment_name(base_offset: int) -> str:
    """Return BASE."""
    return f"{base_offset:020d}"


def segment_path(directory: Path, base_offset: int, suffix: str) -> Path:
    """Return the path of one file of a segment."""
    return directory / (segment_name(base_offset) + suffix)


def base_offset_of(name: str, suffix: str) -> int | None:
    """Return the base offset that a file name with this suffix tells, None for any other name."""
    digits = name.removesuffix(suffix)
    return int(digits) if digits != name and len(digits) == _DIGITS and digits.isdecimal() else None
