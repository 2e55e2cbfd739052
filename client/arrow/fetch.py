"""Fetches one range of a partition, as sections of whole batches with a table of their headers.

    send -> receive -> scan headers -> send the next fetch -> yield the section -> (decoded) -> receive ...

The next fetch is in flight while the last one is decoded. The table leaves out batches that no reader may see: control
batches, and with read_committed those of aborted transactions. Offsets may have gaps, so the next position comes from
the last offsets of the batches.

Promise: `sections` ends. It ends at the end of the range; with DataLoss (or a warning) if offsets no longer exist; with
the broker's error if that is not retriable; after `poll_timeout_ms` without progress in every other case.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ...protocol.records.errors import CorruptBatch, UnsupportedMagic
from ..core.exchange import MAX_FRAME_BYTES
from ..core.leaders import READ_COMMITTED
from ..core.option_values import Address
from ..errors import OffsetOutOfRange, RecordTooLarge, RequestTimedOut, UnknownTopic, only, raise_error
from ..record import EARLIEST, LATEST, TopicPartition
from .brokers import Brokers, leader_address
from .connection import BlockingConnection, ReadOptions

if TYPE_CHECKING:
    from .batches import BatchTable, Bytes, Section

log = logging.getLogger(__name__)

# The limit to which a fetch grows for a batch that does not fit: half of the largest frame.
MAX_FETCH_BYTES = MAX_FRAME_BYTES // 2


class DataLoss(OffsetOutOfRange):
    """Offsets of the read no longer exist: retention, truncation or the deletion of the topic removed them."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; set failOnDataLoss to false to read what is left")


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets [start, end) of a partition. It can be pickled, and read in another process."""

    topic: str
    # 16 bytes; zeros if the cluster has no ids. A topic that is created again under its old name has another id.
    topic_id: bytes
    partition: int
    start: int
    end: int
    # The leader's host and port when the read was planned, None if there was none. It may have moved since.
    leader: tuple[str, int] | None = None
    # Whether it is the first range of its partition in this read.
    is_first: bool = True

    @property
    def size(self) -> int:
        """Return the number of offsets in the range. A compacted log has fewer records."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


def whole_topic(topic: str, brokers: Brokers) -> list[OffsetRange]:
    """Return a range for each partition of a topic, from its first offset to its end at this moment.

    Raises UnknownTopic, KafkaError.
    """

    def look() -> list[OffsetRange]:
        view = brokers.view([topic])
        count = len(view.topics[topic].partitions) if topic in view.topics else 1
        leaders = {each: leader_address(view, each) for each in (TopicPartition(topic, n) for n in range(count))}
        first, last = (brokers.offsets(leaders, each, view) for each in (EARLIEST, LATEST))
        topic_id = view.topic_id(topic)
        return [
            OffsetRange(topic, topic_id, each.partition, first[each], last[each], leader)
            for each, leader in leaders.items()
        ]

    return brokers.retry(look)


