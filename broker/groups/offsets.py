"""The committed offsets of one group, by topic and partition: what OffsetFetch is answered from.

Only committed records come in here (`apply`), so that what is read here survives a crash. A value is kept as it was
written down.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...protocol.messages.group_records import OffsetCommitValue
from .records import OffsetRecord


class Offsets:
    """(topic, partition) -> OffsetCommitValue; its leader epoch is -1 and its topic id zeros where not known."""

    __slots__ = ("_topics",)

    def __init__(self) -> None:
        # Invariant: no topic without partitions.
        self._topics: dict[str, dict[int, OffsetCommitValue]] = {}

    def __bool__(self) -> bool:
        return bool(self._topics)

    def __len__(self) -> int:
        return sum(len(partitions) for partitions in self._topics.values())

    def __iter__(self) -> Iterator[tuple[str, dict[int, OffsetCommitValue]]]:
        return iter(self._topics.items())

    def get(self, topic: str, partition: int) -> OffsetCommitValue | None:
        """What was committed last, or None."""
        partitions = self._topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic that have an offset."""
        return list(self._topics.get(topic, ()))

    def apply(self, record: OffsetRecord) -> None:
        """A record of the log takes effect."""
        if record.value is not None:
            self._topics.setdefault(record.topic, {})[record.partition] = record.value
            return
        partitions = self._topics.get(record.topic)
        if partitions is not None:
            partitions.pop(record.partition, None)
            if not partitions:
                del self._topics[record.topic]
