"""The asyncio client of Odradek, for any Kafka: `from odradek.client import Producer, Consumer, Admin`.

Names are loaded when they are first used, so importing this package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .admin import Admin
    from .assignors import Assignor, CooperativeStickyAssignor, RangeAssignor, RoundRobinAssignor, StickyAssignor
    from .consumer import Consumer
    from .consumer.fetched_batch import FetchedBatch
    from .descriptions import ConfigChange, ConfigResource, NewTopic
    from .errors import KafkaError
    from .producer import Producer
    from .producer.deliveries import BulkMetadata
    from .record import (
        EARLIEST,
        LATEST,
        ConsumerGroupMetadata,
        ConsumerRecord,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        RecordMetadata,
        TopicPartition,
    )

__all__ = [
    "EARLIEST",
    "LATEST",
    "Admin",
    "Assignor",
    "BulkMetadata",
    "ConfigChange",
    "ConfigResource",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "CooperativeStickyAssignor",
    "FetchedBatch",
    "KafkaError",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "RangeAssignor",
    "RecordMetadata",
    "RoundRobinAssignor",
    "StickyAssignor",
    "TopicPartition",
]

_HOMES = {
    "EARLIEST": "record",
    "LATEST": "record",
    "Admin": "admin",
    "Assignor": "assignors",
    "BulkMetadata": "producer.deliveries",
    "ConfigChange": "descriptions",
    "ConfigResource": "descriptions",
    "Consumer": "consumer",
    "ConsumerGroupMetadata": "record",
    "ConsumerRecord": "record",
    "CooperativeStickyAssignor": "assignors",
    "FetchedBatch": "consumer.fetched_batch",
    "KafkaError": "errors",
    "NewTopic": "descriptions",
    "OffsetAndMetadata": "record",
    "OffsetAndTimestamp": "record",
    "Producer": "producer",
    "RangeAssignor": "assignors",
    "RecordMetadata": "record",
    "RoundRobinAssignor": "assignors",
    "StickyAssignor": "assignors",
    "TopicPartition": "record",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return __all__
