"""Damage in a segment: bytes that hold no batch, with sound batches before and behind them.

A crash tears only the end of a log. Other damage comes from a disk, a file system or a person, and is never cut off,
because sound batches follow it. Reads pass over it, and a read of an offset that it held raises CorruptBatch.
damage_end.py tells where the next sound batch begins.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ..errors import UNREADABLE, CorruptBatch, UnreadableBatch

WRONG_CRC = "its CRC is wrong"
# Why the last batch of a log counts as damaged that a start had taken as the stop before it knew it.
CHANGED = "the log does not end as the last stop has left it"
# Why a batch whose CRC is right counts as damaged: no CRC covers the offset.
MISPLACED = "its offset does not fit between those around it"


class Damage(NamedTuple):
    """The bytes [position, end) of the log file `path`, in which no batch can be read."""

    path: Path
    position: int
    end: int
    why: str

    @property
    def size(self) -> int:
        return self.end - self.position

    def covers(self, other: Damage) -> bool:
        """Return whether all bytes of another damage lie in this one."""
        return other.path == self.path and self.position <= other.position and other.end <= self.end

    def error(self) -> CorruptBatch:
        """Return the error that a read which reaches the damage raises."""
        kind = UnreadableBatch if self.is_unreadable else CorruptBatch
        return kind(self.path, self.position, self.why)

    @property
    def is_unreadable(self) -> bool:
        """Whether the disk could not read it, so that nobody knows whether the bytes are sound."""
        return self.why.startswith(UNREADABLE)
