"""Dead letters: records that a handler could not process, written to a topic with the reason in their headers."""

from __future__ import annotations

from typing import Any

from ..core.serialization import Serialized
from ..producer import Producer
from ..record import ConsumerRecord

# Where a record comes from, and why it is here.
TOPIC_HEADER = "__dead_letter_topic"
PARTITION_HEADER = "__dead_letter_partition"
OFFSET_HEADER = "__dead_letter_offset"
ERROR_HEADER = "__dead_letter_error"


class DeadLetterTopic:
    """Writes records to one topic, with key, value, timestamp and headers as they were, and four headers more.

    The producer's serializers have no part in it.
    """

    def __init__(self, producer: Producer[Any, Any], topic: str) -> None:
        self._producer = producer
        self._topic = topic

    async def __call__(self, record: ConsumerRecord, error: Exception) -> None:
        """Write a record, and wait until it is acknowledged. Raises KafkaError."""
        headers = [
            *record.headers,
            (TOPIC_HEADER, record.topic.encode()),
            (PARTITION_HEADER, b"%d" % record.partition),
            (OFFSET_HEADER, b"%d" % record.offset),
            (ERROR_HEADER, repr(error).encode()),
        ]
        key, value = (None if raw is None else Serialized(raw) for raw in (record.key, record.value))
        at_ms = record.timestamp_ms
        await self._producer.send_and_wait(self._topic, value, key=key, headers=headers, timestamp_ms=at_ms)
