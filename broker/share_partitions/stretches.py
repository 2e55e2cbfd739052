"""Stretches: what the share group has done with the records of a partition, as neighbours of the same state.

A record that no stretch covers was never delivered. A stretch may be cut in two. One that waits for the share
coordinator (`before`) may not, because the change under way knows it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter
from typing import NamedTuple


class RecordState(IntEnum):
    """What became of a record, with Kafka's numbers."""

    # Nobody holds it: the next fetch acquires it.
    AVAILABLE = 0
    # A member holds it until it acknowledges, its lock ends, or its session does.
    ACQUIRED = 1
    # A member has accepted it.
    ACKNOWLEDGED = 2
    # It is delivered no more, and is being written to the topic of dead letters.
    ARCHIVING = 3
    # It is delivered no more: rejected, a gap in the log, or delivered as often as is allowed.
    ARCHIVED = 4


# Records in these states are done with.
TERMINAL = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
_LAST = attrgetter("last")


class Before(NamedTuple):
    """What a stretch was before the change under way."""

    state: RecordState
    member: str


class InFlightBatch(NamedTuple):
    """The records that were acquired at once when they were delivered first, both offsets included."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


@dataclass(slots=True)
class Stretch:
    """Neighbouring records of the same state, both offsets included."""

    first: int
    last: int
    state: RecordState
    # How often the records were delivered.
    delivery_count: int
    # Parts of one batch are delivered together again.
    batch: InFlightBatch
    # Who holds them; empty unless they are ACQUIRED.
    member: str = ""
    # When the lock ends, by the monotonic clock. It counts while they are ACQUIRED.
    deadline_ms: int = 0
    # None: no change is under way.
    before: Before | None = None
    # Whether a member has rejected them; otherwise they were delivered as often as is allowed. It counts while they are
    # ARCHIVING.
    is_rejected: bool = False

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def is_available(self) -> bool:
        """Whether a member may acquire them now."""
        return self.state is RecordState.AVAILABLE and self.before is None

    @property
    def is_held(self) -> bool:
        """Whether a member holds them, and has not acknowledged yet."""
        return self.state is RecordState.ACQUIRED and self.before is None

    @property
    def is_done(self) -> bool:
        """Whether they are never delivered again, whatever happens."""
        return self.state in TERMINAL and self.before is None


class Stretches:
    """The stretches of one partition, in order of their offsets and without overlaps."""

    def __init__(self) -> None:
        self._stretches: list[Stretch] = []

    def __iter__(self) -> Iterator[Stretch]:
        return iter(self._stretches)

    @property
    def end(self) -> int | None:
        """The last offset that is covered; None where nothing is."""
        return self._stretches[-1].last if self._stretches else None

    def reaching(self, offset: int) -> Stretch | None:
        """Return the stretch that covers `offset`, or else the first one behind it."""
        place = bisect_left(self._stretches, offset, key=_LAST)
        return self._stretches[place] if place < len(self._stretches) else None

    def over(self, first: int, last: int) -> list[Stretch]:
        """Return the stretches that cover any of these records."""
        start = bisect_left(self._stretches, first, key=_LAST)
        end = bisect_left(self._stretches, last, lo=start, key=_LAST)
        if end < len(self._stretches) and self._stretches[end].first <= last:
            end += 1
        return self._stretches[start:end]

    def gaps(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the ranges of these records that no stretch covers."""
        found: list[tuple[int, int]] = []
        for stretch in self.over(first, last):
            if stretch.first > first:
                found.append((first, stretch.first - 1))
            first = stretch.last + 1
        if first <= last:
            found.append((first, last))
        return found

    def cut(self, first: int, last: int) -> list[Stretch]:
        """Return the stretches of exactly these records, cut where one reaches further."""
        self._cut_before(first)
        self._cut_before(last + 1)
        return self.over(first, last)

    def _cut_before(self, offset: int) -> None:
        place = bisect_left(self._stretches, offset, key=_LAST)
        if place == len(self._stretches) or self._stretches[place].first >= offset:
            return
        stretch = self._stretches[place]
        assert stretch.before is None, "a stretch that waits for the share coordinator cannot be cut"
        # As `replace` does, which takes five times as long: an acknowledgement may cut thousands.
        rest = Stretch(offset, stretch.last, stretch.state, stretch.delivery_count, stretch.batch)
        rest.member, rest.deadline_ms, rest.is_rejected = stretch.member, stretch.deadline_ms, stretch.is_rejected
        self._stretches.insert(place + 1, rest)
        stretch.last = offset - 1

    def add(self, stretch: Stretch) -> None:
        """Put in a stretch over records that none covers."""
        stretches = self._stretches
        if not stretches or stretches[-1].last < stretch.first:
            stretches.append(stretch)
        else:
            stretches.insert(bisect_left(stretches, stretch.first, key=_LAST), stretch)

    def drop_below(self, offset: int) -> None:
        """Forget the records below `offset`."""
        del self._stretches[: bisect_left(self._stretches, offset, key=_LAST)]
        if self._stretches and self._stretches[0].first < offset:
            self._stretches[0].first = offset

    def join_done(self, first: int, last: int) -> None:
        """Make one stretch of neighbours that are done with in the same way, around these records."""
        start = max(bisect_left(self._stretches, first, key=_LAST) - 1, 0)
        end = min(bisect_left(self._stretches, last, key=_LAST) + 2, len(self._stretches))
        joined: list[Stretch] = []
        for stretch in self._stretches[start:end]:
            neighbour = joined[-1] if joined else None
            if neighbour is not None and _are_alike(neighbour, stretch):
                neighbour.last = stretch.last
            else:
                joined.append(stretch)
        self._stretches[start:end] = joined


def _are_alike(left: Stretch, right: Stretch) -> bool:
    is_next = left.last + 1 == right.first
    return is_next and left.is_done and right.is_done and left.state is right.state
