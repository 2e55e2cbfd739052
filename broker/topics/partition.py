"""A partition: its log, its high watermark, its leader epoch, and who waits for it.

Replication will enter here and nowhere else: today the leader is the only replica, so the high watermark follows the
end of the log. Everything a produce request must be refused for is found before the first byte is written.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records import batch
from ...protocol.records.batch import BatchHeader, TimestampType
from ...protocol.records.compression import Compression
from ...protocol.records.control import Marker, encode_marker
from ...protocol.records.errors import RecordError
from ...protocol.records.record import Record
from ...storage.errors import CorruptBatch, StorageError, is_lasting
from ...storage.files import FileRange
from ...storage.log import Log
from ...storage.log_view import Location
from ...storage.segments.transaction_index import AbortedTransaction
from ..clock import Clock
from ..configs.broker_config import LONG_MAX
from ..purgatory import Purgatory
from .damage_reports import DamageReports
from .refusals import Refused, timestamps_ahead
from .validation import FIRST_WITH_BATCHES, Rules, prepare

if TYPE_CHECKING:
    from .flusher import Flusher

READ_COMMITTED = 1
# A client that does not say which leader it knows.
NO_LEADER_EPOCH = -1
# From this Produce version on a batch takes its partition into the transaction by being there (KIP-890).
FIRST_IMPLICIT = 12
# flush.ms where nobody asked for it.
NEVER_MS = 2**63 - 1

_log = logging.getLogger(__name__)


@dataclass(slots=True)  # frozen ones take twice the time to make, and one is made a batch
class Appended:
    """Where a batch went.

    `log_append_time_ms` is -1 unless the broker sets the timestamps, or had the batch already: then it is the largest
    timestamp in it, as Kafka's.
    """

    base_offset: int
    log_append_time_ms: int
    log_start_offset: int


class Partition:
    """One partition of a topic that this node leads."""

    def __init__(
        self,
        topic: str,
        index: int,
        log: Log,
        leader_epoch: int,
        clock: Clock,
        purgatory: Purgatory,
        flusher: "Flusher",
    ) -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.leader_epoch = leader_epoch
        # Invariant: log_start_offset <= high_watermark <= log_end_offset. Consumers see nothing at or past it.
        self.high_watermark = log.log_end_offset
        # A leader's epoch begins at once, not with its first record: clients ask where the one before ended.
        log.epochs.assign(leader_epoch, log.log_end_offset)
        self.max_message_bytes = 1048588
        self.log_append_time = False
        self.timestamp_after_max_ms = 3_600_000
        # What is asked of every batch beyond its header; None, the ordinary case, is nothing (validation.py).
        self.rules: Rules | None = None
        # Why it is offline; None: it is not. Invariant: once set it stays until the next start.
        self.failure: StorageError | None = None
        # Told when the disk may have failed for good; by default that is this partition's own matter.
        self.on_failure: Callable[[Partition, StorageError], None] = Partition.go_offline
        self._clock = clock
        self._purgatory = purgatory
        self._flusher = flusher
        self.damage = DamageReports(f"{topic}-{index}")

    @property
    def is_online(self) -> bool:
        """Whether it is served: False once its disk has failed."""
        return self.failure is None

    def note_failure(self, error: StorageError) -> None:
        """The disk refused something. What may be otherwise the next time (no room, no descriptor) changes nothing."""
        if self.failure is None and is_lasting(error):
            self.on_failure(self, error)

    def go_offline(self, error: StorageError, tell: bool = True) -> None:
        """Serves nobody any more, until the next start: KAFKA_STORAGE_ERROR to all, also to those who wait.

        `tell`: in a line of the log, where no other line says so.
        """
        if self.failure is None:
            self.failure = error
            self.log.give_up(error)
            self._purgatory.wake(self)
            if tell:
                _log.error("%s-%d is offline until the next start: %s", self.topic, self.index, error.message)

    def check_online(self) -> None:
        """Raises KAFKA_STORAGE_ERROR where the disk has failed."""
        if self.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic}-{self.index} is offline: {self.failure}")

    @property
    def last_stable_offset(self) -> int:
        """What read_committed may see: all below the first record of a transaction that is still open.

        It never passes the high watermark, nor lies below the log's start.
        """
        undecided = self.log.producers.first_undecided_offset()
        if undecided is None:
            return self.high_watermark
        return max(min(undecided, self.high_watermark), self.log.log_start_offset)

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest open transaction begins: retention and cleaning may not decide what lies behind it."""
        return self.log.producers.first_undecided_offset()

    @property
    def must_flush(self) -> bool:
        """flush.messages asks for an fsync before the last append is answered."""
        log = self.log
        return log.log_end_offset - log.recovery_point >= log.config.flush_messages

    # Write.

    def append(
        self, records: memoryview, version: int, prepared: bool = False, admit: "Admit | None" = None
    ) -> Appended:
        """Appends one batch from a client of this Produce version: checked, given its offsets in place, written.

        Errors are KafkaErrors: INVALID_RECORD (not exactly one batch, counts that disagree), CORRUPT_MESSAGE,
        MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, the idempotence errors, KAFKA_STORAGE_ERROR. Those of a batch that is
        whole are `Refused`. `prepared`: `prepare` has been here.
        `admit` asks the transaction coordinator, None where the request names no transactional id.
        """
        self.check_online()
        if not prepared and self.needs_preparing(version):
            records, prepared = self.prepare(records, version), True
        header = self._checked(records)
        if version < 7 and not prepared:
            check_compression(header, version)
        if header.attributes & batch.TRANSACTIONAL:
            self._admit(header, version, admit)
        now_ms = self._clock.now_ms()
        try:
            batch.check_shape(header)
            batch.check_codec(records, 0, header)
            if header.max_timestamp > now_ms + self.timestamp_after_max_ms and not self.log_append_time:
                self._refuse_timestamps(records, header, now_ms + self.timestamp_after_max_ms)
            duplicate = self.log.producers.check(header)
        except RecordError as error:
            raise Refused(error.code, str(error), self.log.log_start_offset) from error
        except Refused:
            raise
        except KafkaError as error:
            raise Refused(error.code, error.message, self.log.log_start_offset) from error
        if duplicate is not None:
            # The first sending's offset. Kafka's answer has the batch's timestamp too, whoever set it.
            return Appended(duplicate.base_offset, duplicate.timestamp_ms, self.log.log_start_offset)
        return self._write(records, header, now_ms)

    def needs_preparing(self, version: int) -> bool:
        """Whether a client's batch is looked into, rewritten or converted before it is appended."""
        return self.rules is not None or version < FIRST_WITH_BATCHES

    def prepare(self, records: memoryview, version: int) -> memoryview:
        """What is to be appended in the place of `records`. May run in a thread beside everything else."""
        now_ms = self._clock.now_ms()
        latest_ms = LONG_MAX if self.log_append_time else now_ms + self.timestamp_after_max_ms
        try:
            return prepare(records, version, self.rules, now_ms, latest_ms, self.max_message_bytes)
        except Refused as refused:
            refused.log_start_offset = self.log.log_start_offset
            raise

    def append_internal(self, records: bytearray) -> Appended:
        """Appends a batch that the broker made itself (group metadata). INVALID_PRODUCER_EPOCH where it is part of a
        transaction of a producer that was fenced off.
        """
        header = batch.read_header(records)
        if header.is_transactional:
            self.log.producers.check_epoch(header.producer_id, header.producer_epoch)
        return self._write(memoryview(records), header, self._clock.now_ms())

    def append_marker(
        self, producer_id: int, producer_epoch: int, marker: Marker, transaction_version: int
    ) -> Appended:
        """Ends the producer's transaction in this partition; one that has none here gets its marker all the same.

        INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR.
        """
        self.log.producers.check_marker(producer_id, producer_epoch, marker.coordinator_epoch, transaction_version)
        now_ms = self._clock.now_ms()
        records = bytearray(
            encode_marker(marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=now_ms)
        )
        return self._write(memoryview(records), batch.read_header(records), now_ms, marker)

    def _admit(self, header: BatchHeader, version: int, admit: "Admit | None") -> None:
        """A transactional batch of a producer that has no transaction open here: only the coordinator can let it in."""
        if admit is None:
            why = "a transactional batch in a request that names no transactional id"
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, why)
        producers = self.log.producers
        if producers.has_open_transaction(header.producer_id, header.producer_epoch) or header.is_control:
            return
        admit(self, header)
        if version >= FIRST_IMPLICIT:
            producers.check_first(header)

    def _write(self, records: memoryview, header: BatchHeader, now_ms: int, marker: Marker | None = None) -> Appended:
        log = self.log
        base_offset = log.log_end_offset
        batch.assign(records, 0, base_offset, self.leader_epoch)
        log_append_time_ms = -1
        if self.log_append_time:
            log_append_time_ms = now_ms
            batch.set_max_timestamp(records, 0, TimestampType.LOG_APPEND_TIME, now_ms)
            header = batch.read_header(records)
        elif header.attributes & batch.LOG_APPEND_TIME:
            # A producer cannot say that the broker set the time: Kafka takes such a bit back too.
            batch.set_max_timestamp(records, 0, TimestampType.CREATE_TIME, header.max_timestamp)
            header = batch.read_header(records)
        else:
            header = batch.assigned(header, base_offset, self.leader_epoch)
        try:
            log.append(records, header, now_ms, marker)
        except StorageError as error:
            self.note_failure(error)
            raise
        self.high_watermark = log.log_end_offset
        self._purgatory.wake(self)
        self._flush_if_due(now_ms)
        return Appended(base_offset, log_append_time_ms, log.log_start_offset)

    def flush_if_due(self) -> None:
        """Looks again whether what was appended is to be forced to disk: the configs may have changed."""
        if self.log.recovery_point < self.log.log_end_offset:
            self._flush_if_due(self._clock.now_ms())

    def _flush_if_due(self, now_ms: int) -> None:
        if self.log.needs_flush(now_ms):
            self._flusher.start(self)
        elif self.log.config.flush_ms < NEVER_MS:
            self._flusher.soon(self, self.log.config.flush_ms)

    def _checked(self, records: memoryview) -> BatchHeader:
        """The header of the one batch that `records` must be: whole, not too large, its CRC right."""
        try:
            header = batch.read_header(records)
            if header.size_bytes != len(records):
                if header.size_bytes < len(records):
                    batch.check_crc(records, 0, header)  # a length that is wrong makes the CRC wrong: that comes first
                raise KafkaError(
                    ErrorCode.INVALID_RECORD, "a produce request carries exactly one whole batch a partition"
                )
            if header.size_bytes > self.max_message_bytes:
                limit = f"max.message.bytes of {self.topic} is {self.max_message_bytes}"
                why = f"a batch of {header.size_bytes} bytes; {limit}"
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, why)
            batch.check_crc(records, 0, header)
        except RecordError as error:
            raise KafkaError(error.code, str(error)) from error
        return header

    def _refuse_timestamps(self, records: memoryview, header: BatchHeader, latest_ms: int) -> None:
        why = f"timestamps up to {header.max_timestamp}, but the latest that is accepted now is {latest_ms}"
        errors = timestamps_ahead(records, header, latest_ms)
        raise Refused(ErrorCode.INVALID_TIMESTAMP, why, self.log.log_start_offset, errors)

    # Read.

    def end_for(self, isolation_level: int) -> int:
        """The first offset that a reader of this isolation level may not see."""
        return self.last_stable_offset if isolation_level == READ_COMMITTED else self.high_watermark

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuses a client that knows an older or a newer leader than we are (KIP-320); -1 means that it does not
        know. KAFKA_STORAGE_ERROR to everyone where the partition is offline.
        """
        self.check_online()
        if current_leader_epoch in (NO_LEADER_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch} by now")
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"the leader epoch is only {self.leader_epoch} here")

    def diverging_epoch(self, offset: int, last_epoch: int) -> tuple[int, int] | None:
        """Where a reader who has records of `last_epoch` before `offset` has to go back to: (epoch, its end offset).

        None where the log has these too, or the reader does not say (-1). OFFSET_OUT_OF_RANGE where nobody can know.
        """
        if last_epoch < 0:
            return None
        epoch, end_offset = self.log.epochs.end_offset_for(last_epoch, self.log.log_end_offset)
        if epoch < 0:
            why = f"{self.topic}-{self.index} knows nothing of the leader epoch {last_epoch}"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, why)
        return (epoch, end_offset) if epoch < last_epoch or end_offset < offset else None

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
        """The file's bytes from the batch that holds `offset`; None where there is nothing yet.

        OFFSET_OUT_OF_RANGE as Kafka's. `cached`: NotCached rather than a wait; lookups.py finds what is then `located`.
        """
        end = self.end_for(isolation_level)
        if offset == end:
            return None
        try:
            return self.log.read(offset, max_bytes, end, minimum_one, cached=cached, located=located)
        except CorruptBatch as error:
            self.damage.tell(error)
            raise
        except StorageError as error:
            self.note_failure(error)
            raise

    def aborted_transactions(
        self, offset: int, fetched: FileRange, *, cached: bool = False
    ) -> list[AbortedTransaction]:
        """What a read_committed reader must leave out of what `read` gave it at `offset`, by first offset."""
        return self.log.aborted_transactions(offset, fetched, self.last_stable_offset, cached=cached)

    def replay(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Every record with a key, oldest first: how the internal topics are read at start."""
        for header, records in self.replay_batches():
            if header.is_control:
                continue
            for record in records:
                if record.key is not None:
                    yield record.key, record.value

    def replay_batches(self) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """Every batch with its records, oldest first, markers and all."""
        for header, data in self.log.iter_batches(
            self.log.log_start_offset, lambda each: self.damage.tell(each.error())
        ):
            yield header, self._decoded(header, data)

    def _decoded(self, header: BatchHeader, data: bytes) -> list[Record]:
        """The records of a batch; none of one that is damaged, which is told."""
        try:
            return batch.decode_batch(data, 0)
        except RecordError as error:
            _log.error("%s-%d: the batch at offset %d is lost: %s", self.topic, self.index, header.base_offset, error)
            return []


Admit = Callable[[Partition, BatchHeader], None]
"""Lets a transactional batch into a partition, or raises a KafkaError."""


def check_compression(header: BatchHeader, version: int) -> None:
    """zstd came with Produce 7: older requests must not carry it (KIP-110)."""
    if header.compression is Compression.ZSTD and version < 7:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later")
