"""Offsets of a copied partition: how far the copy has come, and which offset of the target an offset of the source is.

The state of a copy is kept in the target cluster, as committed offsets of a group of its own. The offset is the next
one of the source; the metadata are "TARGET SOURCE0 TARGET0": the target's end offset then, and where both began.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

# Runs in memory: 100,000 gaps take 10 MB. With more, every second one is dropped.
_MAX_RUNS = 100_000


@dataclass(frozen=True, slots=True)
class CopyState:
    """How far a partition was copied: up to `source` and `target`, both exclusive, from `source0` and `target0`."""

    source: int
    target: int
    source0: int
    target0: int

    @property
    def metadata(self) -> str:
        """What stands beside the committed offset."""
        return f"{self.target} {self.source0} {self.target0}"

    @classmethod
    def parse(cls, source: int, metadata: str) -> CopyState | None:
        """Return the state of a committed offset, None if it is not a copy's."""
        words = metadata.split()
        if len(words) != 3 or not all(word.isascii() and word.isdigit() for word in words):
            return None
        return cls(source, *map(int, words))

    @property
    def is_dense(self) -> bool:
        """Whether every offset so far has its record, so that the distance between both offsets is constant."""
        return self.source - self.source0 == self.target - self.target0


@dataclass(slots=True)
class OffsetRuns:
    """The runs of neighbouring records of one partition that this copy has made."""

    state: CopyState
    # (first offset of the source, first of the target, records), by offset.
    runs: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    def add(self, source: int, target: int, records: int) -> None:
        """Note that `records` records from `source` on went to `target` on."""
        if self.runs:
            first, at, count = self.runs[-1]
            if first + count == source and at + count == target:
                self.runs[-1] = first, at, count + records
                return
        self.runs.append((source, target, records))
        if len(self.runs) > _MAX_RUNS:
            del self.runs[1:-1:2]

    def translate(self, offset: int) -> int | None:
        """Return the offset of the target from which a group goes on that would read `offset` of the source next.

        It never lies behind the right one, so nothing is skipped. None if an earlier copy made that part, with gaps.
        """
        began = self.state
        if offset <= began.source0:
            return began.target0
        if offset < began.source or not self.runs:
            if began.is_dense:
                return began.target0 + min(offset, began.source) - began.source0
            return began.target if offset >= began.source else None
        index = bisect_right(self.runs, offset, key=lambda run: run[0]) - 1
        if index < 0:
            return began.target
        first, at, count = self.runs[index]
        return at + min(offset - first, count)