class RangeFetch:
    """Fetches one range. Used once: iterate over `sections()`."""

    def __init__(self, wanted: OffsetRange, options: ReadOptions, brokers: Brokers) -> None:
        self._range = wanted
        self._options = options
        self._brokers = brokers
        self._connection: BlockingConnection | None = None
        self._in_flight = False
        # The offset behind the last section.
        self.position = wanted.start
        numbers = options.client.numbers
        self._max_bytes = min(numbers["max.partition.fetch.bytes"], numbers["fetch.max.bytes"])
        # A broker that knows no topic ids could not tell that the topic was made again: the leader is asked for then.
        self._planned_leader = wanted.leader if any(wanted.topic_id) else None
        self._failures = 0
        self._deadline = 0.0
        # What the task's line in the log says.
        self._bytes = self._fetches = self._retries = 0
        self._waited_s = 0.0

    def sections(self) -> Generator[Section, None, None]:
        """Yield the batches of the range, in order. Raises DataLoss, KafkaError, DecodeError."""
        self._progressed()
        try:
            while self.position < self._range.end:
                section = self._next()
                if section is not None:
                    yield section
                    # Time counts only while the broker is waited for: the reader may take as long as it likes.
                    self._progressed()
        finally:
            self._disconnect()
            work = f"{self._bytes} bytes in {self._fetches} fetches, waited {self._waited_s:.3f} s for brokers"
            log.info("%s up to %d: %s, %d retries", self._range, self.position, work, self._retries)

    def prefetch(self) -> None:
        """Send the next fetch, so that it is in flight while the caller is busy. `sections` repeats it if it fails."""
        try:
            if self.position < self._range.end and not self._in_flight:
                self._send()
        except KafkaError as error:
            log.info("%s at %d: %s", self._range, self.position, error)
            self._disconnect()

    def _next(self) -> Section | None:
        """Return the next section, None if there is none yet."""
        try:
            return self._step()
        except UnknownTopic as error:
            self._lost(f"{self._range}: {error.message}", self._range.end)
        except DataLoss:
            raise
        except KafkaError as error:
            if not error.retriable:
                raise
            self._disconnect()
            self._failures += 1
            self._retries += 1
            if not self._brokers.pause(self._failures, self._deadline):
                raise
        return None

    def _step(self) -> Section | None:
        if not self._in_flight:
            self._send()
        return self._take(self._receive())

    # -- Requests

    def _send(self) -> None:
        if self._connection is not None and self._connection.is_expiring:
            self._disconnect()
        if self._connection is None:
            # The plan's leader is tried once; after any error the leader is asked for again.
            planned, self._planned_leader = self._planned_leader, None
            self._connection = BlockingConnection(planned or self._leader(), self._options.client)
        self._connection.send(self._request(), FetchResponse)
        self._in_flight = True

    def _leader(self) -> Address:
        partition = TopicPartition(self._range.topic, self._range.partition)
        return self._brokers.leader_of(partition, self._range.topic_id)

    def _receive(self) -> PartitionData:
        assert self._connection is not None
        began = self._brokers.clock()
        try:
            response = self._connection.receive(FetchResponse)
        finally:
            self._waited_s += self._brokers.clock() - began
        self._in_flight = False
        raise_error(response.error_code, None, f"fetch of {self._range}")
        return only(only(response.responses, self._range).partitions, self._range)

    def _request(self) -> FetchRequest:
        numbers = self._options.client.numbers
        partition = FetchPartition(
            partition=self._range.partition, fetch_offset=self.position, partition_max_bytes=self._max_bytes
        )
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=min(numbers["fetch.max.wait.ms"], numbers["request.timeout.ms"] // 2),
            min_bytes=numbers["fetch.min.bytes"],
            max_bytes=self._max_bytes,
            isolation_level=self._options.client.isolation_level,
            session_epoch=-1,
            topics=[FetchTopic(topic=self._range.topic, topic_id=self._range.topic_id, partitions=[partition])],
        )

    def _disconnect(self) -> None:
        self._in_flight = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- Responses

    def _take(self, data: PartitionData) -> Section | None:
        if ErrorCode.of(data.error_code) is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range()
            return None
        raise_error(data.error_code, None, f"fetch of {self._range} at {self.position}")
        records = memoryview(b"" if data.records is None else data.records)
        if not len(records):
            self._nothing(data)
            return None
        self._bytes += len(records)
        self._fetches += 1
        section = self._scan(records, data.aborted_transactions or [])
        self.prefetch()
        return section

    def _scan(self, records: memoryview, aborted: list[AbortedTransaction]) -> Section | None:
        from . import batches

        source, table, end = batches.scan(records)
        if not len(table):
            if end is batches.ScanEnd.OLD_MAGIC:
                raise UnsupportedMagic(
                    f"{self._range} at {self.position}: message formats 0 and 1 are not supported yet"
                )
            self._enlarge_fetch(len(records))
            return None
        position = batches.next_offset(table)
        if position <= self.position:
            raise CorruptBatch(f"{self._range}: the batches at {self.position} end at {position}")
        return self._section(source, table, ((each.first_offset, each.producer_id) for each in aborted))

    def _section(self, source: Bytes, table: BatchTable, aborted: Iterable[tuple[int, int]]) -> Section:
        """Return what a reader may see of batches, and go on behind them. `aborted` is that of `readable`."""
        from . import batches

        committed = self._options.client.isolation_level == READ_COMMITTED
        visible = batches.readable(table, self.position, self._range.end, list(aborted) if committed else [])
        self.position = max(batches.next_offset(table), self.position)
        self._progressed()
        return batches.Section(source, visible)

    def _enlarge_fetch(self, received: int) -> None:
        """Double the size of a fetch, because no whole batch came: brokers before KIP-74 cut it at the limit."""
        if self._max_bytes >= MAX_FETCH_BYTES:
            raise RecordTooLarge(f"{self._range}: the batch at {self.position} has more than {received} bytes")
        self._max_bytes = min(self._max_bytes * 2, MAX_FETCH_BYTES)

    def _progressed(self) -> None:
        self._failures = 0
        self._deadline = self._brokers.clock() + self._options.poll_timeout_ms / 1000

    # -- Missing records

    def _nothing(self, data: PartitionData) -> None:
        """Fetch again after an empty response, while there is time."""
        if self._brokers.pause(1, self._deadline):
            return
        committed = self._options.client.isolation_level == READ_COMMITTED
        last = data.last_stable_offset if committed else data.high_watermark
        if last > self.position:
            raise RequestTimedOut(f"{self._range}: nothing came at {self.position}, though the log goes on to {last}")
        self._lost(f"{self._range}: the log ends at {self.position}", self._range.end)

    def _out_of_range(self) -> None:
        of = TopicPartition(self._range.topic, self._range.partition)
        earliest = self._brokers.offsets([of], EARLIEST)[of]
        if earliest > self.position:
            self._lost(f"{self._range}: the log begins at {earliest} now, {self.position} is gone", earliest)
        else:
            self._lost(f"{self._range}: the log ends before {self.position}", self._range.end)

    def _lost(self, what: str, go_on_at: int) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(what)
        log.warning("%s: going on with the records that exist", what)
        self._disconnect()
        self.position = go_on_at
        self._progressed()
