"""A share partition (KIP-932): what one share group has done with the records of one partition, as a pure machine.

    AVAILABLE -> ACQUIRED       a member fetches: `acquire`
    ACQUIRED -> ACKNOWLEDGED    it accepts
    ACQUIRED -> ARCHIVED        it rejects, or says that there is no such record
    ACQUIRED -> AVAILABLE       it releases, its lock ends (`expire`), or its session does (`release`);
                                ARCHIVED once the records were delivered as often as is allowed
    ACQUIRED -> ARCHIVING       the same, but for a gap, in a group that has dead letters (KIP-1191)
    ARCHIVING -> ARCHIVED       they were written, or given up: `archive`
    AVAILABLE -> ARCHIVED       the log does not have the record any more, or its transaction was aborted

A change goes in two steps. The first marks the records, and nobody else gets at them. The share coordinator then writes
it, and the second step keeps it (`keep`) or takes it back (`undo`). `start_offset` moves over records that are done
with, when a change is kept.

Promise: no record is skipped before it is done with, and no two members hold the same one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ..coordination.share_states.share_state import StateBatch
from .stretches import TERMINAL, Before, InFlightBatch, RecordState, Stretch, Stretches


class AcknowledgeType(IntEnum):
    """What a member says of a record that it holds, with Kafka's numbers."""

    # The log has no such record.
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    # The lock begins again.
    RENEW = 4


_STATES = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVING,
}


