"""The batches of a segment below the recovery point, as a start after a crash reads them: by their headers.

An fsync has covered these batches, so their CRCs are not checked one by one. A header that does not fit is damage: it
stays, and the batches behind it are searched for. A batch counts once the next header agrees with it, because its own
last offset may be what is wrong. The last batch decides where the tail begins, so its CRC is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..protocol.records.batch import BatchHeader
from .segments.damage import MISPLACED, WRONG_CRC, Damage
from .segments.segment import Segment
from .segments.walk import MAX_INT32

# The position of a batch, and its header.
Batch = tuple[int, BatchHeader]
# Takes a segment, the position of a batch and its header.
TakeBatch = Callable[[Segment, int, BatchHeader], object]


class Tail(NamedTuple):
    """The part of a segment that follows the recovery point."""

    position: int
    # Whether damage reaches past the recovery point: batches before the tail may be missing.
    is_behind_damage: bool


class FlushedBatches:
    """Walks one segment; call `find_tail` once.

    `take` gets each batch in order. `on_damage` is told of each damage below the recovery point.
    """

    def __init__(
        self,
        segment: Segment,
        recovery_point: int,
        take: TakeBatch,
        on_damage: Callable[[Damage], None],
        following: int | None = None,
    ) -> None:
        self._segment = segment
        self._recovery_point = recovery_point
        # Where the next segment begins; None: not known.
        self._following = following
        # No batch below the recovery point ends behind this offset.
        self._limit = min(recovery_point, segment.base_offset + MAX_INT32 + 1)
        self._take = take
        self._on_damage = on_damage
        self._headers = segment.sound_headers(0, on_damage)
        # The end of the last accepted batch.
        self._end = 0
        # The lowest offset that the next batch may have.
        self._due_offset = segment.next_offset
        # Whether offsets are missing between accepted batches: the segment was cleaned, or a batch is damaged.
        self._has_gap = False
        # The last accepted batch, which `take` gets once the next one agrees with it.
        self._last: Batch | None = None

    def find_tail(self) -> Tail:
        """Take the batches below the recovery point, and return where the others begin.

        No header is read behind the first of the others, because what follows may be torn.
        """
        segment = self._segment
        while True:
            if self._end >= segment.size or self._due_offset >= self._recovery_point:
                # No batch follows that the last offset of the last one could disagree with.
                if self._last is None or segment.find_fault(*self._last) is None:
                    break
                self._pass_over(self._last)
                continue
            batch = next(self._headers, None)
            if self._last is not None and segment.damage_at(self._last[0]):
                self._drop_last()
            if batch is None:
                self._end = segment.size
                continue
            if self._fits(batch):
                self._accept(batch)
            elif (wrong := self._find_wrong_crc(batch)) is not None:
                if wrong is batch:
                    self._take_last()
                self._pass_over(wrong)
            elif self._is_misplaced(batch):
                self._pass_over_misplaced(batch)
            elif self._last is not None and segment.find_fault(*self._last) is not None:
                self._pass_over(self._last)
            else:
                self._take_last()
                position, header = batch
                return Tail(position, header.base_offset > self._recovery_point and position > self._end)
        self._take_last()
        return Tail(self._end, is_behind_damage=False)

    def _fits(self, batch: Batch) -> bool:
        """Return whether a batch follows the last one and ends by the recovery point."""
        position, header = batch
        # The usual case comes first: there may be a million batches.
        if header.base_offset == self._due_offset:
            return header.next_offset <= self._limit
        return (
            self._due_offset < header.base_offset
            and header.next_offset <= self._limit
            and not self._segment.is_misplaced(position, header, self._due_offset)
        )

    def _accept(self, batch: Batch) -> None:
        self._take_last()
        position, header = batch
        self._has_gap |= header.base_offset > self._due_offset
        self._due_offset, self._last, self._end = header.next_offset, batch, position + header.size_bytes

    def _take_last(self) -> None:
        if self._last is not None:
            self._take(self._segment, *self._last)

    def _drop_last(self) -> None:
        """Go back to the batches that were taken: the last accepted one is damaged."""
        self._due_offset, self._last = self._segment.next_offset, None

    def _pass_over(self, batch: Batch) -> None:
        """Note that a batch is not sound, and go on behind the damage."""
        damage = self._segment.mark(batch[0], self._segment.find_fault(*batch) or WRONG_CRC)
        self._on_damage(damage)
        self._headers = self._segment.sound_headers(damage.end, self._on_damage)
        self._end = min(self._end, batch[0])
        self._drop_last()

    def _pass_over_misplaced(self, batch: Batch) -> None:
        """Note that the offset of a batch cannot be right, and go on with the next batch."""
        position, header = batch
        self._end = position + header.size_bytes
        self._on_damage(self._segment.mark(position, MISPLACED, self._end))

    def _find_wrong_crc(self, batch: Batch) -> Batch | None:
        """Return the batch whose last offset cannot be right and whose CRC is wrong, None if there is none.

        A batch ends at the recovery point, too: none may reach across it.
        """
        header = batch[1]
        if self._last is not None and header.base_offset < self._due_offset:
            suspect = self._last
        elif header.base_offset < self._recovery_point < header.next_offset:
            suspect = batch
        else:
            return None
        return None if self._segment.find_fault(*suspect) is None else suspect

    def _is_misplaced(self, batch: Batch) -> bool:
        """Return whether the offset of a batch cannot be right, which no CRC covers."""
        position, header = batch
        if self._segment.is_misplaced(position, header, self._due_offset):
            return True
        return position + header.size_bytes >= self._segment.size and self._is_flipped(header)

    def _is_flipped(self, header: BatchHeader) -> bool:
        """Return whether a flipped bit has put the last batch of a segment behind the recovery point.

        Flushed offsets right before it are missing, and with one bit changed the batch would hold them. In a segment
        that was cleaned, they may be missing for another reason, but such a segment ends where the next one begins.
        """
        due = self._due_offset
        return (
            not self._has_gap
            and header.next_offset != self._following
            and due < self._recovery_point < header.next_offset
            and due + header.last_offset_delta < self._recovery_point
            and (header.base_offset ^ due).bit_count() == 1
        )
