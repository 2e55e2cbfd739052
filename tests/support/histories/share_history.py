"""Random histories of a share partition: members fetch, acknowledge and break, writes fail, the leader starts again.

A history keeps its own account of what every record went through, and compares after each step: no record is held by
two members, none is skipped before it is done with, what was written is what a restart finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from odradek.broker.coordination.share_states import events, machine
from odradek.broker.coordination.share_states.kept_state import KeptState
from odradek.broker.coordination.share_states.share_state import ShareKey, ShareState, StateBatch
from odradek.broker.share_partitions.machine import (
    Acknowledgement,
    AcknowledgeType,
    Change,
    Limits,
    SharePartition,
    Span,
    Wish,
)
from odradek.broker.share_partitions.stretches import RecordState
from odradek.protocol.errors import KafkaError

MEMBERS = ("ann", "bob", "cat")
LIMITS = Limits(lock_ms=1_000, max_deliveries=4, max_locks=30, may_renew=True)
DONE = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class _Topics:
    """One topic of one partition."""

    partition_count = 1

    def by_id(self, _: bytes) -> Any:
        return self


def acknowledge(
    partition: SharePartition, member: str, said: Sequence[Acknowledgement], limits: Limits, now_ms: int
) -> Change:
    """Return the change that a member begins without an interruption."""
    change = Change()
    for _ in partition.acknowledge(member, said, limits, now_ms, change):
        pass
    return change


class Broken(AssertionError):
    """A history shows what must never happen."""


@dataclass
class _Slow:
    """An acknowledgement whose steps others interrupt, and the records that it has begun, with their members."""

    steps: Iterator[None]
    change: Change
    # Whether a failure has its reason.
    may_fail: Callable[[], bool] = lambda: False
    held: dict[int, str] = field(default_factory=dict[int, str])
    noted: int = 0


@dataclass
class History:
    """One history. `step` it, then look at `partition`."""

    seed: int
    limits: Limits = LIMITS
    now_ms: int = 0
    partition: SharePartition = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.log_start = 0
        self.spans: list[Span] = []
        self.end = 0
        # The share coordinator's state, and the writes that may come a second time: their answers were lost.
        self.kept = KeptState(ShareKey("g", bytes(16), 0), _Topics(), updates_per_snapshot=5)
        self.late: list[events.Write] = []
        self.leader_epoch = 0
        self._coordinate(events.Initialize(None, 1, 0))
        self.partition = SharePartition(0)
        # What each record went through, by what the members and the share coordinator were told.
        self.holders: dict[int, str] = {}
        # How long their holders were promised at least.
        self.locks: dict[int, int] = {}
        self.counts: dict[int, int] = {}
        self.done: set[int] = set()
        self.changes: list[tuple[Change, dict[int, str]]] = []
        self.slow: list[_Slow] = []
        self.gone: set[int] = set()

    @property
    def written(self) -> ShareState:
        """What a restart finds."""
        assert self.kept.current is not None
        return self.kept.current

    def _coordinate(self, event: events.Request) -> events.Answer:
        """Have the share coordinator handle a request, and return its answer."""
        outcome = machine.step(self.kept, event, self.now_ms)
        for record in outcome.records:
            self.kept.apply(record)
        ((_, answer),) = outcome.replies
        return answer

    def step(self) -> None:
        """Do something, then check everything."""
        self.random.choice(
            (
                *(self.append, self.fetch, self.fetch, self.fetch, self.acknowledge, self.acknowledge),
                *(self.settle, self.settle, self.release, self.wait, self.start_again, self.delete_records),
                *(self.acknowledge_wrongly, self.write_late, self.write_late, self.go_on, self.go_on),
            )
        )()
        self.check()

    # -- Steps

    def append(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            first = self.end + self.random.choice((0, 0, 0, 2))
            self.gone |= set(range(self.end, first))
            last = first + self.random.randint(0, 7)
            is_aborted = self.random.random() < 0.15
            if is_aborted:
                self.gone |= set(range(first, last + 1))
            self.spans.append(Span(first, last, is_aborted))
            self.end = last + 1

    def fetch(self) -> None:
        partition, random = self.partition, self.random
        member = random.choice(MEMBERS)
        offset = partition.next_fetch_offset()
        found = [span for span in self.spans if span.last >= max(offset, self.log_start)][: random.randint(1, 4)]
        wish = Wish(member, random.randint(1, 12), random.randint(1, 6), random.random() < 0.3)
        if not partition.can_acquire(self.limits) or not found:
            return
        acquired = partition.acquire(wish, offset, found, self.limits, self.now_ms)
        count = 0
        for each in acquired:
            for record in range(each.first, each.last + 1):
                count += 1
                self._deliver(record, member, each.delivery_count)
        if wish.is_strict and count > wish.max_records:
            raise Broken(f"{count} records where {wish.max_records} were wanted")

    def _deliver(self, record: int, member: str, count: int) -> None:
        if record in self.holders:
            raise Broken(f"{record} is held by {self.holders[record]}, and {member} got it")
        if record in self.done:
            raise Broken(f"{record} is done with, and {member} got it")
        if not self.log_start <= record < self.end:
            raise Broken(f"{record} is not in the log")
        if count != self.counts.get(record, 0) + 1 or count > self.limits.max_deliveries:
            raise Broken(f"{record} has delivery count {count} after {self.counts.get(record, 0)}")
        self.counts[record] = count
        self.holders[record] = member
        self.locks[record] = self.now_ms + self.limits.lock_ms

    def acknowledge(self) -> None:
        if not self.holders:
            return
        first = self.random.choice(sorted(self.holders))
        member, last = self.holders[first], first
        while self.holders.get(last + 1) == member and self.random.random() < 0.7:
            last += 1
        kinds = self.random.choices(list(AcknowledgeType), k=last - first + 1)
        if self.random.random() < 0.5:
            kinds = kinds[:1]
        change = Change()
        said = [Acknowledgement(first, last, kinds)]
        steps = self.partition.acknowledge(member, said, self.limits, self.now_ms, change)
        slow = _Slow(steps, change)

        def may_fail() -> bool:
            """A lock has ended meanwhile: the member has lost a record that is still there."""
            rest = set(range(max(first, self.partition.start_offset), last + 1)) - slow.held.keys()
            return any(self.holders.get(record) != member for record in rest)

        slow.may_fail = may_fail
        self._go_on(slow)

    def go_on(self) -> None:
        """Take further steps of an acknowledgement that was interrupted."""
        if self.slow:
            self._go_on(self.slow.pop(self.random.randrange(len(self.slow))))

    def _go_on(self, slow: _Slow) -> None:
        try:
            for _ in slow.steps:
                self._note_begun(slow)
                if self.random.random() < 0.3:
                    self.slow.append(slow)
                    return
        except KafkaError:
            if not slow.may_fail():
                raise Broken("a member may not acknowledge what it holds") from None
            self._take_back(slow.held)
            return
        self._note_begun(slow)
        if slow.change.stretches:
            self.changes.append((slow.change, slow.held))

    def acknowledge_wrongly(self) -> None:
        """Acknowledge what the member does not hold, behind something that it holds: nothing may change."""
        member = self.random.choice(MEMBERS)
        held = [record for record, holder in self.holders.items() if holder == member]
        others = [record for record in range(self.partition.start_offset, self.end + 5) if record not in held]
        said = [Acknowledgement(record, record, (1,)) for record in (*held[:1], self.random.choice(others))]
        before = self._states()
        try:
            acknowledge(self.partition, member, said, self.limits, self.now_ms)
        except KafkaError:
            if self._states() != before:
                raise Broken(f"a rejected acknowledgement changed {before}") from None
            return
        raise Broken(f"{member} may acknowledge {said}")

    def _states(self) -> list[object]:
        """Return what stands of every record."""
        return [
            (record, stretch.state, stretch.member, stretch.delivery_count, stretch.before)
            for stretch in self.partition.stretches()
            for record in range(stretch.first, stretch.last + 1)
        ]

    def release(self) -> None:
        self._begun(self.partition.release(self.random.choice(MEMBERS), self.limits))

    def wait(self) -> None:
        self.now_ms += self.random.choice((1, 300, 1_000))
        self._begun(self.partition.expire(self.limits, self.now_ms))
        deadline_ms = self.partition.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= self.now_ms:
            raise Broken("a lock has ended, and its records are held")

    def _begun(self, change: Change) -> None:
        self._go_on(_Slow(iter(()), change))

    def _note_begun(self, slow: _Slow) -> None:
        for stretch in slow.change.stretches[slow.noted :]:
            for record in range(stretch.first, stretch.last + 1):
                if record not in self.holders:
                    raise Broken(f"{record} changes, and nobody holds it")
                slow.held[record] = self.holders.pop(record)
        slow.noted = len(slow.change.stretches)

    def _take_back(self, held: dict[int, str]) -> None:
        self.holders |= {record: member for record, member in held.items() if record >= self.log_start}

    def settle(self) -> None:
        """Write one of the changes under way, or fail to."""
        if not self.changes:
            return
        change, held = self.changes.pop(self.random.randrange(len(self.changes)))
        if self.random.random() < 0.3:
            self.partition.undo(change)
            self._take_back(held)
            return
        batches = change.batches()
        start, count = self.partition.start_offset, self.partition.delivery_complete_count
        write = events.Write(None, 1, self.leader_epoch, start, count, batches)
        if (answer := self._coordinate(write)) is not None:
            raise Broken(f"the share coordinator answers {answer}")
        self.late.append(write)
        self.partition.keep(change)
        self._note_done(batches)

    def write_late(self) -> None:
        """Have a write come again, behind later ones: it was sent twice, and the coordinator hung."""
        if self.late:
            self._coordinate(self.random.choice(self.late))

    def _note_done(self, batches: Sequence[StateBatch]) -> None:
        for batch in batches:
            if batch.delivery_state in DONE:
                self.done |= set(range(batch.first_offset, batch.last_offset + 1))

    def start_again(self) -> None:
        """Lose the leader: another reads what was written."""
        if self.random.random() < 0.7:
            return
        self.leader_epoch += self.random.choice((0, 1))  # a leader may also load again
        self._coordinate(events.Read(None, self.leader_epoch))
        self.partition = SharePartition(self.written.start_offset, self.written.batches)
        self.partition.advance_start(self.log_start)
        self.holders, self.changes, self.slow = {}, [], []
        written = {
            record: batch.delivery_count
            for batch in self.written.batches
            for record in range(batch.first_offset, batch.last_offset + 1)
        }
        self.counts = {record: written.get(record, 0) for record in range(self.end)}

    def delete_records(self) -> None:
        if self.random.random() < 0.7 or self.end <= self.log_start:
            return
        self.log_start = self.random.randint(self.log_start, min(self.end, self.log_start + 10))
        self.partition.advance_start(self.log_start)
        self.holders = {record: member for record, member in self.holders.items() if record >= self.log_start}
        self.gone |= set(range(self.log_start))

    # -- What must be true

    def check(self) -> None:
        partition = self.partition
        if partition.start_offset < self.written.start_offset:
            raise Broken("the start offset went back")
        skipped = set(range(partition.start_offset)) - self.done - self.gone
        if skipped:
            raise Broken(f"{sorted(skipped)} are skipped, and not done with")
        following = partition.start_offset
        for stretch in partition.stretches():
            if stretch.first < following or stretch.last < stretch.first:
                raise Broken(f"stretches overlap at {stretch}")
            following = stretch.last + 1
            for record in range(stretch.first, stretch.last + 1):
                self._check_record(record, stretch.is_held, stretch.member if stretch.is_held else "")
                if stretch.is_held and stretch.deadline_ms < self.locks[record]:
                    raise Broken(f"the lock of {record} was cut short")
                if stretch.is_done and record not in self.done | self.gone:
                    raise Broken(f"{record} was never written, and counts as {stretch.state.name}")
        if len(list(partition.stretches())) > self.limits.max_locks + 20:
            raise Broken("too many stretches")

    def _check_record(self, record: int, is_held: bool, member: str) -> None:
        if is_held != (record in self.holders) or (is_held and self.holders[record] != member):
            raise Broken(f"{record} is held by {member!r}, and was given to {self.holders.get(record)!r}")

    def finish(self) -> None:
        """Let one member have all that is left: then everything is done with."""
        for change in [*(each for each, _ in self.changes), *(each.change for each in self.slow)]:
            self.partition.undo(change)
        self.changes, self.holders = [], {}
        self._keep(self.partition.expire(self.limits, self.now_ms + 10 * self.limits.lock_ms))
        for _ in range(20 * (self.end - self.partition.start_offset + 1)):
            offset = self.partition.next_fetch_offset()
            found = [span for span in self.spans if span.last >= max(offset, self.log_start)]
            if not found:
                break
            wish = Wish("zoe", 5, 5, False)
            for each in self.partition.acquire(wish, offset, found, self.limits, self.now_ms):
                said = [Acknowledgement(each.first, each.last, (1,))]
                self._keep(acknowledge(self.partition, "zoe", said, self.limits, self.now_ms))
        # A hole at the very end of the log is not known before something lies behind it.
        if self.partition.start_offset < (self.spans[-1].last + 1 if self.spans else 0):
            raise Broken(f"records from {self.partition.start_offset} on are delivered to nobody")

    def _keep(self, change: Change) -> None:
        self.partition.keep(change)
        self._note_done(change.batches())
