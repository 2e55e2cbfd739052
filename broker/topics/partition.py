"""A partition: its log, its high watermark, its leader epoch, and the requests that wait for it.

A broker that is alone leads every partition from the time it is opened (`lead`), and the high watermark follows the end
of the log. In a cluster a partition is opened without a leader (`open`). The controller then makes this broker its
leader (`begin_leading`: `replication` says where the high watermark is) or a follower (`stop_leading`: the fetcher
appends what the leader has).

A batch is validated completely before its first byte is written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records import batch
from ...protocol.records.batch import BatchHeader, TimestampType
from ...protocol.records.control import Marker, encode_marker
from ...protocol.records.errors import RecordError
from ...protocol.records.record import Record
from ...storage.errors import CorruptBatch, StorageError
from ...storage.files import FileRange
from ...storage.log import Log
from ...storage.segments.damage import Damage
from ...storage.segments.location import Location
from ...storage.segments.staged_batch import StagedBatch
from ...storage.segments.transaction_index import AbortedTransaction
from ..clock import Clock
from ..configs.definition import LONG_MAX
from ..purgatory import Purgatory
from . import validation
from .damage_reports import DamageReports
from .marker_watch import MarkerWatch
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
)

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
# A follower's: it reads what is not committed yet. No client can ask for it, because the wire has 8 bits.
READ_TO_END = 1000
# A client that does not say which leader it knows.
NO_LEADER_EPOCH = -1
# From this Produce version on the first batch of a transaction adds its partition to the transaction (KIP-890).
FIRST_IMPLICIT = 12
# How long a coordinator's record may wait for the ISR: longer than anything but a stop of the broker.
COMMIT_TIMEOUT_MS = 24 * 3_600_000

_log = logging.getLogger(__name__)


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


class Replication(Protocol):
    """What the leader of a partition in a cluster knows of its followers."""

    def appended(self, log_end_offset: int) -> int:
        """Note an append; return the high watermark."""
        ...

    def check_min_isr(self) -> None:
        """Raise NOT_ENOUGH_REPLICAS where the ISR is smaller than min.insync.replicas."""

    def check_after_append(self, offset: int) -> bool:
        """Return whether the ISR has everything below `offset`. Raises NOT_ENOUGH_REPLICAS_AFTER_APPEND."""
        ...

    def check_end_known(self) -> None:
        """Raise OFFSET_NOT_AVAILABLE where an earlier leader may have had a higher high watermark."""

    def configured(self, min_isr: int) -> None:
        """Go by min.insync.replicas of the topic's configs as they are now."""

    def check_follower(self, follower: int) -> None:
        """Raise UNKNOWN_LEADER_EPOCH for a broker that has no replica of the partition."""

    def is_throttled(self, follower: int) -> bool:
        """Return whether a follower gets no records now, because it is not in sync and throttled."""
        ...

    def note_sent(self, size: int) -> None:
        """Note that `size` bytes are sent to a follower."""

    def note_fetch(self, follower: int, offset: int, broker_epoch: int, log_start_offset: int) -> None:
        """Note that a follower has everything from `log_start_offset` up to `offset`."""

    def reader_in_rack(self, rack: str, offset: int) -> int | None:
        """Return the follower from which a consumer in `rack` is to read; None: from the leader."""
        ...


