"""A topic: its record in the metadata journal, its effective configs and its partitions."""

from __future__ import annotations

from ..configs.topic_config import TopicConfig
from .metadata_journal import TopicRecord
from .partition import Partition
from .topic_names import INTERNAL_TOPICS


class Topic:
    """A topic and its partitions, index by index."""

    __slots__ = ("config", "id", "is_internal", "name", "partitions", "record")

    def __init__(self, record: TopicRecord, config: TopicConfig, partitions: list[Partition]) -> None:
        self.name = record.name
        self.id = record.id
        self.record = record
        self.config = config
        self.partitions = partitions
        # Whether the broker keeps its own state in this topic.
        self.is_internal = record.name in INTERNAL_TOPICS

    @property
    def partition_count(self) -> int:
        """The number of partitions."""
        return len(self.partitions)

    def partition(self, index: int) -> Partition | None:
        """Return the partition of that index, or None."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None
