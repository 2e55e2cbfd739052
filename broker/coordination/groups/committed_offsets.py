"""The committed offsets of one group, by topic and partition. OffsetFetch reads them.

Only committed records change them (`apply`), so that they survive a crash. A value is kept as its record has it. An
offset in a producer's transaction is pending until the transaction ends (`end`).
"""

from __future__ import annotations

from collections.abc import Iterator

from ....protocol.messages.group_records import OffsetCommitValue
from ....protocol.primitives import ZERO_UUID
from ..replay import PendingWrites
from .records import NO_PRODUCER, OffsetRecord


def is_of(value: OffsetCommitValue, topic_id: bytes) -> bool:
    """Return whether an offset belongs to the topic with this id, not to an earlier topic of the same name.

    Zeros stand for an id that is not known.
    """
    return ZERO_UUID in (topic_id, value.topic_id) or value.topic_id == topic_id


class CommittedOffsets:
    """Maps topic and partition to an OffsetCommitValue. An unknown leader epoch is -1, an unknown topic id is zeros."""

    __slots__ = ("_topics", "pending")

    def __init__(self) -> None:
        # Invariant: no topic without partitions.
        self._topics: dict[str, dict[int, OffsetCommitValue]] = {}
        self.pending: PendingWrites[tuple[str, int], OffsetCommitValue] = PendingWrites()

    def __bool__(self) -> bool:
        return bool(self._topics)

    def __len__(self) -> int:
        return sum(len(partitions) for partitions in self._topics.values())

    def __iter__(self) -> Iterator[tuple[str, dict[int, OffsetCommitValue]]]:
        return iter(self._topics.items())

    def get(self, topic: str, partition: int) -> OffsetCommitValue | None:
        """Return the offset that was committed last, or None."""
        partitions = self._topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def partitions(self, topic: str) -> list[int]:
        """Return the partitions of a topic that have an offset."""
        return list(self._topics.get(topic, ()))

    def topics(self) -> list[str]:
        """Return every topic that has an offset, or will have one if a transaction commits."""
        return list(dict.fromkeys((*self._topics, *(name for name, _ in self.pending.undecided()))))

    def has_other_topic(self, topic: str, topic_id: bytes) -> bool:
        """Return whether an offset is that of an earlier topic of the same name."""
        return any(not is_of(value, topic_id) for value in self._topics.get(topic, {}).values())

    def with_pending(self, topic: str) -> list[int]:
        """Return the partitions of a topic that have an offset, or will have one if a transaction commits."""
        pending = (index for name, index in self.pending.undecided() if name == topic) if self.pending else ()
        return list(dict.fromkeys((*self.partitions(topic), *pending)))

    def end(self, producer_id: int, commit: bool) -> None:
        """Make the offsets of a producer's transaction count, or drop them."""
        for (topic, partition), value in self.pending.end(producer_id, commit):
            self._topics.setdefault(topic, {})[partition] = value

    def apply(self, record: OffsetRecord) -> None:
        """Let a record of the log take effect."""
        key = record.topic, record.partition
        if record.value is not None:
            if record.producer_id != NO_PRODUCER:
                self.pending.put(record.producer_id, key, record.value)
                return
            self._topics.setdefault(record.topic, {})[record.partition] = record.value
            if self.pending:
                self.pending.overtake(key)
            return
        self.pending.drop(key)
        partitions = self._topics.get(record.topic)
        if partitions is not None:
            partitions.pop(record.partition, None)
            if not partitions:
                del self._topics[record.topic]
