"""The state of a partition: its log, its role, its high watermark and leader epoch, and what is read of it.

A broker that is alone leads every partition from the time it is opened (`lead`), and the high watermark follows the end
of the log. In a cluster a partition is opened without a leader (`open`). The controller then makes this broker its
leader (`begin_leading`: `replication` says where the high watermark is) or a follower (`stop_leading`: the fetcher
appends what the leader has).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records import batch
from ...protocol.records.batch import BatchHeader
from ...protocol.records.errors import RecordError
from ...protocol.records.record import Record
from ...protocol.topic_partition import TopicPartition
from ...storage.errors import CorruptBatch, StorageError
from ...storage.files import FileRange
from ...storage.log import Log
from ...storage.segments.damage import Damage
from ...storage.segments.location import Location
from ...storage.segments.transaction_index import AbortedTransaction
from ..clock import Clock
from ..purgatory import Purgatory
from .damage_reports import DamageReports

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
# A follower's: it reads what is not committed yet. No client can ask for it, because the wire has 8 bits.
READ_TO_END = 1000
# A client that does not say which leader it knows.
NO_LEADER_EPOCH = -1
# How long a coordinator's record may wait for the ISR: longer than anything but a stop of the broker.
COMMIT_TIMEOUT_MS = 24 * 3_600_000

_log = logging.getLogger(__name__)


class Replication(Protocol):
    """What the leader of a partition in a cluster knows of its followers: see replication/replica.py."""

    def appended(self, log_end_offset: int) -> int: ...

    def check_min_isr(self) -> None: ...

    def check_after_append(self, offset: int) -> bool: ...

    def check_end_known(self) -> None: ...

    def configured(self, min_isr: int) -> None: ...

    def is_followed_by(self, broker: int) -> bool: ...

    def is_throttled(self, follower: int) -> bool: ...

    def note_sent(self, size: int) -> None: ...

    def note_fetch(self, follower: int, offset: int, broker_epoch: int, log_start_offset: int) -> None: ...

    def reader_in_rack(self, rack: str, offset: int) -> int | None: ...


class Surroundings(NamedTuple):
    """What the partitions of one broker share."""

    clock: Clock
    purgatory: Purgatory
    # Takes a partition and a delay in milliseconds, after which it is forced to disk.
    schedule_flush: Callable[[PartitionState, int], None]
    # Takes what the disk has rejected.
    on_failure: Callable[[PartitionState, StorageError], None]
    # Counts a producer id that is new to a partition, or raises (producer_limit.py).
    add_producer: Callable[[], None]


class Written(NamedTuple):
    """How many records were written, and their bytes. Of a log's end only differences are looked at."""

    records: int
    size: int


def _written(log: Log) -> Written:
    return Written(log.log_end_offset, log.appended_bytes)


