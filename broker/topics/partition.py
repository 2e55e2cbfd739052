"""A partition: what is appended to it, by producers, coordinators and the leader that it follows.

Its state, its roles and what is read of it are in partition_state.py. A batch is validated completely before its first
byte is written.

Partitions without a log have their place in the topic, too. Where the data directory was offline at start, clients get
KAFKA_STORAGE_ERROR, and Metadata shows no leader. Where other brokers of the cluster hold the partition, clients get
NOT_LEADER_OR_FOLLOWER, and Metadata tells them who leads.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records import batch
from ...protocol.records.batch import BatchHeader, TimestampType
from ...protocol.records.control import Marker, encode_marker
from ...protocol.records.errors import RecordError
from ...storage.errors import StorageError
from ...storage.segments.staged_batch import StagedBatch
from ..configs.definition import LONG_MAX
from ..configs.topic_config import TopicConfig
from . import validation
from .partition_state import PartitionState, Surroundings
from .validation import (
    FIRST_WITH_BATCHES,
    FIRST_WITH_ZSTD,
    BatchRejected,
    ColdLog,
    LargeBatch,
    PreparedBatch,
    ValidationRules,
    check_compression,
    check_size,
    is_large,
    is_very_large,
    prepare,
    read_batch,
    reject_small_timestamps,
    validation_rules,
)

# From this Produce version on the first batch of a transaction adds its partition to the transaction (KIP-890).
FIRST_IMPLICIT = 12


class MarkerWatch:
    """The producers of one partition that another broker is asked about. A producer has one watch at a time."""

    def __init__(self) -> None:
        # A marker takes the entry of its producer away, a newer watch replaces it.
        self._watches: dict[int, object] = {}

    @contextmanager
    def watch(self, producer_id: int) -> Generator[Callable[[], bool]]:
        """Yield what says whether the watch still stands: no marker of the producer came, and no newer watch."""
        token = self._watches[producer_id] = object()
        try:
            yield lambda: self._watches.get(producer_id) is token
        finally:
            if self._watches.get(producer_id) is token:
                del self._watches[producer_id]

    def note_marker(self, producer_id: int) -> None:
        """Note that a marker of the producer was appended."""
        self._watches.pop(producer_id, None)


@dataclass(slots=True)  # a frozen one takes twice the time to make, and every batch makes one
class Appended:
    """Where a batch went.

    `log_append_time_ms` is -1 unless the broker sets the timestamps. For a duplicate it is the largest timestamp of the
    first copy, as in Kafka.
    """

    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    # Whether flush.messages requires an fsync before the batch is acknowledged.
    must_flush: bool


class Partition(PartitionState):
    """One partition of a topic. `configure` it, too, before it is used."""

    def __init__(
        self, topic: str, index: int, leader_epoch: int, surroundings: Surroundings, failure: StorageError | None = None
    ) -> None:
        super().__init__(topic, index, leader_epoch, surroundings, failure)
        self.max_message_bytes = 1048588
        self.log_append_time = False
        self.timestamp_after_max_ms = 3_600_000
        self.min_insync_replicas = 1
        # The requirements of the topic for every batch, beyond its header. An ordinary topic has none.
        self.rules: ValidationRules | None = None
        self.marker_watch = MarkerWatch()

    def configure(self, config: TopicConfig, producer_id_expiration_ms: int) -> None:
        """Go by these configs of the topic, and by one of the broker's, from the next append on."""
        self.log.config = config.log_config(producer_id_expiration_ms)
        self.max_message_bytes = config.max_message_bytes
        self.log_append_time = config.message_timestamp_type == "LogAppendTime"
        self.timestamp_after_max_ms = config.message_timestamp_after_max_ms
        self.min_insync_replicas = config.min_insync_replicas
        self.rules = validation_rules(config)
        if self.replication is not None:
            self.replication.configured(config.min_insync_replicas)

    # -- From clients ----------------------------------------------------------------------------------

    def prepare(self, records: memoryview, version: int) -> PreparedBatch:
        """Return the batch that `append_prepared` takes in the place of `records`. May run in a thread."""
        now_ms, max_bytes = self._clock.now_ms(), self.max_message_bytes
        try:
            prepared = prepare(records, version, self.rules, now_ms, self._latest_ms(now_ms), max_bytes, self.topic)
        except BatchRejected as rejected:
            rejected.log_start_offset = self.log.log_start_offset
            raise
        if is_very_large(prepared.records):
            return prepared._replace(header=self._stamp(*prepared, now_ms))
        return prepared

    def append(self, records: memoryview, version: int, verify: VerifyTransaction | None = None) -> Appended:
        """Validate a batch from a client of this Produce version, assign its offsets in place and append it.

        Raises KafkaError: INVALID_RECORD (not exactly one batch, counts that disagree), CORRUPT_MESSAGE,
        MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, the errors of idempotence and transactions, KAFKA_STORAGE_ERROR. Those of
        a whole batch are BatchRejected, or LargeBatch where a thread must `prepare` it first. ColdLog: a thread must
        `warm_up` the partition first. `verify` is None where the request has no transactional id.
        """
        self.check_leading()
        if self.is_cold:
            raise ColdLog(ErrorCode.UNKNOWN_SERVER_ERROR, "a thread must read the end of the log")
        if len(records) >= validation.VERY_LARGE_BYTES:  # is_very_large would be a call for each batch
            raise LargeBatch(ErrorCode.UNKNOWN_SERVER_ERROR, "a thread must write this batch")
        if self.rules is not None or version < FIRST_WITH_BATCHES:
            if is_large(records):
                raise LargeBatch(ErrorCode.UNKNOWN_SERVER_ERROR, "a thread must prepare this batch")
            return self.append_prepared(self.prepare(records, version), version, verify)
        header = read_batch(records, self.max_message_bytes, self.topic)
        if version < FIRST_WITH_ZSTD:
            check_compression(header)
        if header.attributes & batch.CODEC_MASK and batch.is_boastful(header):  # most batches need no call
            raise LargeBatch(ErrorCode.UNKNOWN_SERVER_ERROR, "a thread must count the records of this batch")
        return self._append_produced(records, header, version, verify)

    def append_prepared(
        self,
        prepared: PreparedBatch,
        version: int,
        verify: VerifyTransaction | None = None,
        staged: StagedBatch | None = None,
    ) -> Appended:
        """Append a batch that `prepare` has returned, and that may be staged since."""
        self.check_leading()
        records, header = prepared
        check_size(header, self.max_message_bytes, self.topic)
        return self._append_produced(records, header, version, verify, staged)

    def _append_produced(
        self,
        records: memoryview,
        header: BatchHeader,
        version: int,
        verify: VerifyTransaction | None,
        staged: StagedBatch | None = None,
    ) -> Appended:
        if header.attributes & batch.TRANSACTIONAL:
            self._verify_transaction(header, version, verify)
        now_ms = self._clock.now_ms()
        try:
            batch.check_shape(header)
            batch.check_body(records, 0, header)
            if header.max_timestamp > now_ms + self.timestamp_after_max_ms and not self.log_append_time:
                reject_small_timestamps(records, header, now_ms + self.timestamp_after_max_ms)
            duplicate = self.log.producers.check(header) if header.producer_id >= 0 else None
        except RecordError as error:
            raise BatchRejected(error.code, str(error), self.log.log_start_offset) from error
        except BatchRejected as rejected:
            rejected.log_start_offset = self.log.log_start_offset
            raise
        except KafkaError as error:
            raise BatchRejected(error.code, error.message, self.log.log_start_offset) from error
        if duplicate is not None:
            # The first copy may not be on disk yet.
            return Appended(duplicate.base_offset, duplicate.timestamp_ms, self.log.log_start_offset, self.must_flush)
        if header.producer_id >= 0 and self.log.producers.get(header.producer_id) is None:
            self._add_producer()
        return self._write(records, header, now_ms, staged=staged)

    def _verify_transaction(self, header: BatchHeader, version: int, verify: VerifyTransaction | None) -> None:
        """Let the coordinator verify a batch whose producer has no open transaction here."""
        if verify is None:
            why = "a transactional batch in a request that names no transactional id"
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, why)
        producers = self.log.producers
        if producers.has_open_transaction(header.producer_id, header.producer_epoch) or header.is_control:
            return
        # One that adds its partition by itself (KIP-890) is its producer's first here.
        producers.ask(header, 0 if version >= FIRST_IMPLICIT else header.base_sequence)
        verify(self, header)

    # -- From coordinators, and from the leader --------------------------------------------------------

    def append_internal(self, records: bytearray) -> Appended:
        """Append a batch that a coordinator made. INVALID_PRODUCER_EPOCH where its transaction's producer is fenced."""
        header = batch.read_header(records)
        if header.attributes & batch.TRANSACTIONAL:
            self.log.producers.check_epoch(header.producer_id, header.producer_epoch)
        appended = self._write(memoryview(records), header, self._clock.now_ms())
        self._leave_out(header.last_offset_delta + 1, len(records))
        return appended

    def append_marker(
        self, producer_id: int, producer_epoch: int, marker: Marker, transaction_version: int, time_ms: int = 0
    ) -> Appended:
        """End the producer's transaction in this partition. The marker is written even if there is none.

        Its timestamp is `time_ms` if that is given.

        Raises INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER.
        """
        self.check_leading()
        self.marker_watch.note_marker(producer_id)
        self.log.producers.check_marker(producer_id, producer_epoch, marker.coordinator_epoch, transaction_version)
        now_ms = self._clock.now_ms()
        time_ms = time_ms or now_ms
        records = bytearray(
            encode_marker(marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=time_ms)
        )
        appended = self._write(memoryview(records), batch.read_header(records), now_ms, marker)
        self._leave_out(1, len(records))
        return appended

    def append_replicated(
        self, records: memoryview, header: BatchHeader, marker: Marker | None, staged: StagedBatch | None = None
    ) -> None:
        """Append a batch that the leader has, as it is: offsets, leader epoch and timestamps are the leader's."""
        now_ms = self._clock.now_ms()
        if marker is not None:
            # Before this broker leads again, the answer of a coordinator may come that is older.
            self.marker_watch.note_marker(header.producer_id)
        try:
            self.log.append(records, header, now_ms, marker, staged)
        except StorageError as error:
            self.note_failure(error)
            raise
        self._purgatory.wake(self)
        self.flush_if_due()

    # -- Writing ---------------------------------------------------------------------------------------

    def _stamp(self, records: memoryview, header: BatchHeader, now_ms: int) -> BatchHeader:
        """Set the time of a batch where it is the broker's to set, and its CRC; return its new header."""
        if self.log_append_time:
            return batch.set_max_timestamp(records, 0, header, TimestampType.LOG_APPEND_TIME, now_ms)
        if header.attributes & batch.LOG_APPEND_TIME:
            # A producer cannot claim that the broker has set the time. Kafka clears this bit too.
            return batch.set_max_timestamp(records, 0, header, TimestampType.CREATE_TIME, header.max_timestamp)
        return header

    def _write(
        self,
        records: memoryview,
        header: BatchHeader,
        now_ms: int,
        marker: Marker | None = None,
        staged: StagedBatch | None = None,
    ) -> Appended:
        log = self.log
        base_offset = log.log_end_offset
        header = batch.assign(records, 0, header, base_offset, self.leader_epoch)
        log_append_time_ms = -1
        if self.log_append_time or header.attributes & batch.LOG_APPEND_TIME:
            if staged is None:
                header = self._stamp(records, header, now_ms)
            if header.attributes & batch.LOG_APPEND_TIME:
                log_append_time_ms = header.max_timestamp
        try:
            log.append(records, header, now_ms, marker, staged)
        except StorageError as error:
            self.note_failure(error)
            raise
        replication, end_offset = self.replication, log.log_end_offset
        self.high_watermark = end_offset if replication is None else replication.appended(end_offset)
        if marker is not None:
            log.producers.replicated(self.high_watermark)
        self._purgatory.wake(self)
        flush_delay_ms = log.flush_delay_ms(now_ms)
        must_flush = flush_delay_ms == 0 and end_offset - log.recovery_point >= log.config.flush_messages
        if flush_delay_ms is not None:
            self._schedule_flush(self, flush_delay_ms)
        return Appended(base_offset, log_append_time_ms, log.log_start_offset, must_flush)

    @property
    def must_flush(self) -> bool:
        """Whether flush.messages requires an fsync before the last append is acknowledged."""
        log = self.log
        return log.log_end_offset - log.recovery_point >= log.config.flush_messages

    def flush_if_due(self) -> None:
        """Schedule the fsync that the present configs require; they may have changed."""
        delay_ms = self.log.flush_delay_ms(self._clock.now_ms())
        if delay_ms is not None:
            self._schedule_flush(self, delay_ms)

    def _latest_ms(self, now_ms: int) -> int:
        """Return the latest timestamp that a producer may set now."""
        return LONG_MAX if self.log_append_time else now_ms + self.timestamp_after_max_ms


# Lets the transaction coordinator verify a batch for a partition. Raises a KafkaError where it may not be appended.
VerifyTransaction = Callable[[Partition, BatchHeader], None]


class OfflinePartition(Partition):
    """A Partition that has failed before it could `lead` a log. Reading `log` raises KAFKA_STORAGE_ERROR."""

    @property
    def log(self) -> NoReturn:  # type: ignore[override]
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.failure))


class RemotePartition(OfflinePartition):
    """A Partition without a log. Reading `log` raises NOT_LEADER_OR_FOLLOWER."""

    @property
    def is_online(self) -> bool:
        return False

    def check_online(self) -> None:
        self.check_leading()

    def check_epoch(self, current_leader_epoch: int) -> None:
        self.check_leading()

    @property
    def log(self) -> NoReturn:  # type: ignore[override]
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} is held by other brokers")
