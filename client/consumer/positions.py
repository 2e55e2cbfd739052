"""The positions of a consumer in its assigned partitions, and what was fetched ahead of them.

    no position --committed offset, seek--> position
    no position --no committed offset--> reset --ListOffsets--> position
    position --out of range, or its topic was made again--> reset

Three offsets move through a partition. `fetch_offset` is ahead: the records between `position` and it are in memory.
`position` is the offset of the next record for the user. `processed` is the next offset after the records that the user
has processed. Auto-commit and revocation commit only `processed`, so a crash repeats records and never skips any.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ...protocol.errors import KafkaError
from ..record import OffsetAndMetadata, TopicPartition
from .fetched_batch import CompletedFetch


@dataclass(slots=True, eq=False, repr=False)
class PartitionState:
    """One assigned partition."""

    partition: TopicPartition
    # Invariant: None together, while the position is not known yet.
    position: int | None = None
    processed: int | None = None
    fetch_offset: int | None = None
    # The timestamp for ListOffsets while the position must be found by it.
    reset: int | None = None
    # The position before the reset, and its reason for the log.
    reset_from: int | None = None
    reset_why: str = ""
    # Grows with every seek and when the partition is taken away, so that late responses are recognized.
    version: int = 0
    # How often the position was sought or reset: records returned before that are of no concern any more.
    moves: int = 0
    paused: bool = False
    # True when the partition is about to be revoked: no more of its records are returned.
    held: bool = False
    # True while fetched records stay where they are: who reads them has enough, or cannot deserialize the next one.
    waits: bool = False
    # Whether records of this assignment were returned to the user.
    returned: bool = False
    # The offset that the group has, as far as this consumer read or committed it.
    committed: int | None = None
    # Auto-commit commits only offsets above this one: the user's own commit holds until more is processed.
    auto_commit_above: int = -1
    # The fetched records from `position` on, oldest first.
    fetched: deque[CompletedFetch] = field(default_factory=deque[CompletedFetch])
    # An error that the next poll raises, after the fetched records.
    error: KafkaError | None = None
    # Whether the error of a search for the position was raised: the position is searched again.
    find_again: bool = False
    # Failed requests in a row, and the pause after the last one.
    failures: int = 0
    muted_until_ms: float = 0.0
    high_watermark: int = -1
    # Of the record that was returned last; -1 before it.
    last_timestamp_ms: int = -1
    # Of the last batch whose records were returned; goes into commits (KIP-320).
    leader_epoch: int = -1
    # The leader epoch in which the position is known to be in the leader's log.
    checked_epoch: int = -1
    # The follower that the leader sent this client to (KIP-392), -1 for the leader itself; until when.
    preferred_replica: int = -1
    preferred_until_ms: float = 0.0
    # The id of the topic that the position belongs to; None until it is compared with the metadata.
    topic_id: bytes | None = None

    def __str__(self) -> str:
        return str(self.partition)

    @property
    def is_fetchable(self) -> bool:
        """Whether the next records can be fetched."""
        return self.fetch_offset is not None and not self.paused and not self.held and self.error is None

    @property
    def lag(self) -> int | None:
        """How many offsets the position is behind the high watermark of the last fetch; None before it."""
        if self.position is None or self.high_watermark < 0:
            return None
        return max(self.high_watermark - self.position, 0)

    @property
    def buffered_bytes(self) -> int:
        """The size of what was fetched ahead."""
        return sum(fetch.size_bytes for fetch in self.fetched)

    def take_error(self) -> KafkaError:
        """Return the error to raise it. What is wrong may be over, or comes again with the next request."""
        error, self.error = self.error, None
        assert error is not None
        self.find_again = self.position is None and self.reset is None
        return error

    def move_to(self, offset: int, leader_epoch: int = -1) -> None:
        """Continue from `offset`, and drop what was fetched ahead."""
        self._move(offset, leader_epoch, None)

    def reset_to(self, timestamp: int, why: str = "", before: int | None = None) -> None:
        """Continue from the offset of `timestamp` (or LATEST or EARLIEST), which must be found first.

        `why` is for the log; a user that seeks knows. `before` is the position if it was dropped already.
        """
        self.reset_from, self.reset_why = self.position if before is None else before, why
        self._move(None, -1, timestamp)

    def _move(self, position: int | None, leader_epoch: int, reset: int | None) -> None:
        self.position = self.processed = self.fetch_offset = position
        self.leader_epoch, self.checked_epoch, self.topic_id = leader_epoch, -1, None
        self.auto_commit_above = -1
        self.moves += 1
        self._restart(reset)

    def rewind(self) -> None:
        """Drop what was fetched beyond the position; it is fetched again."""
        self.fetch_offset = self.position
        self._restart(self.reset)

    def _restart(self, reset: int | None) -> None:
        self.reset = reset
        self.version += 1
        self.fetched.clear()
        self.waits = False
        self.error = None
        self.find_again = False
        self.failures = 0
        self.muted_until_ms = 0.0


class Positions:
    """All assigned partitions. Partitions that stay assigned keep their state."""

    def __init__(self) -> None:
        # Partitions that the user paused; a rebalance that gives them back keeps them so.
        self._paused: set[TopicPartition] = set()
        # In the order in which they take turns: a partition that had its turn goes to the end.
        self._states: dict[TopicPartition, PartitionState] = {}

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(list(self._states.values()))

    def get(self, partition: TopicPartition) -> PartitionState | None:
        """Return the state of a partition, None if it is not assigned."""
        return self._states.get(partition)

    def partitions(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return frozenset(self._states)

    def replace(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """Assign exactly these partitions. Return the states that are new."""
        wanted = dict.fromkeys(partitions)
        self.drop(self._states.keys() - wanted.keys())
        new = [PartitionState(partition) for partition in wanted if partition not in self._states]
        self._states.update((state.partition, state) for state in new)
        self._paused &= wanted.keys()
        for state in new:
            state.paused = state.partition in self._paused
        return new

    def pause(self, state: PartitionState, paused: bool) -> None:
        """Pause or resume a partition, also if a rebalance takes it away and gives it back."""
        state.paused = paused
        (self._paused.add if paused else self._paused.discard)(state.partition)

    def drop(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """Take these partitions away. Return the states of those that were assigned."""
        dropped = [self._states.pop(partition) for partition in list(partitions) if partition in self._states]
        for state in dropped:
            state.version += 1
        return dropped

    def move_to_end(self, state: PartitionState) -> None:
        """Let the other partitions have their turn first."""
        if self._states.pop(state.partition, None) is not None:
            self._states[state.partition] = state

    # -- Offsets to commit

    def returned_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions: all records that the user was given count as processed."""
        return _offsets((state, state.position) for state in self)

    def processed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets after the processed records."""
        return _offsets((state, state.processed) for state in self)

    def uncommitted_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets after the processed records that are not committed yet: what auto-commit may commit."""
        return _offsets(
            (state, state.processed)
            for state in self
            if state.processed != state.committed and (state.processed or 0) > state.auto_commit_above
        )


def _offsets(found: Iterable[tuple[PartitionState, int | None]]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        state.partition: OffsetAndMetadata(offset, leader_epoch=state.leader_epoch)
        for state, offset in found
        if offset is not None
    }


class Signals:
    """Wake-ups between the parts of a running consumer."""

    def __init__(self) -> None:
        # Set while there may be something to fetch.
        self.fetch = asyncio.Event()
        # Set while a waiting poll should look for records, errors or the end of a rebalance.
        self.poll = asyncio.Event()
        # Replaced each time it is set, so that every waiter waits for the next time.
        self._positions = asyncio.Event()

    def positions_changed(self) -> None:
        """Wake everything that waits for a position or for records."""
        self.fetch.set()
        self.poll.set()
        self._positions.set()
        self._positions = asyncio.Event()

    async def wait_for_positions(self) -> None:
        """Wait until positions change."""
        await self._positions.wait()
