"""Where the sound batches of a segment end before an offset or a position, though damage lies there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from ...protocol.records.batch import BatchHeader
from ..errors import CorruptBatch


class SoundEnd(NamedTuple):
    """A position in a segment's log file, and the offset there."""

    position: int
    offset: int


class Batches(Protocol):
    """What is needed of a segment."""

    base_offset: int

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Return the first batch that reaches `offset`. Raises CorruptBatch where damage may have held it."""
        ...

    def sound_headers(self) -> Iterator[tuple[int, BatchHeader]]:
        """Yield every sound batch."""
        ...


def find_cut(segment: Batches, offset: int) -> SoundEnd | None:
    """Return where the batches begin that hold `offset` or later ones; None where there are none.

    Damage that may hold `offset` goes with them.
    """
    try:
        found = segment.find(offset)
    except CorruptBatch:
        return _end_before(segment, lambda _, header: header.last_offset >= offset)
    return None if found is None else SoundEnd(found[0], found[1].base_offset)


def offset_at(segment: Batches, position: int) -> int:
    """Return the offset behind the last sound batch before `position`. It reads every header up to there."""
    return _end_before(segment, lambda start, _: start >= position).offset


def _end_before(segment: Batches, is_behind: Callable[[int, BatchHeader], bool]) -> SoundEnd:
    end = SoundEnd(0, segment.base_offset)
    for position, header in segment.sound_headers():
        if is_behind(position, header):
            break
        end = SoundEnd(position + header.size_bytes, header.next_offset)
    return end