class Partition:
    """One partition of a topic. `lead` or `open` it before it is used."""

    log: Log
    # Invariant: log_start_offset <= high_watermark <= log_end_offset. Consumers see nothing at or past it.
    high_watermark: int

    def __init__(
        self,
        topic: str,
        index: int,
        leader_epoch: int,
        clock: Clock,
        purgatory: Purgatory,
        schedule_flush: Callable[[Partition, int], None],
        on_failure: Callable[[Partition, StorageError], None],
        failure: StorageError | None = None,
        add_producer: Callable[[], None] = lambda: None,
    ) -> None:
        """`schedule_flush` takes a delay in milliseconds, `on_failure` what the disk has rejected."""
        self.topic = topic
        self.index = index
        self.leader_epoch = leader_epoch
        self.high_watermark = 0
        self.max_message_bytes = 1048588
        self.log_append_time = False
        self.timestamp_after_max_ms = 3_600_000
        self.min_insync_replicas = 1
        # The requirements of the topic for every batch, beyond its header. An ordinary topic has none.
        self.rules: ValidationRules | None = None
        # Why the partition is offline, None while it is online. Invariant: once set it stays until the next start.
        self.failure = failure
        # In a cluster, while this broker leads the partition; None: a leader that is alone, or no leader.
        self.replication: Replication | None = None
        self.marker_watch = MarkerWatch()
        # Rises whenever this broker ceases to lead. Epochs of one reign follow each other without another leader.
        self.reign = 0
        # Whether the end of the log may be on disk alone, and the next append would have to read it.
        self.is_cold = False
        # Why clients may not write, nor read what only a leader knows; None: this broker leads the partition.
        self.not_leading: KafkaError | None = None
        if failure is not None:
            self._refuse_all(failure)
        self._clock = clock
        self._purgatory = purgatory
        self._schedule_flush = schedule_flush
        self._on_failure = on_failure
        # Counts a producer id that is new here, or raises (producer_limit.py).
        self._add_producer = add_producer
        self._damage = DamageReports(f"{topic}-{index}")

    def lead(self, log: Log) -> None:
        """Serve `log` as its leader."""
        self.log = log
        self.is_cold = log.is_resting
        self.high_watermark = log.log_end_offset
        # The epoch begins at once, not with its first record: clients ask where the previous one ended.
        log.epochs.assign(self.leader_epoch, log.log_end_offset)

    # -- Roles in a cluster ----------------------------------------------------------------------------

    def open(self, log: Log, high_watermark: int) -> None:
        """Hold `log` without a role. The high watermark is the last one that is known."""
        self.log = log
        self.is_cold = log.is_resting
        self.high_watermark = max(min(high_watermark, log.log_end_offset), log.log_start_offset)
        self.leader_epoch = NO_LEADER_EPOCH
        self._refuse_leading()

    def begin_leading(self, leader_epoch: int, replication: Replication) -> None:
        """Lead from now on, in a new leader epoch or with a new view of the followers."""
        if self.leader_epoch != leader_epoch:
            self.leader_epoch = leader_epoch
            self.log.epochs.assign(leader_epoch, self.log.log_end_offset)
        self.replication = replication
        if self.failure is None:
            self.not_leading = None
        self._purgatory.wake(self)

    def stop_leading(self, leader_epoch: int) -> None:
        """Follow another leader from now on. Requests that wait are woken, and learn it."""
        self.leader_epoch = leader_epoch
        self.replication = None
        self.reign += 1
        self._refuse_leading()
        self._purgatory.wake(self)

    def _refuse_leading(self) -> None:
        if self.failure is None:
            why = f"this broker does not lead {self.topic}-{self.index}"
            self.not_leading = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, why)

    def _refuse_all(self, failure: StorageError) -> None:
        why = f"{self.topic}-{self.index} is offline: {failure}"
        self.not_leading = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why)

    def check_leading(self) -> None:
        """Raise NOT_LEADER_OR_FOLLOWER where another broker leads, KAFKA_STORAGE_ERROR where the disk has failed."""
        if self.not_leading is not None:
            # A new one: an exception that is raised again and again keeps every traceback.
            raise KafkaError(self.not_leading.code, self.not_leading.message)

    def is_committed(self, reign: int, offset: int) -> bool:
        """Return whether every replica in the ISR has what was appended below `offset` in `reign`.

        Raises NOT_LEADER_OR_FOLLOWER where another broker has led since, for nobody knows what becomes of the records
        then, NOT_ENOUGH_REPLICAS_AFTER_APPEND, KAFKA_STORAGE_ERROR.
        """
        self.check_leading()
        if self.reign != reign:
            why = f"{self.topic}-{self.index} has had another leader since the records were appended"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, why)
        return self.replication is None or self.replication.check_after_append(offset)

    async def committed(self, reign: int, offset: int) -> None:
        """Wait until every replica in the ISR has what was appended below `offset` in `reign`.

        Raises as `is_committed` does, and REQUEST_TIMED_OUT when the broker stops. There is no other time-out: until
        the epoch ends nobody can know whether the records stay.
        """

        def attempt(expired: bool) -> bool | None:
            if self.is_committed(reign, offset):
                return True
            if expired:
                why = f"the ISR of {self.topic}-{self.index} does not have everything below offset {offset} yet"
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, why)
            return None

        if attempt(False) is None:
            await self._purgatory.park((self,), COMMIT_TIMEOUT_MS, attempt)

    def advance(self, high_watermark: int) -> None:
        """Move the high watermark, and wake the requests that wait for it. A follower's may also go back."""
        if high_watermark != self.high_watermark:
            self.high_watermark = high_watermark
            self._purgatory.wake(self)

    def append_replicated(
        self, records: memoryview, header: BatchHeader, marker: Marker | None, staged: StagedBatch | None = None
    ) -> None:
        """Append a batch that the leader has, as it is: offsets, leader epoch and timestamps are the leader's."""
        now_ms = self._clock.now_ms()
        try:
            self.log.append(records, header, now_ms, marker, staged)
        except StorageError as error:
            self.note_failure(error)
            raise
        self._purgatory.wake(self)
        self.flush_if_due()

    def note_log_start(self) -> None:
        """Tell readers that the log start offset has moved."""
        self._purgatory.wake(self)

    # -- State -----------------------------------------------------------------------------------------

    @property
    def is_online(self) -> bool:
        """Whether clients are served: False once the disk has failed."""
        return self.failure is None

    def check_online(self) -> None:
        """Raise KAFKA_STORAGE_ERROR where the disk has failed."""
        if self.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic}-{self.index} is offline: {self.failure}")

    def note_failure(self, error: StorageError) -> None:
        """Pass on an error of the disk, so that it takes offline what is broken (disk_failures.py)."""
        if self.failure is None:
            self._on_failure(self, error)

    def go_offline(self, error: StorageError, *, log: bool = True) -> None:
        """Serve nobody until the next start: every request gets KAFKA_STORAGE_ERROR, waiting ones too.

        `log` is False where another line of the log covers this partition.
        """
        if self.failure is None:
            self.failure = error
            self._refuse_all(error)
            self.log.give_up(error)
            self._purgatory.wake(self)
            if log:
                _log.error("%s-%d is offline until the next start: %s", self.topic, self.index, error.message)

    def report_damage(self, error: CorruptBatch) -> None:
        """Log damage in the files, once for each place."""
        self._damage.report(error)

    def report_failure(self, error: StorageError) -> None:
        """Log what could not be read, once for each place, and take offline what is broken."""
        self._damage.report_failure(error)
        self.note_failure(error)

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which a read_committed reader sees records: where the first open transaction begins.

        It lies between the log's start and the high watermark.
        """
        undecided = self.log.producers.first_undecided_offset()
        if undecided is None:
            return self.high_watermark
        return max(min(undecided, self.high_watermark), self.log.log_start_offset)

    @property
    def must_flush(self) -> bool:
        """Whether flush.messages requires an fsync before the last append is acknowledged."""
        log = self.log
        return log.log_end_offset - log.recovery_point >= log.config.flush_messages

    # -- Append ----------------------------------------------------------------------------------------

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
        verify(self, header)
        if version >= FIRST_IMPLICIT:
            producers.check_first(header)

    def append_internal(self, records: bytearray) -> Appended:
        """Append a batch that a coordinator made. INVALID_PRODUCER_EPOCH where its transaction's producer is fenced."""
        header = batch.read_header(records)
        if header.attributes & batch.TRANSACTIONAL:
            self.log.producers.check_epoch(header.producer_id, header.producer_epoch)
        return self._write(memoryview(records), header, self._clock.now_ms())

    def append_marker(
        self, producer_id: int, producer_epoch: int, marker: Marker, transaction_version: int, decided_ms: int = 0
    ) -> Appended:
        """End the producer's transaction in this partition. The marker is written even if there is none.

        Its time is not before `decided_ms`, the time of the decision.

        Raises INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER.
        """
        self.check_leading()
        self.marker_watch.note_marker(producer_id)
        self.log.producers.check_marker(producer_id, producer_epoch, marker.coordinator_epoch, transaction_version)
        now_ms = max(self._clock.now_ms(), decided_ms)
        records = bytearray(
            encode_marker(marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=now_ms)
        )
        return self._write(memoryview(records), batch.read_header(records), now_ms, marker)

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
        self._purgatory.wake(self)
        flush_delay_ms = log.flush_delay_ms(now_ms)
        if flush_delay_ms is not None:
            self._schedule_flush(self, flush_delay_ms)
        must_flush = end_offset - log.recovery_point >= log.config.flush_messages
        return Appended(base_offset, log_append_time_ms, log.log_start_offset, must_flush)

    def flush_if_due(self) -> None:
        """Schedule the fsync that the present configs require; they may have changed."""
        delay_ms = self.log.flush_delay_ms(self._clock.now_ms())
        if delay_ms is not None:
            self._schedule_flush(self, delay_ms)

    def _latest_ms(self, now_ms: int) -> int:
        """Return the latest timestamp that a producer may set now."""
        return LONG_MAX if self.log_append_time else now_ms + self.timestamp_after_max_ms

    # -- Read ------------------------------------------------------------------------------------------

    def end_for(self, isolation_level: int) -> int:
        """Return the first offset that a reader of this isolation level does not see."""
        if isolation_level == READ_COMMITTED:
            return self.last_stable_offset
        return self.log.log_end_offset if isolation_level == READ_TO_END else self.high_watermark

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Reject a client that knows an older or newer leader (KIP-320); -1 means that it knows none.

        Raises FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, and KAFKA_STORAGE_ERROR where the partition is offline.
        """
        if self.failure is None and current_leader_epoch in (NO_LEADER_EPOCH, self.leader_epoch):
            return
        self.check_online()
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch} by now")
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"the leader epoch is only {self.leader_epoch} here")

    def diverging_epoch(self, offset: int, last_epoch: int) -> tuple[int, int] | None:
        """Return (epoch, its end offset) to which a reader with records of `last_epoch` before `offset` must go back.

        None where the log has these records too, or the reader names no epoch (-1). OFFSET_OUT_OF_RANGE where the log
        knows nothing of that epoch.
        """
        if last_epoch < 0:
            return None
        found = self.log.epochs.divergence(offset, last_epoch, self.log.log_end_offset)
        if found is not None and found[0] < 0:
            why = f"{self.topic}-{self.index} knows nothing of the leader epoch {last_epoch}"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, why)
        return found

    def read(
        self,
        offset: int,
        max_bytes: int,
        isolation_level: int,
        minimum_one: bool,
        *,
        cached: bool = False,
        located: Location | None = None,
    ) -> FileRange | None:
        """Return the file's bytes from the batch that holds `offset`; None where there is nothing yet.

        OFFSET_OUT_OF_RANGE as in Kafka. With `cached` it raises NotCached rather than wait for the disk; disk_reads.py
        then finds in a thread what is `located`.
        """
        end = self.high_watermark if isolation_level == READ_UNCOMMITTED else self.end_for(isolation_level)
        # A reader may have come from a replica whose high watermark is further than this one's.
        if offset == end or end < offset <= self.log.log_end_offset:
            return None
        try:
            return self.log.read(offset, max_bytes, end, minimum_one, cached=cached, located=located)
        except CorruptBatch as error:
            self.report_damage(error)
            raise
        except StorageError as error:
            self.note_failure(error)
            raise

    def aborted_transactions(
        self, offset: int, fetched: FileRange, *, cached: bool = False
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions in what `read` returned at `offset`, by first offset."""
        return self.log.aborted_transactions(offset, fetched, self.last_stable_offset, cached=cached)

    # -- Replay ----------------------------------------------------------------------------------------

    def replay(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield every record that has a key, oldest first: a coordinator reads its state this way."""
        for header, records in self.replay_batches():
            if header.is_control:
                continue
            for record in records:
                if record.key is not None:
                    yield record.key, record.value

    def replay_batches(self) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """Yield every batch with its records, oldest first, transaction markers included. Raises UnreadableBatch."""
        for header, data in self.log.iter_batches(self.log.log_start_offset, self._pass_over):
            yield header, self._decode(header, data)

    def _pass_over(self, damage: Damage) -> None:
        """Report damage in a replay. Raises UnreadableBatch where another try may read what is there."""
        error = damage.error()
        self.report_damage(error)
        if damage.is_unreadable:
            raise error

    def _decode(self, header: BatchHeader, data: bytes) -> list[Record]:
        """Return the records of a batch; none, and a line in the log, for a damaged one."""
        try:
            return batch.decode_batch(data, 0)
        except RecordError as error:
            _log.error("%s-%d: the batch at offset %d is lost: %s", self.topic, self.index, header.base_offset, error)
            return []


# Lets the transaction coordinator verify a batch for a partition. Raises a KafkaError where it may not be appended.
VerifyTransaction = Callable[[Partition, BatchHeader], None]
