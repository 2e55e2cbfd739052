"""Runs: what the share group has done with the records of a partition, as neighbours of the same state.

A record that no run covers was never delivered. A run may be cut in two; a run that waits for the share coordinator
(`before`) may not, because the change under way knows it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
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
    # It is delivered no more: rejected, a gap in the log, or delivered as often as is allowed.
    ARCHIVED = 4


# Records in these states are done with.
TERMINAL = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
_LAST = attrgetter("last")


class Before(NamedTuple):
    """What a run was before the change under way."""

    state: RecordState
    member: str


class Batch(NamedTuple):
    """The records that were acquired at once when they were delivered first, both offsets included."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


@dataclass(slots=True)
class Run:
    """Neighbouring records of the same state, both offsets included."""

    first: int
    last: int
    state: RecordState
    # How often the records were delivered.
    delivery_count: int
    # Parts of one batch are delivered together again.
    batch: Batch
    # Who holds them; empty unless they are ACQUIRED.
    member: str = ""
    # When the lock ends, by the monotonic clock. It counts while they are ACQUIRED.
    deadline_ms: int = 0
    # None: no change is under way.
    before: Before | None = None

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


class Runs:
    """The runs of one partition, in order of their offsets and without overlaps."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def end(self) -> int | None:
        """The last offset that is covered; None where nothing is."""
        return self._runs[-1].last if self._runs else None

    def reaching(self, offset: int) -> Run | None:
        """Return the run that covers `offset`, or else the first one behind it."""
        place = bisect_left(self._runs, offset, key=_LAST)
        return self._runs[place] if place < len(self._runs) else None

    def over(self, first: int, last: int) -> list[Run]:
        """Return the runs that cover any of these records."""
        start = bisect_left(self._runs, first, key=_LAST)
        end = bisect_left(self._runs, last, lo=start, key=_LAST)
        if end < len(self._runs) and self._runs[end].first <= last:
            end += 1
        return self._runs[start:end]

    def gaps(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the ranges of these records that no run covers."""
        found: list[tuple[int, int]] = []
        for run in self.over(first, last):
            if run.first > first:
                found.append((first, run.first - 1))
            first = run.last + 1
        if first <= last:
            found.append((first, last))
        return found

    def cut(self, first: int, last: int) -> list[Run]:
        """Return the runs of exactly these records, cut where one reaches further."""
        self._cut_before(first)
        self._cut_before(last + 1)
        return self.over(first, last)

    def _cut_before(self, offset: int) -> None:
        place = bisect_left(self._runs, offset, key=_LAST)
        if place == len(self._runs) or self._runs[place].first >= offset:
            return
        run = self._runs[place]
        assert run.before is None, "a run that waits for the share coordinator cannot be cut"
        self._runs.insert(place + 1, replace(run, first=offset))
        run.last = offset - 1

    def add(self, run: Run) -> None:
        """Put in a run over records that none covers."""
        runs = self._runs
        if not runs or runs[-1].last < run.first:
            runs.append(run)
        else:
            runs.insert(bisect_left(runs, run.first, key=_LAST), run)

    def drop_below(self, offset: int) -> None:
        """Forget the records below `offset`."""
        del self._runs[: bisect_left(self._runs, offset, key=_LAST)]
        if self._runs and self._runs[0].first < offset:
            self._runs[0].first = offset

    def join_done(self, first: int, last: int) -> None:
        """Make one run of neighbours that are done with in the same way, around these records."""
        start = max(bisect_left(self._runs, first, key=_LAST) - 1, 0)
        end = min(bisect_left(self._runs, last, key=_LAST) + 2, len(self._runs))
        joined: list[Run] = []
        for run in self._runs[start:end]:
            neighbour = joined[-1] if joined else None
            if neighbour is not None and _are_alike(neighbour, run):
                neighbour.last = run.last
            else:
                joined.append(run)
        self._runs[start:end] = joined


def _are_alike(left: Run, right: Run) -> bool:
    is_next = left.last + 1 == right.first
    return is_next and left.is_done and right.is_done and left.state is right.state