class Limits(NamedTuple):
    """The configs of a share group that its partitions go by."""

    lock_ms: int
    max_deliveries: int
    max_locks: int
    may_renew: bool
    # Whether records that nobody can process become dead letters.
    has_dead_letters: bool = False

    @property
    def suspect_deliveries(self) -> int:
        """The number of deliveries from which on a record is suspected to break its consumers."""
        return max(2, -(-self.max_deliveries // 2))


class Span(NamedTuple):
    """A batch of the log, both offsets included."""

    first: int
    last: int
    # Whether its transaction was aborted, and the group reads what is committed.
    is_aborted: bool = False


_FIRST, _LAST = attrgetter("first"), attrgetter("last")


class Wish(NamedTuple):
    """What a fetch wants of one partition."""

    member: str
    max_records: int
    # Acquired records are told in pieces of about this size.
    batch_size: int
    # Whether `max_records` is never exceeded. Otherwise the batches of the log are taken whole.
    is_strict: bool


class Acquired(NamedTuple):
    """Records that a fetch has acquired, both offsets included."""

    first: int
    last: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """What a member says of neighbouring records: one type for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class DeadLetters(NamedTuple):
    """Neighbouring records that are delivered no more, both offsets included, and why."""

    first: int
    last: int
    delivery_count: int
    is_rejected: bool

    @property
    def size(self) -> int:
        return self.last - self.first + 1


@dataclass(slots=True)
class Change:
    """A change that is not kept yet."""

    # Invariant: each has its `before` set, until the change is kept or taken back.
    stretches: list[Stretch] = field(default_factory=list[Stretch])

    def batches(self) -> list[StateBatch]:
        """Return what is to be written, in order; neighbours alike are one."""
        found: list[StateBatch] = []
        for stretch in sorted(self.stretches, key=_FIRST):
            last = found[-1] if found else None
            if (
                last is not None
                and last.last_offset + 1 == stretch.first
                and last[2:] == (stretch.state, stretch.delivery_count)
            ):
                found[-1] = last._replace(last_offset=stretch.last)
            else:
                found.append(StateBatch(stretch.first, stretch.last, stretch.state, stretch.delivery_count))
        return found


class SharePartition:
    """See the module's text. Times are of the monotonic clock, in milliseconds."""

    def __init__(self, start_offset: int, batches: Iterable[StateBatch] = ()) -> None:
        # The first record that is not done with.
        self.start_offset = start_offset
        self._stretches = Stretches()
        # Invariant: no record below it can be acquired now.
        self._search_from = start_offset
        for first, last, state, count in batches:
            if last >= start_offset:
                first = max(first, start_offset)
                self._stretches.add(Stretch(first, last, RecordState(state), count, InFlightBatch(first, last)))
        self._move_start()

    # -- What there is -----------------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        """The last record that was ever delivered; `start_offset - 1` where none was."""
        end = self._stretches.end
        return self.start_offset - 1 if end is None else end

    @property
    def delivery_complete_count(self) -> int:
        """How many records behind the start offset are done with, changes under way included."""
        return sum(stretch.size for stretch in self._stretches if stretch.state in TERMINAL)

    def dead_letters(self, stretches: Iterable[Stretch] | None = None) -> list[DeadLetters]:
        """Return what is to be written as dead letters: all of it, or what of these stretches a change has left."""
        left = [
            DeadLetters(each.first, each.last, each.delivery_count, each.is_rejected)
            for each in (self._stretches if stretches is None else stretches)
            if each.state is RecordState.ARCHIVING and each.before is None and each.last >= self.start_offset
        ]
        return sorted(left)

    def stretches(self) -> Iterable[Stretch]:
        """Return the stretches, in order of their offsets."""
        return self._stretches

    def next_fetch_offset(self) -> int:
        """Return the first record that can be acquired, if the log has it."""
        offset = max(self._search_from, self.start_offset)
        while (
            (stretch := self._stretches.reaching(offset)) is not None
            and stretch.first <= offset
            and not stretch.is_available
        ):
            offset = stretch.last + 1
        self._search_from = offset
        return offset

    def can_acquire(self, limits: Limits) -> bool:
        """Return whether the limit on records in flight lets a member acquire anything."""
        return self.end_offset - self.start_offset + 1 < limits.max_locks or (
            self.next_fetch_offset() <= self.end_offset
        )

    def reach(self, max_records: int, limits: Limits) -> int:
        """Return the last record that a fetch of so many may acquire, up to the end of its batch."""
        following = max(self.end_offset + 1, self.next_fetch_offset())
        return following + min(max_records, limits.max_locks) - 1

    # -- Acquire -----------------------------------------------------------------------------------------

    def acquire(self, wish: Wish, offset: int, spans: Sequence[Span], limits: Limits, now_ms: int) -> list[Acquired]:
        """Give a member records of the batches `spans`, which the log has from `offset` on.

        What the log does not have before the first batch is archived, and so are aborted batches.
        """
        bounds = self._bounds(wish, offset, spans, limits)
        if bounds is None:
            return []
        wanted, last = bounds
        self._archive(offset, spans[0].first - 1)
        first = max(min(offset, spans[0].first), self.start_offset)
        acquisition = _Acquisition(self._stretches, wish._replace(max_records=wanted), spans, limits, now_ms)
        acquisition.walk(first, last)
        acquired = self._without_aborted(acquisition.acquired, [span for span in spans if span.is_aborted])
        self._move_start()
        return acquired

    def _without_aborted(self, acquired: list[Acquired], aborted: list[Span]) -> list[Acquired]:
        """Archive what was acquired of aborted batches, and return the rest. As in Kafka it counts as acquired."""
        if not aborted:
            return acquired
        left: list[Acquired] = []
        for each in acquired:
            first = each.first
            start = bisect_left(aborted, first, key=_LAST)
            for span in aborted[start : bisect_right(aborted, each.last, lo=start, key=_FIRST)]:
                if first < span.first:
                    left.append(each._replace(first=first, last=span.first - 1))
                self._archive_acquired(max(first, span.first), min(each.last, span.last))
                first = span.last + 1
            if first <= each.last:
                left.append(each._replace(first=first))
        return left

    def _archive_acquired(self, first: int, last: int) -> None:
        for stretch in self._stretches.cut(first, last):
            stretch.state, stretch.member = RecordState.ARCHIVED, ""
        self._stretches.join_done(first, last)

    def _bounds(self, wish: Wish, offset: int, spans: Sequence[Span], limits: Limits) -> tuple[int, int] | None:
        """Return how many records, and up to which one; None where nothing may be acquired."""
        if wish.max_records <= 0 or not spans or spans[-1].last < self.start_offset:
            return None
        end, last = self.end_offset, spans[-1].last
        room = limits.max_locks - (end - self.start_offset + 1)
        if room > 0:
            return min(wish.max_records, room), last
        # Too many are in flight: only what was delivered before.
        if offset > end:
            return None
        return min(wish.max_records, end - offset + 1), min(last, end)

    def _archive(self, first: int, last: int) -> None:
        """Archive what nobody has of these records."""
        first = max(first, self.start_offset)
        if first > last:
            return
        for gap_first, gap_last in self._stretches.gaps(first, last):
            self._stretches.add(
                Stretch(gap_first, gap_last, RecordState.ARCHIVED, 0, InFlightBatch(gap_first, gap_last))
            )
        for stretch in self._stretches.over(first, last):
            if stretch.is_available:
                for part in self._stretches.cut(max(stretch.first, first), min(stretch.last, last)):
                    part.state = RecordState.ARCHIVED
        self._stretches.join_done(first, last)

    # -- Acknowledge and release -------------------------------------------------------------------------

    def acknowledge(
        self, member: str, said: Iterable[Acknowledgement], limits: Limits, now_ms: int, change: Change
    ) -> Iterator[None]:
        """Begin what a member says, all of it or nothing. Each step adds neighbours with the same type to `change`.

        Raises INVALID_RECORD_STATE where it does not hold the records, INVALID_REQUEST where they were never delivered.
        What lies below the start offset is passed over: it is done with.
        """
        renewed: list[tuple[Stretch, int, int]] = []
        try:
            for each in said:
                self._check_known(each)
                for begin, last, kind in _pieces(each):
                    first = max(begin, self.start_offset)
                    if first > last:
                        continue
                    self._check_held(member, first, last)
                    stretches = self._stretches.cut(first, last)
                    if kind is AcknowledgeType.RENEW:
                        renewed += [(one, one.deadline_ms, one.delivery_count) for one in stretches]
                        _renew(stretches, limits, now_ms)
                    else:
                        self._begin(change, stretches, _STATES[kind], limits)
                    yield
        except KafkaError:
            self.undo(change)
            change.stretches.clear()
            for stretch, deadline_ms, delivery_count in renewed:
                # Between two steps the records may have been given back, and acquired again.
                if stretch.delivery_count == delivery_count:
                    stretch.deadline_ms = deadline_ms
            raise

    def holds(self, member: str) -> bool:
        """Return whether a member has records, or would have them again if what is being written failed."""
        return any(
            each.member == member or (each.before is not None and each.before.member == member)
            for each in self._stretches
        )

    def release(self, member: str, limits: Limits) -> Change:
        """Begin to give back everything that a member holds."""
        return self._give_back(lambda stretch: stretch.member == member, limits)

    def expire(self, limits: Limits, now_ms: int) -> Change:
        """Begin to give back everything whose lock has ended."""
        return self._give_back(lambda stretch: stretch.deadline_ms <= now_ms, limits)

    def _give_back(self, is_meant: Callable[[Stretch], bool], limits: Limits) -> Change:
        change = Change()
        held = [stretch for stretch in self._stretches if stretch.is_held and is_meant(stretch)]
        self._begin(change, held, RecordState.AVAILABLE, limits)
        return change

    def archive(self, letters: Iterable[DeadLetters]) -> Change:
        """Begin to archive dead letters: they are written, or given up."""
        change = Change()
        for letter in letters:
            for stretch in self._stretches.over(letter.first, letter.last):
                if stretch.state is RecordState.ARCHIVING and stretch.before is None:
                    stretch.before = Before(stretch.state, stretch.member)
                    stretch.state = RecordState.ARCHIVED
                    change.stretches.append(stretch)
        return change

    def next_deadline_ms(self) -> int | None:
        """Return when the next lock ends; None where nobody holds a record."""
        return min((stretch.deadline_ms for stretch in self._stretches if stretch.is_held), default=None)

    def _check_known(self, said: Acknowledgement) -> None:
        """Reject records that were never delivered."""
        if said.last < self.start_offset:
            return
        first = next(iter(self._stretches), None)
        is_below = first is None or said.first < first.first
        if is_below and not said.first < self.start_offset:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "The batch cannot be acknowledged. It is not in flight.")
        if said.last > self.end_offset:
            why = f"offset {said.last} was not delivered: the last one that was is {self.end_offset}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)

    def _check_held(self, member: str, first: int, last: int) -> None:
        """Reject records that the member does not hold."""
        stretches = self._stretches.over(first, last)
        is_covered = not self._stretches.gaps(first, last)
        if not is_covered or not all(stretch.is_held and stretch.member == member for stretch in stretches):
            why = "The batch cannot be acknowledged. The member does not hold all of its records."
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, why)

    def _begin(self, change: Change, stretches: Iterable[Stretch], state: RecordState, limits: Limits) -> None:
        for stretch in stretches:
            stretch.before = Before(stretch.state, stretch.member)
            stretch.is_rejected = state is RecordState.ARCHIVING
            is_last = state is RecordState.AVAILABLE and stretch.delivery_count >= limits.max_deliveries
            if stretch.is_rejected or is_last:
                state_now = RecordState.ARCHIVING if limits.has_dead_letters else RecordState.ARCHIVED
            else:
                state_now = state
            stretch.state, stretch.member = state_now, ""
            change.stretches.append(stretch)

    # -- The second step ---------------------------------------------------------------------------------

    def keep(self, change: Change) -> None:
        """Keep a change: it is written."""
        for stretch in change.stretches:
            stretch.before = None
            if stretch.state is RecordState.AVAILABLE:
                self._search_from = min(self._search_from, stretch.first)
        if change.stretches:
            first = min(stretch.first for stretch in change.stretches)
            self._stretches.join_done(first, max(stretch.last for stretch in change.stretches))
            self._move_start()

    def undo(self, change: Change) -> None:
        """Take a change back: the members hold the records again, with the locks that they had."""
        for stretch in change.stretches:
            assert stretch.before is not None
            stretch.state, stretch.member = stretch.before
            stretch.before = None

    # -- The start ---------------------------------------------------------------------------------------

    def advance_start(self, log_start_offset: int) -> None:
        """Forget what the log does not have any more."""
        if log_start_offset > self.start_offset:
            self.start_offset = log_start_offset
            self._stretches.drop_below(log_start_offset)
            self._move_start()

    def _move_start(self) -> None:
        """Move the start offset over records that are done with."""
        start = self.start_offset
        for stretch in self._stretches:
            if stretch.first > start or not stretch.is_done:
                break
            start = stretch.last + 1
        if start > self.start_offset:
            self.start_offset = start
            self._stretches.drop_below(start)


