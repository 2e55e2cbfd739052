"""`__consumer_offsets` as the group coordinator sees it: append records, read them all back.

Implements `groups.coordinator.OffsetsLog`. A record is committed once the partition has it and, where the topic asks
for an fsync, once that is done.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.records.batch import encode_batch
from ..protocol.records.record import Record
from .partition import Partition
from .topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from .server import Broker

OnCommitted = Callable[[KafkaError | None], None]


class OffsetsLog:
    """The partitions of the internal topic that hold the groups' state."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def partition_count(self) -> int:
        """Of the topic if it exists, otherwise what it would be made with: fixed from then on."""
        topic = self._broker.topics.get(OFFSETS_TOPIC)
        return len(topic.partitions) if topic is not None else self._broker.config.offsets_topic_num_partitions

    def ensure_topic(self) -> None:
        """Creates the topic at first need."""
        if self._broker.topics.get(OFFSETS_TOPIC) is None:
            self._broker.create_internal_topic(OFFSETS_TOPIC)

    def append(self, partition: int, records: list[tuple[bytes, bytes | None]], on_committed: OnCommitted) -> None:
        """Appends the records as one batch; calls back when they are committed, at once where nothing must be
        waited for.
        """
        now_ms = self._broker.clock.now_ms()
        batch = bytearray(encode_batch([Record(at, now_ms, key, value) for at, (key, value) in enumerate(records)]))
        try:
            target = self._partition(partition)
            target.append_internal(batch)
        except KafkaError as error:
            on_committed(error)
            return
        if not target.must_flush:
            on_committed(None)
            return
        flush = asyncio.ensure_future(self._broker.flusher.flush(target))
        flush.add_done_callback(lambda _: on_committed(_error_of(flush)))

    def replay(self, partition: int) -> Iterator[tuple[bytes, bytes | None]]:
        """Every record of a partition, oldest first; nothing where the topic does not exist yet."""
        topic = self._broker.topics.get(OFFSETS_TOPIC)
        found = topic.partition(partition) if topic is not None else None
        return iter(()) if found is None else found.replay()

    def _partition(self, index: int) -> Partition:
        self.ensure_topic()
        topic = self._broker.topics.get(OFFSETS_TOPIC)
        partition = topic.partition(index) if topic is not None else None
        if partition is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{OFFSETS_TOPIC} has no partition {index}")
        return partition


def _error_of(future: "asyncio.Future[None]") -> KafkaError | None:
    if future.cancelled():
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is stopping")
    error = future.exception()
    if error is None:
        return None
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
