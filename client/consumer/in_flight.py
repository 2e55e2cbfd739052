"""Records that several tasks work on at once: which are done, and up to where each partition is processed.

`consume` and `streams` hand records of one consumer to many tasks, which finish in any order. A partition counts as
processed up to its first record that is not done. Only that is committed, so a crash repeats records and skips none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ..record import ConsumerRecord, TopicPartition
from .polls import Polls
from .positions import PartitionState, Positions


class _Outstanding:
    """Records of one partition that were handed out."""

    __slots__ = ("end", "moves", "offsets", "open", "since_ms", "state")

    def __init__(self, state: PartitionState, now_ms: float) -> None:
        self.state = state
        self.moves = state.moves
        # In order, from the first that is not done on; and those that are not done.
        self.offsets: deque[int] = deque()
        self.open: set[int] = set()
        # The position behind the last record that was handed out.
        self.end = 0
        # When the first of `offsets` became the first.
        self.since_ms = now_ms


class InFlight:
    """Keeps `PartitionState.processed` at the end of the prefix that is done, in the place of polls."""

    def __init__(self, positions: Positions, polls: Polls) -> None:
        self._positions = positions
        self._polls = polls
        self._partitions: dict[TopicPartition, _Outstanding] = {}
        # Records that were handed out and are not done.
        self.count = 0

    def add(self, partition: TopicPartition, records: Sequence[ConsumerRecord], now_ms: float) -> None:
        """Note records that were handed out, in the order of their offsets."""
        state = self._positions.get(partition)
        if state is None:
            return
        each = self._partitions.get(partition)
        if each is None or each.state is not state or each.moves != state.moves:
            self._forget(partition)
            each = self._partitions[partition] = _Outstanding(state, now_ms)
        if not each.offsets:
            each.since_ms = now_ms
        offsets = [record.offset for record in records]
        each.offsets.extend(offsets)
        each.open.update(offsets)
        each.end = offsets[-1] + 1
        self.count += len(offsets)

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
        self.count -= 1
        if each.offsets[0] == record.offset:
            each.since_ms = now_ms
        while each.offsets and each.offsets[0] not in each.open:
            each.offsets.popleft()
        if not self._is_current(each):
            self._forget(partition)
            return
        each.state.processed = each.offsets[0] if each.offsets else each.end
        if not each.offsets:
            self._polls.release(partition)

    def stalled_ms(self, now_ms: float) -> float:
        """Return for how long the record that holds its partition up the longest has done so."""
        return max((now_ms - each.since_ms for each in self._partitions.values() if each.offsets), default=0.0)

    def give_back(self) -> None:
        """Go back to the first record of each partition that is not done: it is returned again."""
        for partition, each in list(self._partitions.items()):
            if each.offsets and self._is_current(each):
                each.state.move_to(each.offsets[0], each.state.leader_epoch)
            self._forget(partition)
            self._polls.release(partition)

    def _is_current(self, each: _Outstanding) -> bool:
        return self._positions.get(each.state.partition) is each.state and each.moves == each.state.moves

    def _forget(self, partition: TopicPartition) -> None:
        each = self._partitions.pop(partition, None)
        if each is not None:
            self.count -= len(each.open)