# The stretches that one fetch acquires of a partition, in one turn: some six microseconds each.
MAX_ACQUIRED = 1_000


class _Acquisition:
    """One fetch as it acquires records of one partition."""

    def __init__(self, stretches: Stretches, wish: Wish, spans: Sequence[Span], limits: Limits, now_ms: int) -> None:
        self.acquired: list[Acquired] = []
        self._stretches = stretches
        self._wish = wish
        self._spans = spans
        self._limits = limits
        self._deadline_ms = now_ms + limits.lock_ms
        self._left = wish.max_records
        self._stretches_left = MAX_ACQUIRED

    @property
    def _is_over(self) -> bool:
        return self._left <= 0 or self._stretches_left <= 0

    def walk(self, offset: int, last: int) -> None:
        """Acquire from `offset` up to `last`: what is available again, and what was never delivered."""
        while offset <= last and not self._is_over:
            stretch = self._stretches.reaching(offset)
            if stretch is None or stretch.first > offset:
                end = last if stretch is None else min(last, stretch.first - 1)
                self._acquire_new(offset, end)
                offset = end + 1
                continue
            end = min(stretch.batch.last, last)
            parts = [
                each for each in self._stretches.over(offset, end) if each.batch == stretch.batch and each.is_available
            ]
            suspect = self._limits.suspect_deliveries
            if any(part.delivery_count >= suspect for part in parts):
                # Suspects come alone: what else a member has with them would be delivered again if it broke.
                if not self.acquired:
                    self._acquire_suspects(parts, offset, end)
                return
            self._acquire_again(parts, offset, end)
            # What is left of the batch is not available.
            offset = max(stretch.last, end) + 1

    def _acquire_again(self, parts: Iterable[Stretch], first: int, last: int) -> None:
        for part in parts:
            end = min(part.last, last)
            if self._stretches_left <= 0:
                return
            if self._wish.is_strict:
                if self._left <= 0:
                    return
                end = min(end, max(part.first, first) + self._left - 1)
            self._take(max(part.first, first), end)

    def _acquire_suspects(self, parts: Iterable[Stretch], first: int, last: int) -> None:
        """Acquire half of a batch, with each delivery half as many, and a record alone at its last delivery.

        As in Kafka the first suspect of the batch sets the limit, and what comes before it may exceed it.
        """
        taken = 0
        bounds = [self._left] if self._wish.is_strict else []
        is_limited = False
        for part in parts:
            count, at, end = part.delivery_count, max(part.first, first), min(part.last, last)
            is_last = count + 1 >= self._limits.max_deliveries
            if is_last and taken:
                return
            if count >= self._limits.suspect_deliveries and not is_limited:
                is_limited = True
                bounds.append(max(1, part.batch.size >> (count - self._limits.suspect_deliveries + 1)))
            if is_last:
                end = at
            # A limit stops where it is reached exactly.
            end = min([end, *(at + bound - taken - 1 for bound in bounds if bound > taken)])
            self._take(at, end)
            taken += end - at + 1
            if is_last or taken in bounds or self._stretches_left <= 0:
                return

    def _take(self, first: int, last: int) -> None:
        """Acquire available records again."""
        for part in self._stretches.cut(first, last):
            part.state, part.member, part.deadline_ms = RecordState.ACQUIRED, self._wish.member, self._deadline_ms
            part.delivery_count += 1
            self._note(part.first, part.last, part.delivery_count)

    def _acquire_new(self, first: int, last: int) -> None:
        """Acquire records for the first time."""
        left = self._left
        if last - first + 1 > left:
            last = min(last, self._end_of(first + left - 1))
        for batch in self._batches(first, last)[: self._stretches_left]:
            end = min(batch.last, first + left - 1) if self._wish.is_strict else batch.last
            member, deadline_ms = self._wish.member, self._deadline_ms
            self._stretches.add(Stretch(batch.first, end, RecordState.ACQUIRED, 1, batch, member, deadline_ms))
            if end < batch.last:
                # The rest of a batch of the log belongs to it, although it was not delivered yet.
                self._stretches.add(Stretch(end + 1, batch.last, RecordState.AVAILABLE, 0, batch))
            self._note(batch.first, end, 1)

    def _end_of(self, offset: int) -> int:
        """Return where the batch of the log ends that holds `offset`."""
        return next((span.last for span in self._spans if span.last >= offset), offset)

    def _batches(self, first: int, last: int) -> list[InFlightBatch]:
        """Cut the records where a batch of the log begins, so that each part has `batch_size` or a little more."""
        found: list[InFlightBatch] = []
        size = max(self._wish.batch_size, 1)
        if not self._wish.is_strict and last - first + 1 > size:
            for span in self._spans:
                if span.first > last:
                    break
                if span.first - first >= size:
                    found.append(InFlightBatch(first, span.first - 1))
                    first = span.first
        return [*found, InFlightBatch(first, last)]

    def _note(self, first: int, last: int, delivery_count: int) -> None:
        self._left -= last - first + 1
        self._stretches_left -= 1
        before = self.acquired[-1] if self.acquired else None
        if before is not None and before.delivery_count == delivery_count > 1 and before.last + 1 == first:
            self.acquired[-1] = before._replace(last=last)
        else:
            self.acquired.append(Acquired(first, last, delivery_count))


def _renew(stretches: Iterable[Stretch], limits: Limits, now_ms: int) -> None:
    """Have locks begin again. Raises INVALID_RECORD_STATE."""
    if not limits.may_renew:
        why = "the config share.renew.acknowledge.enable of the group does not allow renewals"
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, why)
    for stretch in stretches:
        stretch.deadline_ms = now_ms + limits.lock_ms


def _pieces(said: Acknowledgement) -> Iterable[tuple[int, int, AcknowledgeType]]:
    """Yield (first, last, type) of neighbours that get the same type."""
    if len(said.types) == 1:
        yield said.first, said.last, AcknowledgeType(said.types[0])
        return
    offset = said.first
    for kind, same in groupby(said.types):
        last = offset + sum(1 for _ in same) - 1
        yield offset, last, AcknowledgeType(kind)
        offset = last + 1
