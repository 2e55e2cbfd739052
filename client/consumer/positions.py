"""Where a consumer stands in each of its partitions, and what is fetched ahead of it.

    unknown --(committed offset, seek)--> known                 fetch_offset >= position: the next to ask the broker for
    unknown --(no commit)--> to be reset --(ListOffsets)--> known
    known   --(out of range)--> to be reset

Three marks move through a partition: `fetch_offset` runs ahead (what lies between it and `position` is in memory),
`position` is the next offset that the user is handed, `processed` the next one after what the user is done with. Only
`processed` is committed by itself (auto-commit, revocation): a crash then repeats records, and never leaves any out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from ...protocol.errors import KafkaError
from ..record import OffsetAndMetadata, TopicPartition
from .completed_fetch import Chunk


class PartitionState:
    """One assigned partition."""

    __slots__ = (
        "chunks",
        "error",
        "failures",
        "fetch_offset",
        "high_watermark",
        "leader_epoch",
        "log_start_offset",
        "muted_until_ms",
        "partition",
        "paused",
        "position",
        "processed",
        "reset",
        "turn",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        # Invariant: None together, while the position is not known yet.
        self.position: int | None = None
        self.processed: int | None = None
        self.fetch_offset: int | None = None
        # The timestamp that ListOffsets is to be asked for, where the position must be found.
        self.reset: int | None = None
        # Grows with every seek, so that an answer to an older question is known as such.
        self.turn = 0
        self.paused = False
        self.chunks: deque[Chunk] = deque()
        self.error: KafkaError | None = None
        self.failures = 0
        self.muted_until_ms = 0.0
        self.high_watermark = -1
        self.log_start_offset = -1
        # Of the last batch that was handed out; goes into commits (KIP-320).
        self.leader_epoch = -1

    @property
    def buffered_bytes(self) -> int:
        return sum(chunk.size_bytes for chunk in self.chunks)

    def move_to(self, offset: int, leader_epoch: int = -1) -> None:
        """Go on from `offset`; what was fetched ahead is dropped."""
        self.position = self.processed = self.fetch_offset = offset
        self.leader_epoch = leader_epoch
        self._start_over(None)

    def reset_to(self, timestamp: int) -> None:
        """The position is to be found: that of `timestamp`, or LATEST or EARLIEST."""
        self.position = self.processed = self.fetch_offset = None
        self._start_over(timestamp)

    def rewind(self) -> None:
        """What is in memory beyond the position is dropped, and fetched again."""
        self.fetch_offset = self.position
        self._start_over(self.reset)

    def _start_over(self, reset: int | None) -> None:
        self.reset = reset
        self.turn += 1
        self.chunks.clear()
        self.error = None
        self.failures = 0
        self.muted_until_ms = 0.0


class Positions:
    """All assigned partitions. Replaced partition by partition as the assignment changes; those that stay keep their
    state."""

    def __init__(self) -> None:
        # In the order in which they are handed out: whoever had its turn goes to the end.
        self._states: dict[TopicPartition, PartitionState] = {}

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(list(self._states.values()))

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._states

    def get(self, partition: TopicPartition) -> PartitionState | None:
        return self._states.get(partition)

    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(self._states)

    def replace(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """Have exactly these from now on. Returns the states that are new."""
        wanted = dict.fromkeys(partitions)
        for partition in self._states.keys() - wanted.keys():
            self._states.pop(partition).turn += 1
        new = [PartitionState(partition) for partition in wanted if partition not in self._states]
        self._states.update((state.partition, state) for state in new)
        return new

    def serve_last(self, state: PartitionState) -> None:
        """The others have their turn first."""
        if self._states.pop(state.partition, None) is not None:
            self._states[state.partition] = state

    def processed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What may be committed without asking the user."""
        return {
            state.partition: OffsetAndMetadata(state.processed, leader_epoch=state.leader_epoch)
            for state in self
            if state.processed is not None
        }

    def handed_out(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions: everything that the user was given counts as done."""
        return {
            state.partition: OffsetAndMetadata(state.position, leader_epoch=state.leader_epoch)
            for state in self
            if state.position is not None
        }
