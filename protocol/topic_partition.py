"""A partition of a topic, by the topic's name and the partition's index: for the client and the broker alike."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of a topic. As text it is what Kafka writes: `flights-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
