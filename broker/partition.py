"""A partition: its log, its high watermark, its leader epoch, and who waits for it.

Replication will enter here and nowhere else: today the leader is the only replica, so the high watermark follows the
end of the log. Everything a produce request must be refused for is found before the first byte is written.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.records import batch
from ..protocol.records.batch import BatchHeader, TimestampType
from ..protocol.records.compression import Compression
from ..protocol.records.errors import RecordError
from ..storage.files import FileRange
from ..storage.log import Log
from .clock import Clock
from .purgatory import Purgatory
from .refusals import Refused, timestamps_ahead
from .topic_config import MAX_TIMESTAMP_AHEAD_MS

if TYPE_CHECKING:
    from .flushing import Flusher

READ_COMMITTED = 1
# flush.ms where nobody asked for it.
NEVER_MS = 2**63 - 1


@dataclass(slots=True, frozen=True)
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
        self._clock = clock
        self._purgatory = purgatory
        self._flusher = flusher

    @property
    def last_stable_offset(self) -> int:
        """What read_committed may see; transactions will hold it back."""
        return self.high_watermark

    @property
    def must_flush(self) -> bool:
        """flush.messages asks for an fsync before the last append is answered."""
        log = self.log
        return log.log_end_offset - log.recovery_point >= log.config.flush_messages

    # Write.

    def append(self, records: memoryview, version: int) -> Appended:
        """Appends one batch from a client of this Produce version: checked, given its offsets in place, written.

        Errors are KafkaErrors: INVALID_RECORD (not exactly one batch, counts that disagree), CORRUPT_MESSAGE,
        MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, the idempotence errors, KAFKA_STORAGE_ERROR. Those of a batch that is
        whole are `Refused`.
        """
        header = self._checked(records)
        if version < 7:
            check_compression(header, version)
        now_ms = self._clock.now_ms()
        try:
            batch.check_shape(header)
            batch.check_codec(records, 0, header)
            if header.max_timestamp > now_ms + MAX_TIMESTAMP_AHEAD_MS and not self.log_append_time:
                self._refuse_timestamps(records, header, now_ms + MAX_TIMESTAMP_AHEAD_MS)
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

    def append_internal(self, records: bytearray) -> Appended:
        """Appends a batch that the broker made itself (group metadata)."""
        return self._write(memoryview(records), batch.read_header(records), self._clock.now_ms())

    def _write(self, records: memoryview, header: BatchHeader, now_ms: int) -> Appended:
        log = self.log
        base_offset = log.log_end_offset
        batch.assign(records, 0, base_offset, self.leader_epoch)
        log_append_time_ms = -1
        if self.log_append_time:
            log_append_time_ms = now_ms
            batch.set_max_timestamp(records, 0, TimestampType.LOG_APPEND_TIME, now_ms)
            header = batch.read_header(records)
        elif header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            # A producer cannot say that the broker set the time: Kafka takes such a bit back too.
            batch.set_max_timestamp(records, 0, TimestampType.CREATE_TIME, header.max_timestamp)
            header = batch.read_header(records)
        else:
            header = header._replace(base_offset=base_offset, partition_leader_epoch=self.leader_epoch)
        log.append(records, header, now_ms)
        self.high_watermark = log.log_end_offset
        self._purgatory.wake(self)
        if log.needs_flush(now_ms):
            self._flusher.start(self)
        elif log.config.flush_ms < NEVER_MS:
            self._flusher.soon(self, log.config.flush_ms)
        return Appended(base_offset, log_append_time_ms, log.log_start_offset)

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
            if header.is_transactional:
                why = "a transactional batch outside of a transaction: transactions are not served yet"
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, why)
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
        know.
        """
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch} by now")
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"the leader epoch is only {self.leader_epoch} here")

    def read(self, offset: int, max_bytes: int, isolation_level: int, minimum_one: bool) -> FileRange | None:
        """The file's bytes from the batch that holds `offset`; None where there is nothing yet.

        OFFSET_OUT_OF_RANGE as Kafka's.
        """
        end = self.end_for(isolation_level)
        if offset == end:
            return None
        return self.log.read(offset, max_bytes, end, minimum_one)

    def replay(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Every record with a key, oldest first: how the internal topics are read at start."""
        for header, data in self.log.iter_batches(self.log.log_start_offset):
            if header.is_control:
                continue
            for record in batch.decode_batch(data, 0):
                if record.key is not None:
                    yield record.key, record.value


def check_compression(header: BatchHeader, version: int) -> None:
    """zstd came with Produce 7: older requests must not carry it (KIP-110)."""
    if header.compression is Compression.ZSTD and version < 7:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later")
