"""The asyncio client of Odradek, for any Kafka: `from odradek.client import Producer, Consumer, Admin`.

Names are loaded when they are first used, so importing this package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from ..kernel.door import record_code as record_code
    from .admin import Admin as Admin
    from .admin.acls import Acl as Acl
    from .admin.acls import AclFilter as AclFilter
    from .admin.brokers import Feature as Feature
    from .admin.users import ANY_ENTITY as ANY_ENTITY
    from .admin.users import DEFAULT_ENTITY as DEFAULT_ENTITY
    from .admin.users import QuotaEntity as QuotaEntity
    from .admin.users import ScramPassword as ScramPassword
    from .assignors import Assignor as Assignor
    from .assignors import CooperativeStickyAssignor as CooperativeStickyAssignor
    from .assignors import RangeAssignor as RangeAssignor
    from .assignors import RoundRobinAssignor as RoundRobinAssignor
    from .assignors import StickyAssignor as StickyAssignor
    from .consumer import Consumer as Consumer
    from .consumer.explanation import Explanation as Explanation
    from .consumer.fetched_batch import FetchedBatch as FetchedBatch
    from .consumer.fetched_batch import RecordColumns as RecordColumns
    from .consumer.offset_commits import OffsetStore as OffsetStore
    from .consumer.options import RebalanceListener as RebalanceListener
    from .consumer.simple_consumer import SimpleConsumer as SimpleConsumer
    from .consumer.streams import Stream as Stream
    from .consumer.workers import DeadLetterTopic as DeadLetterTopic
    from .core.cluster import wait_for_broker as wait_for_broker
    from .core.descriptions import ConfigChange as ConfigChange
    from .core.descriptions import ConfigResource as ConfigResource
    from .core.descriptions import NewTopic as NewTopic
    from .core.metrics import Metric as Metric
    from .core.metrics import PrometheusBridge as PrometheusBridge
    from .errors import KafkaError as KafkaError
    from .producer import Producer as Producer
    from .producer.batch import BulkMetadata as BulkMetadata
    from .producer.listeners import BatchDescription as BatchDescription
    from .producer.listeners import ProducerInterceptor as ProducerInterceptor
    from .producer.listeners import ProducerListener as ProducerListener
    from .producer.listeners import ProducerRecord as ProducerRecord
    from .record import EARLIEST as EARLIEST
    from .record import LATEST as LATEST
    from .record import ConsumerGroupMetadata as ConsumerGroupMetadata
    from .record import ConsumerRecord as ConsumerRecord
    from .record import OffsetAndMetadata as OffsetAndMetadata
    from .record import OffsetAndTimestamp as OffsetAndTimestamp
    from .record import RecordMetadata as RecordMetadata
    from .record import ShareRecord as ShareRecord
    from .record import TopicPartition as TopicPartition
    from .share import ShareConsumer as ShareConsumer
    from .topic_table import read_topic as read_topic

# Module -> the names that it has.
_MODULES = {
    ".kernel.door": "record_code",
    "admin": "Admin",
    "admin.acls": "Acl AclFilter",
    "admin.brokers": "Feature",
    "admin.users": "ANY_ENTITY DEFAULT_ENTITY QuotaEntity ScramPassword",
    "assignors": "Assignor CooperativeStickyAssignor RangeAssignor RoundRobinAssignor StickyAssignor",
    "consumer": "Consumer",
    "consumer.explanation": "Explanation",
    "consumer.fetched_batch": "FetchedBatch RecordColumns",
    "consumer.offset_commits": "OffsetStore",
    "consumer.options": "RebalanceListener",
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
if not TYPE_CHECKING:
    __all__ = __dir__()
