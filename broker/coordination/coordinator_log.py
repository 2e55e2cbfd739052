"""An internal topic as its coordinator sees it: append records, read them all back.

Implements `groups.actor.OffsetsLog` and `transactions.actor.TransactionsLog`. A record is committed once the partition
has it and, where the topic asks for an fsync, once that is done.
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, encode_batch
from ...protocol.records.control import ControlType, control_type
from ...protocol.records.record import Record
from ..topics.partition import Partition
from ..topics.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from .calls import OnCommitted
from .groups.replay import Ended, Written

if TYPE_CHECKING:
    from ..server import Broker


class OffsetsLog:
    """The partitions of an internal topic: by default the one that holds the groups' state."""

    def __init__(self, broker: "Broker", topic: str = OFFSETS_TOPIC) -> None:
        self._broker = broker
        self._name = topic

    def partition_count(self) -> int:
        """Of the topic if it exists, otherwise what it would be made with: fixed from then on."""
        topic = self._broker.topics.get(self._name)
        if topic is not None:
            return len(topic.partitions)
        config = self._broker.config
        if self._name == TRANSACTIONS_TOPIC:
            return config.transaction_state_log_num_partitions
        return config.offsets_topic_num_partitions

    def coordinator_epoch(self, partition: int) -> int:
        """The leader epoch of a partition that exists."""
        return self._partition(partition).leader_epoch

    def ensure_topic(self) -> None:
        """Creates the topic at first need."""
        if self._broker.topics.get(self._name) is None:
            self._broker.create_internal_topic(self._name)

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        on_committed: OnCommitted,
        producer: tuple[int, int] | None = None,
    ) -> None:
        """Appends the records as one batch; calls back when they are committed, at once where nothing must be
        waited for. With a producer (its id and epoch) they are part of its transaction.
        """
        now_ms = self._broker.clock.now_ms()
        producer_id, producer_epoch = producer or (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        batch = bytearray(
            encode_batch(
                [Record(at, now_ms, key, value) for at, (key, value) in enumerate(records)],
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transactional=producer is not None,
            )
        )
        try:
            target = self._partition(partition)
            target.check_online()
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
        """Every record of a partition, oldest first; nothing where the topic does not exist yet.

        KAFKA_STORAGE_ERROR where the partition is offline.
        """
        topic = self._broker.topics.get(self._name)
        found = topic.partition(partition) if topic is not None else None
        if found is None:
            return iter(())
        found.check_online()
        return found.replay()

    def entries(self, partition: int) -> Iterator[Written | Ended]:
        """As `replay`, with each record's transaction and the ends of transactions."""
        topic = self._broker.topics.get(self._name)
        found = topic.partition(partition) if topic is not None else None
        if found is not None:
            found.check_online()
        for header, records in found.replay_batches() if found is not None else ():
            if header.is_control:
                for record in records:
                    kind = control_type(record)
                    if kind in (ControlType.COMMIT, ControlType.ABORT):
                        yield Ended(header.producer_id, kind is ControlType.COMMIT)
                continue
            producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
            for record in records:
                if record.key is not None:
                    yield Written(record.key, record.value, producer_id)

    def _partition(self, index: int) -> Partition:
        self.ensure_topic()
        topic = self._broker.topics.get(self._name)
        partition = topic.partition(index) if topic is not None else None
        if partition is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._name} has no partition {index}")
        return partition


def _error_of(future: "asyncio.Future[None]") -> KafkaError | None:
    if future.cancelled():
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is stopping")
    error = future.exception()
    if error is None:
        return None
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
