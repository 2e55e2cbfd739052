"""The end of a transaction in one partition: its marker, and what waits for it.

The transaction coordinator asks for it, be it in this process or over the wire (WriteTxnMarkers). On a partition of
`__consumer_offsets` the group coordinator is told too: offsets that were committed in the transaction become visible,
or are dropped.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.records.control import ControlType, Marker
from ...topics.topic_names import OFFSETS_TOPIC

if TYPE_CHECKING:
    from ...server import Broker


def write_marker(
    broker: Broker,
    topic_name: str,
    index: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    commit: bool,
    transaction_version: int,
) -> asyncio.Future[None] | None:
    """Ends the producer's transaction in a partition. A future where the topic asks for an fsync.

    Again is fine. Raises (now, or from the future) KafkaError: UNKNOWN_TOPIC_OR_PARTITION where there is none by now,
    INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR.
    """
    topic = broker.topics.get(topic_name)
    partition = topic.partition(index) if topic is not None else None
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_name}-{index} does not exist")
    marker = Marker(ControlType.COMMIT if commit else ControlType.ABORT, coordinator_epoch)
    partition.append_marker(producer_id, producer_epoch, marker, transaction_version)
    if not partition.must_flush:
        _written(broker, topic_name, index, producer_id, commit)
        return None

    async def flushed() -> None:
        await broker.flusher.flush(partition)
        _written(broker, topic_name, index, producer_id, commit)

    return asyncio.ensure_future(flushed())


def _written(broker: Broker, topic_name: str, index: int, producer_id: int, commit: bool) -> None:
    if topic_name == OFFSETS_TOPIC:
        broker.groups.end_transaction(index, producer_id, commit)