class PartitionState:
    """See the module's text. `lead` or `open` it before it is used."""

    log: Log
    # Invariant: log_start_offset <= high_watermark <= log_end_offset. Consumers see nothing at or past it.
    high_watermark: int

    def __init__(
        self, topic: str, index: int, leader_epoch: int, surroundings: Surroundings, failure: StorageError | None = None
    ) -> None:
        """`failure` is why it is offline from the start."""
        self.topic = topic
        self.index = index
        self.leader_epoch = leader_epoch
        self.high_watermark = 0
        # Why the partition is offline, None while it is online. Invariant: once set it stays until the next start.
        self.failure = failure
        # In a cluster, while this broker leads the partition; None: a leader that is alone, or no leader.
        self.replication: Replication | None = None
        # Rises whenever this broker ceases to lead. Epochs of one reign follow each other without another leader.
        self.reign = 0
        # Whether the end of the log may be on disk alone, and the next append would have to read it.
        self.is_cold = False
        # Why clients may not write, nor read what only a leader knows; None: this broker leads the partition.
        self.not_leading: KafkaError | None = None
        if failure is not None:
            self._refuse_all(failure)
        self._clock, self._purgatory, self._schedule_flush, self._on_failure, self._add_producer = surroundings
        # To consumers, since the start of the broker.
        self.bytes_out = 0
        # From clients in earlier reigns, and what `received` takes off the log's end; None: no leader.
        self._before = Written(0, 0)
        self._from: Written | None = None
        # Of coordinators, in this reign: plain numbers, because each of their records is counted.
        self._own_records = self._own_bytes = 0
        self._damage = DamageReports(f"{topic}-{index}")

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def place(self) -> TopicPartition:
        """What names it in a table of partitions."""
        return TopicPartition(self.topic, self.index)

    def lead(self, log: Log) -> None:
        """Serve `log` as its leader."""
        self.log = log
        self.is_cold = log.is_resting
        self.high_watermark = log.log_end_offset
        log.producers.replicated(self.high_watermark)
        # Metadata of an earlier hour may know an earlier one.
        self.leader_epoch = max(self.leader_epoch, log.epochs.latest)
        # The epoch begins at once, not with its first record: clients ask where the previous one ended.
        log.epochs.assign(self.leader_epoch, log.log_end_offset)
        self._from = _written(log)

    @property
    def received(self) -> Written:
        """What clients have written since the start of the broker. The log's end tells, so that no append counts."""
        if self._from is None:
            return self._before
        records = self._before.records + self.log.log_end_offset - self._from.records - self._own_records
        return Written(records, self._before.size + self.log.appended_bytes - self._from.size - self._own_bytes)

    def _leave_out(self, records: int, size: int) -> None:
        """Leave a batch that a coordinator has written out of `received`."""
        self._own_records += records
        self._own_bytes += size

    # -- Roles in a cluster ----------------------------------------------------------------------------

    def open(self, log: Log, high_watermark: int) -> None:
        """Hold `log` without a role. The high watermark is the last one that is known."""
        self.log = log
        self.is_cold = log.is_resting
        self.high_watermark = max(min(high_watermark, log.log_end_offset), log.log_start_offset)
        log.producers.replicated(self.high_watermark)
        self.leader_epoch = NO_LEADER_EPOCH
        self._refuse_leading()

    def begin_leading(self, leader_epoch: int, replication: Replication) -> None:
        """Lead from now on, in a new leader epoch or with a new view of the followers."""
        if self.leader_epoch != leader_epoch:
            self.leader_epoch = leader_epoch
            self.log.epochs.assign(leader_epoch, self.log.log_end_offset)
        self.replication = replication
        if self._from is None:
            self._from = _written(self.log)
        if self.failure is None:
            self.not_leading = None
        self._purgatory.wake(self)

    def stop_leading(self, leader_epoch: int) -> None:
        """Follow another leader from now on. Requests that wait are woken, and learn it."""
        self.leader_epoch = leader_epoch
        self.replication = None
        self._before, self._from = self.received, None
        self._own_records = self._own_bytes = 0
        self.reign += 1
        self._refuse_leading()
        self._purgatory.wake(self)

    def _refuse_leading(self) -> None:
        if self.failure is None:
            why = f"this broker does not lead {self}"
            self.not_leading = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, why)

    def _refuse_all(self, failure: StorageError) -> None:
        why = f"{self} is offline: {failure}"
        self.not_leading = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why)

    def check_leading(self) -> None:
        """Raise NOT_LEADER_OR_FOLLOWER where another broker leads, KAFKA_STORAGE_ERROR where the disk has failed."""
        if self.not_leading is not None:
            # A new one: an exception that is raised again and again keeps every traceback.
            raise KafkaError(self.not_leading.code, self.not_leading.message)

    def check_reign(self, reign: int) -> None:
        """Do as `check_leading`, and raise NOT_LEADER_OR_FOLLOWER where another broker has led since `reign`."""
        self.check_leading()
        if self.reign != reign:
            why = f"{self} has had another leader meanwhile"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, why)

    def is_committed(self, reign: int, offset: int) -> bool:
        """Return whether every replica in the ISR has what was appended below `offset` in `reign`.

        Raises NOT_LEADER_OR_FOLLOWER where another broker has led since, for nobody knows what becomes of the records
        then, NOT_ENOUGH_REPLICAS_AFTER_APPEND, KAFKA_STORAGE_ERROR.
        """
        self.check_reign(reign)
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
                why = f"the ISR of {self} does not have everything below offset {offset} yet"
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, why)
            return None

        if attempt(False) is None:
            await self._purgatory.park((self,), COMMIT_TIMEOUT_MS, attempt)

    def advance(self, high_watermark: int) -> None:
        """Move the high watermark, and wake the requests that wait for it. A follower's may also go back."""
        if high_watermark != self.high_watermark:
            self.high_watermark = high_watermark
            self.log.producers.replicated(high_watermark)
            self._purgatory.wake(self)

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
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self} is offline: {self.failure}")

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
                fields = {"topic": self.topic, "partition": self.index, "error": error.code.name}
                _log.error("%s is offline until the next start: %s", self, error.message, extra=fields)

    def report_damage(self, error: CorruptBatch) -> None:
        """Log damage in the files, once for each place."""
        self._damage.report(error)

    def report_failure(self, error: StorageError) -> None:
        """Log what could not be read, once for each place, and take offline what is broken."""
        self._damage.report_failure(error)
        self.note_failure(error)

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which a read_committed reader sees records: where the first undecided transaction begins.

        It lies between the log's start and the high watermark.
        """
        undecided = self.log.producers.first_undecided_offset(self.high_watermark)
        if undecided is None:
            return self.high_watermark
        return max(min(undecided, self.high_watermark), self.log.log_start_offset)

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
            why = f"{self} knows nothing of the leader epoch {last_epoch}"
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
            _log.error("%s: the batch at offset %d is lost: %s", self, header.base_offset, error)
            return []
