"""The records that a consumer's user has: which were handed out, which are processed, and whether the user polls on.

Records that were returned count as processed when the user polls again. A user that does not poll for
`max_poll_interval_ms` has stalled, and its consumer leaves the group. A user that takes record after record with
`async for` has not: each record moves a position.

`consume` and `streams` hand records of one consumer to many tasks, which finish in any order. Then a partition counts
as processed up to its first record that is not done (`InFlight`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from ...protocol.errors import ErrorCode
from ..errors import CommitFailed, ConcurrentPoll
from ..record import ConsumerRecord, TopicPartition
from .positions import PartitionState, Positions

_log = logging.getLogger(__name__)

_OURS = str(Path(__file__).parents[1])
_LOOP = str(Path(asyncio.__file__).parent)


class Polls:
    """What the user of one consumer has taken, and when it last came back."""

    def __init__(self) -> None:
        # Set while the user has no unprocessed records.
        self.idle = asyncio.Event()
        self.idle.set()
        # Set when partitions have no unprocessed records any more, or are gone.
        self.released = asyncio.Event()
        # While tasks say which records are done (`consume`, `streams`), in the place of polls.
        self.by_record: InFlight | None = None
        # Set by each poll. A member that must wait for the next poll clears it.
        self.asked = asyncio.Event()
        self.asked.set()
        # The partitions of the records that the user works on.
        self._returned: dict[TopicPartition, PartitionState] = {}
        # Partitions that were taken away although records of them were returned and not committed.
        self._lost: set[TopicPartition] = set()
        # The task of the last poll, and whether it waits in that poll now.
        self._user: asyncio.Task[object] | None = None
        self._polling = False
        self._count = 0
        # What `stalled_ms` saw last, and when that changed.
        self._progress: tuple[int | None, ...] = ()
        self._progress_ms = 0.0

    # -- Polls

    def begin(self) -> None:
        """Begin a poll: all returned records are processed. Raises ConcurrentPoll while another task polls."""
        if self._polling:
            raise ConcurrentPoll("another task waits for records of this consumer: only one task may poll at a time")
        self._polling = True
        self._user = asyncio.current_task()
        self._count += 1
        self._lost.clear()
        self.mark_processed()
        self.asked.set()

    def end(self) -> None:
        """End a poll, with or without records."""
        self._polling = False

    def mark_processed_by(self, task: asyncio.Task[object] | None) -> None:
        """Mark records as processed if `task` polled last, or the task that did has ended; else it may be at work."""
        user = self._user
        if user is None or user is task:
            self.mark_processed()
        elif user.done() and not user.cancelled():
            error = user.exception()
            if error is None:
                self.mark_processed()
            else:
                _log.warning("the task that polled has ended with %r: its last records are not committed", error)

    # -- Records

    def mark_returned(self, state: PartitionState) -> None:
        """The user works on records of this partition now."""
        self.idle.clear()
        self._lost.clear()
        self._returned[state.partition] = state
        state.returned = True

    def mark_processed(self) -> None:
        """The user has processed all records that were returned."""
        if self.by_record is not None:
            return
        for state in self._returned.values():
            state.processed = state.position
        self._returned.clear()
        self.idle.set()
        self.released.set()

    def release(self, partition: TopicPartition) -> None:
        """No task works on records of this partition."""
        self._returned.pop(partition, None)
        if not self._returned:
            self.idle.set()
        self.released.set()

    def works_on(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether the user has unprocessed records of one of these partitions."""
        return not self._returned.keys().isdisjoint(partitions)

    def drop(self, states: Iterable[PartitionState]) -> None:
        """Forget partitions that were taken away, but not that their records were returned and never committed."""
        for state in states:
            self._returned.pop(state.partition, None)
            self.released.set()
            if self.by_record is not None and not self._returned:
                self.idle.set()
            if state.returned and state.position != state.committed:
                self._lost.add(state.partition)

    def check_lost(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Raise CommitFailed if one of these (or any) was taken away before its returned records could be committed."""
        if self._lost and (partitions is None or not self._lost.isdisjoint(partitions)):
            raise taken_away(sorted(self._lost))

    # -- Stalls

    def line(self) -> str:
        """Return where the user's task is, "" if that is not known."""
        return "" if self._polling else _user_line(self._user)

    def stalled_ms(self, now_ms: float) -> float:
        """Return for how long calls of this method have seen the user neither poll nor take a record."""
        if self.by_record is not None:
            return self.by_record.stalled_ms(now_ms)
        progress = (self._count, *(state.position for state in self._returned.values()))
        if self._polling or progress != self._progress:
            self._progress, self._progress_ms = progress, now_ms
        return now_ms - self._progress_ms


def taken_away(partitions: Collection[TopicPartition]) -> CommitFailed:
    """Return the error of a commit for partitions that are no longer this member's."""
    names = ", ".join(f"{topic}-{number}" for topic, number in partitions)
    return CommitFailed(
        ErrorCode.ILLEGAL_GENERATION,
        f"nothing was committed: {names} was taken away after its records were returned. "
        "They will be read again by the consumer that has the partition now.",
    )


def _user_line(task: asyncio.Task[Any] | None) -> str:
    """Return "FILE:LINE in FUNCTION" of the innermost frame that is the user's, "" if none is found."""
    if task is None or task.done():
        return ""
    found, awaited = "", task.get_coro()
    while awaited is not None:
        frame: FrameType | None = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None and not frame.f_code.co_filename.startswith((_OURS, _LOOP)):
            found = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return found


@dataclass(slots=True, eq=False)
class _Outstanding:
    """Records of one partition that were handed out."""

    state: PartitionState
    # Of the state, when the first of these records was handed out.
    moves: int
    # When the first of `offsets` became the first.
    since_ms: float
    # In order, from the first that is not done on; and those that are not done.
    offsets: deque[int] = field(default_factory=deque[int])
    open: set[int] = field(default_factory=set[int])
    # The position behind the last record that was handed out.
    end: int = 0


class InFlight:
    """Keeps `PartitionState.processed` at the end of the prefix that is done, in the place of polls."""

    def __init__(self, positions: Positions, polls: Polls) -> None:
        self._positions = positions
        self._polls = polls
        self._partitions: dict[TopicPartition, _Outstanding] = {}

    def add(self, partition: TopicPartition, records: Sequence[ConsumerRecord], now_ms: float) -> None:
        """Note records that were handed out, in the order of their offsets."""
        state = self._positions.get(partition)
        if state is None:
            return
        each = self._partitions.get(partition)
        if each is None or not self._is_current(each):
            each = self._partitions[partition] = _Outstanding(state, state.moves, now_ms)
        if not each.offsets:
            each.since_ms = now_ms
        offsets = [record.offset for record in records]
        each.offsets.extend(offsets)
        each.open.update(offsets)
        each.end = offsets[-1] + 1

    def has(self, record: ConsumerRecord) -> bool:
        """Whether the record still belongs to this consumer: its partition was neither taken away nor sought in."""
        each = self._partitions.get(TopicPartition(record.topic, record.partition))
        return each is not None and self._is_current(each) and record.offset in each.open

    def finish(self, record: ConsumerRecord, now_ms: float) -> None:
        """Note that a record is done."""
        partition = TopicPartition(record.topic, record.partition)
        each = self._partitions.get(partition)
        if each is None or record.offset not in each.open:
            return
        each.open.remove(record.offset)
        if each.offsets[0] == record.offset:
            each.since_ms = now_ms
        while each.offsets and each.offsets[0] not in each.open:
            each.offsets.popleft()
        if self._is_current(each):
            each.state.processed = each.offsets[0] if each.offsets else each.end
            if not each.offsets:
                self._polls.release(partition)

    def count(self) -> int:
        """Return how many records were handed out and are not done."""
        self._forget_the_moved()
        return sum(len(each.open) for each in self._partitions.values())

    def stalled_ms(self, now_ms: float) -> float:
        """Return for how long the record that holds its partition up the longest has done so."""
        self._forget_the_moved()
        return max((now_ms - each.since_ms for each in self._partitions.values() if each.offsets), default=0.0)

    def give_back(self) -> None:
        """Go back to the first record of each partition that is not done: it is returned again."""
        for partition, each in list(self._partitions.items()):
            if each.offsets and self._is_current(each):
                each.state.move_to(each.offsets[0], each.state.leader_epoch)
            self._polls.release(partition)
        self._partitions.clear()

    def _is_current(self, each: _Outstanding) -> bool:
        return self._positions.get(each.state.partition) is each.state and each.moves == each.state.moves

    def _forget_the_moved(self) -> None:
        """Forget what was handed out of partitions that were taken away or sought in since: nobody need finish it."""
        for partition, each in list(self._partitions.items()):
            if not self._is_current(each):
                del self._partitions[partition]
                self._polls.release(partition)
