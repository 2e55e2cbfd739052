"""The polls of a consumer's user: which records were handed out, and whether the user has come back for more.

Records that were returned count as processed when the user polls again. A user that does not poll for
`max_poll_interval_ms` has stalled, and its consumer leaves the group. A user that takes record after record with
`async for` has not: each record moves a position.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from ..errors import ConcurrentPoll
from ..record import TopicPartition
from .positions import PartitionState
from .user_line import user_line

_log = logging.getLogger(__name__)


class Polls:
    """What the user of one consumer has taken, and when it last came back."""

    def __init__(self) -> None:
        # Set while the user has no unprocessed records.
        self.idle = asyncio.Event()
        self.idle.set()
        # Set when partitions have no unprocessed records any more, or are gone.
        self.released = asyncio.Event()
        # While tasks say which records are done (`consume`, `streams`), in the place of polls: for how long the record
        # that holds its partition up the longest has done so at a time.
        self.by_record: Callable[[float], float] | None = None
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

    def lost(self) -> list[TopicPartition]:
        """Return the partitions that were taken away before the records returned last could be committed."""
        return sorted(self._lost)

    # -- Stalls

    def line(self) -> str:
        """Return where the user's task is, "" if that is not known."""
        return "" if self._polling else user_line(self._user)

    def stalled_ms(self, now_ms: float) -> float:
        """Return for how long calls of this method have seen the user neither poll nor take a record."""
        if self.by_record is not None:
            return self.by_record(now_ms)
        progress = (self._count, *(state.position for state in self._returned.values()))
        if self._polling or progress != self._progress:
            self._progress, self._progress_ms = progress, now_ms
        return now_ms - self._progress_ms
