"""Transaction markers: the record of a partition that says how a transaction ended there.

The transaction coordinator asks for them, in this process or over the wire (WriteTxnMarkers). A marker in a partition
of `__consumer_offsets` also ends the transaction for the groups there: offsets that were committed in it become
visible, or are dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.records.control import ControlType, Marker
from ...topics.flusher import Flusher
from ...topics.partition import Partition
from ...topics.topic_names import OFFSETS_TOPIC
from ...topics.topics import Topics


class TransactionEnd(NamedTuple):
    """How a producer's transaction ended, and the coordinator that says so."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    # Whether the marker is written once it is on disk, whatever the topic's configs say.
    durable: bool = False


class MarkerWriter:
    """Writes markers.

    `end_offsets` is called with partition, producer id and commit once a marker is in `__consumer_offsets`.
    """

    def __init__(self, topics: Topics, flusher: Flusher, end_offsets: Callable[[int, int, bool], None]) -> None:
        self._topics = topics
        self._flusher = flusher
        self._end_offsets = end_offsets

    def write(self, topic_name: str, index: int, end: TransactionEnd, /) -> asyncio.Future[None] | None:
        """End a transaction in one partition. Return a future if an fsync is required. Repeating it is harmless.

        Raises (now, or from the future) KafkaError: UNKNOWN_TOPIC_OR_PARTITION if the partition is gone,
        INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR.
        """
        topic = self._topics.get(topic_name)
        partition = topic.partition(index) if topic is not None else None
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_name}-{index} does not exist")
        marker = Marker(ControlType.COMMIT if end.commit else ControlType.ABORT, end.coordinator_epoch)
        partition.append_marker(end.producer_id, end.producer_epoch, marker, end.transaction_version)
        if end.durable or partition.must_flush:
            return asyncio.ensure_future(self._flush(partition, end))
        self._written(partition, end)
        return None

    async def _flush(self, partition: Partition, end: TransactionEnd) -> None:
        await self._flusher.flush(partition)
        self._written(partition, end)

    def _written(self, partition: Partition, end: TransactionEnd) -> None:
        if partition.topic == OFFSETS_TOPIC:
            self._end_offsets(partition.index, end.producer_id, end.commit)
