"""The log of a coordinator: the internal topic that holds its records, such as `__consumer_offsets`.

A record is committed once its partition has it, in a cluster every replica in the ISR, and, if the topic requires an
fsync, once that is done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, encode_batch
from ...protocol.records.control import ControlType, control_type
from ...protocol.records.record import Record
from ..clock import Clock
from ..topics.flusher import Flusher
from ..topics.partition import Partition, RemotePartition
from ..topics.topics import Topics
from .interfaces import OnCommitted, TopicPartition
from .replay import Ended, Written

_log = logging.getLogger(__name__)


class CoordinatorLog:
    """The partitions of one internal topic.

    `new_partition_count` is how many partitions `create_topic` gives the topic: from then on their number is fixed.
    """

    def __init__(
        self,
        topic_name: str,
        topics: Topics,
        flusher: Flusher,
        clock: Clock,
        new_partition_count: int,
        create_topic: Callable[[str], object],
        delete_records: Callable[[Partition, int], None],
    ) -> None:
        self._name = topic_name
        self._topics = topics
        self._flusher = flusher
        self._clock = clock
        self._new_partition_count = new_partition_count
        self._create_topic = create_topic
        self._delete_records = delete_records

    def partition_count(self) -> int:
        """Return the number of partitions that the topic has, or will have when it is created."""
        topic = self._topics.get(self._name)
        return self._new_partition_count if topic is None else len(topic.partitions)

    def coordinator_epoch(self, partition: int) -> int:
        """Return the leader epoch of a partition, which markers have. Create the topic unless it exists."""
        return self._partition(partition).leader_epoch

    def has_open_transaction(self, partition: int, producer_id: int, producer_epoch: int) -> bool:
        """Return whether a producer has written to a partition in its open transaction."""
        self.ensure_topic()
        found = self._find(partition)
        return found is not None and found.log.producers.has_open_transaction(producer_id, producer_epoch)

    def ensure_topic(self) -> None:
        """Create the topic unless it exists."""
        if self._topics.get(self._name) is None:
            self._create_topic(self._name)

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        on_committed: OnCommitted,
        producer: tuple[int, int] | None = None,
        durable_after: Sequence[TopicPartition] | None = None,
    ) -> None:
        """Append the records as one batch, in the transaction of `producer` (its id and epoch) if one is given.

        `on_committed` is called when they are committed or cannot be: before this returns unless an fsync is required.
        With `durable_after` one is: the records reach the disk after everything that these partitions hold now.
        """
        try:
            target = self._partition(partition)
            if durable_after is None:
                self._append(target, records, producer)
        except KafkaError as error:
            on_committed(error)
            return
        if durable_after is not None:
            self._complete(self._append_durably(target, target.reign, records, producer, durable_after), on_committed)
        elif not target.must_flush and target.replication is None:
            on_committed(None)
        else:
            self._complete(self._commit(target, target.reign, target.log.log_end_offset), on_committed)

    async def _commit(self, target: Partition, reign: int, offset: int) -> None:
        """Wait until what was appended is on disk, where that is required, and in the ISR. Raises KafkaError."""
        if target.must_flush:
            await self._flusher.flush(target)
        await target.committed(reign, offset)

    def _append(
        self, target: Partition, records: list[tuple[bytes, bytes | None]], producer: tuple[int, int] | None
    ) -> None:
        target.check_leading()
        if target.replication is not None:
            target.replication.check_min_isr()
        target.append_internal(self._batch(records, producer))

    async def _append_durably(
        self,
        target: Partition,
        reign: int,
        records: list[tuple[bytes, bytes | None]],
        producer: tuple[int, int] | None,
        after: Sequence[TopicPartition],
    ) -> None:
        """Force `after` to disk, then append the records and force them to disk. Raises KafkaError.

        NOT_LEADER_OR_FOLLOWER where `reign` has ended meanwhile: another coordinator may have decided otherwise.
        """
        found = [each for name, index in after if (each := self._online(name, index)) is not None]
        for error in (await self._flusher.flush_all(found)).values():
            raise error
        target.check_reign(reign)
        self._append(target, records, producer)
        offset = target.log.log_end_offset
        await self._flusher.flush(target)
        await target.committed(reign, offset)

    def _online(self, name: str, index: int) -> Partition | None:
        """Return a partition, None if it was deleted or another broker leads it. Raises KAFKA_STORAGE_ERROR."""
        partition = self._topics.partition(name, index)
        if partition is None or isinstance(partition, RemotePartition):
            return None
        if not partition.is_online and self._topics.is_led_elsewhere(name, index):
            return None
        partition.check_online()
        return partition

    def _complete(self, work: Coroutine[None, None, None], on_committed: OnCommitted) -> None:
        running = asyncio.ensure_future(work)
        running.add_done_callback(lambda _: on_committed(_error_of(running)))

    def _batch(self, records: list[tuple[bytes, bytes | None]], producer: tuple[int, int] | None) -> bytearray:
        now_ms = self._clock.now_ms()
        producer_id, producer_epoch = producer or (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        return bytearray(
            encode_batch(
                [Record(at, now_ms, key, value) for at, (key, value) in enumerate(records)],
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transactional=producer is not None,
            )
        )

    def entries(self, partition: int) -> Iterator[Written | Ended]:
        """Return every record that has a key and every end of a transaction, oldest first.

        Nothing if the topic does not exist. KAFKA_STORAGE_ERROR if the partition is offline, CORRUPT_MESSAGE where the
        disk cannot read a batch: another try may read it, and nobody may decide without what it holds.
        """
        found = self._find(partition)
        if found is None:
            return
        found.check_online()
        for header, records in found.replay_batches():
            if header.is_control:
                yield from _ends(header.producer_id, records)
                continue
            producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
            for record in records:
                if record.key is not None:
                    yield Written(record.key, record.value, producer_id, record.offset)

    def end_offset(self, partition: int) -> int:
        """Return the offset of the next record; 0 if the topic does not exist."""
        found = self._find(partition)
        return 0 if found is None or not found.is_online else found.log.log_end_offset

    def delete_before(self, partition: int, offset: int) -> None:
        """Delete what is below the offset. A partition that cannot be deleted from now is left for the next time."""
        found = self._find(partition)
        if found is None or not found.is_online or found.log.log_start_offset >= offset:
            return
        try:
            self._delete_records(found, min(offset, found.high_watermark))
        except KafkaError as error:
            _log.warning("%s-%d: old records are not deleted: %s", self._name, partition, error.message)

    def _find(self, index: int) -> Partition | None:
        return self._topics.partition(self._name, index)

    def _partition(self, index: int) -> Partition:
        topic = self._topics.get(self._name)
        partition = topic.partition(index) if topic is not None else None
        if topic is None:
            self._create_topic(self._name)
            partition = self._find(index)
        if partition is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._name} has no partition {index}")
        return partition


def _ends(producer_id: int, records: list[Record]) -> Iterator[Ended]:
    for record in records:
        kind = control_type(record)
        if kind in (ControlType.COMMIT, ControlType.ABORT):
            yield Ended(producer_id, kind is ControlType.COMMIT)


def _error_of(flush: asyncio.Future[None]) -> KafkaError | None:
    if flush.cancelled():
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is stopping")
    error = flush.exception()
    if error is None or isinstance(error, KafkaError):
        return error
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
