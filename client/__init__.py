"""The asyncio client of Odradek, for any Kafka: `from odradek.client import Producer, Consumer, Admin`.

Names are loaded when they are first used, so importing this package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from ..kernel.door import record_code
    from .admin import Admin
    from .admin.acls import Acl, AclFilter
    from .admin.brokers import Feature
    from .admin.users import ANY_ENTITY, DEFAULT_ENTITY, QuotaEntity, ScramPassword
    from .assignors import Assignor, CooperativeStickyAssignor, RangeAssignor, RoundRobinAssignor, StickyAssignor
    from .consumer import Consumer
    from .consumer.assignment import RebalanceListener
    from .consumer.explanation import Explanation
    from .consumer.fetched_batch import FetchedBatch, RecordColumns
    from .consumer.offset_commits import OffsetStore
    from .consumer.simple_consumer import SimpleConsumer
    from .consumer.streams import Stream
    from .consumer.workers import DeadLetterTopic
    from .core.cluster import wait_for_broker
    from .core.descriptions import ConfigChange, ConfigResource, NewTopic
    from .core.metrics import Metric, PrometheusBridge
    from .errors import KafkaError
    from .producer import Producer
    from .producer.batch import BulkMetadata
    from .producer.listeners import BatchDescription, ProducerInterceptor, ProducerListener, ProducerRecord
    from .record import (
        EARLIEST,
        LATEST,
        ConsumerGroupMetadata,
        ConsumerRecord,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        RecordMetadata,
        ShareRecord,
        TopicPartition,
    )
    from .share import ShareConsumer
    from .topic_table import read_topic

__all__ = [
    "ANY_ENTITY",
    "DEFAULT_ENTITY",
    "EARLIEST",
    "LATEST",
    "Acl",
    "AclFilter",
    "Admin",
    "Assignor",
    "BatchDescription",
    "BulkMetadata",
    "ConfigChange",
    "ConfigResource",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "CooperativeStickyAssignor",
    "DeadLetterTopic",
    "Explanation",
    "Feature",
    "FetchedBatch",
    "KafkaError",
    "Metric",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetStore",
    "Producer",
    "ProducerInterceptor",
    "ProducerListener",
    "ProducerRecord",
    "PrometheusBridge",
    "QuotaEntity",
    "RangeAssignor",
    "RebalanceListener",
    "RecordColumns",
    "RecordMetadata",
    "RoundRobinAssignor",
    "ScramPassword",
    "ShareConsumer",
    "ShareRecord",
    "SimpleConsumer",
    "StickyAssignor",
    "Stream",
    "TopicPartition",
    "read_topic",
    "record_code",
    "wait_for_broker",
]

# Module -> the names that it has.
_MODULES = {
    ".kernel.door": "record_code",
    "admin": "Admin",
    "admin.acls": "Acl AclFilter",
    "admin.brokers": "Feature",
    "admin.users": "ANY_ENTITY DEFAULT_ENTITY QuotaEntity ScramPassword",
    "assignors": "Assignor CooperativeStickyAssignor RangeAssignor RoundRobinAssignor StickyAssignor",
    "consumer": "Consumer",
    "consumer.assignment": "RebalanceListener",
    "consumer.explanation": "Explanation",
    "consumer.fetched_batch": "FetchedBatch RecordColumns",
    "consumer.offset_commits": "OffsetStore",
    "consumer.simple_consumer": "SimpleConsumer",
    "consumer.streams": "Stream",
    "consumer.workers": "DeadLetterTopic",
    "core.cluster": "wait_for_broker",
    "core.descriptions": "ConfigChange ConfigResource NewTopic",
    "core.metrics": "Metric PrometheusBridge",
    "errors": "KafkaError",
    "producer": "Producer",
    "producer.batch": "BulkMetadata",
    "producer.listeners": "BatchDescription ProducerInterceptor ProducerListener ProducerRecord",
    "record": "EARLIEST LATEST ConsumerGroupMetadata ConsumerRecord OffsetAndMetadata OffsetAndTimestamp "
    "RecordMetadata ShareRecord TopicPartition",
    "share": "ShareConsumer",
    "topic_table": "read_topic",
}
__getattr__, __dir__ = lazily(__name__, _MODULES)
