"""Record batches as a fetch brought them, decoded as the user takes them: as records, as batches, or as columns.

Decoding skips what consumers must not see: control batches; records before the position, because a fetch from the
middle of a batch brings the whole batch; and with read_committed the batches of aborted transactions. For these the
response lists (producer id, first offset) of each aborted transaction. From that offset on, the producer's
transactional batches are skipped until its abort marker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any

from ...protocol.errors import DecodeError
from ...protocol.records.batch import (
    BatchHeader,
    check_crc,
    columns_of,
    encode_batch,
    iter_headers,
    iter_records,
    peek,
    read_header,
    row_reader,
    values_of,
)
from ...protocol.records.columns import Columns, RowReader, Shape
from ...protocol.records.control import ControlType, control_type
from ...protocol.records.legacy import decode_message_set
from ...protocol.records.record import Headers, Record
from ..arrow.tables import DEFAULT_COLUMNS, ArrowColumns
from ..errors import CorruptRecords
from ..record import ConsumerRecord, TopicPartition

_FIRST_BATCH_MAGIC = 2
# The offset, the size, the epoch or CRC, and the magic byte: what `peek` reads.
_PEEKABLE_BYTES = 17
# A user who takes fewer records at a time has so many decoded at once.
_LEAST_DECODED = 64


@dataclass(frozen=True, slots=True)
class FetchedBatch:
    """One batch. `data` is its bytes, whose CRC was checked. Records below `first_offset` were not asked for."""

    partition: TopicPartition
    header: BatchHeader
    data: memoryview
    first_offset: int
    # The fetched bytes that `data` is a part of, and where it begins there. None where it is no part of them.
    source: memoryview | None = field(default=None, repr=False, compare=False)
    at: int = field(default=0, repr=False, compare=False)

    @property
    def is_whole(self) -> bool:
        """Whether every record of the batch was asked for."""
        return self.header.base_offset >= self.first_offset

    def records(self) -> Iterator[Record]:
        """Yield the records from `first_offset` on. Raises RecordError."""
        for record in iter_records(self.data, 0, self.header, check=False):
            if record.offset >= self.first_offset:
                yield record

    def columns(self) -> Columns:
        """Return the records from `first_offset` on by column. Raises RecordError."""
        columns = columns_of(self.data, 0, self.header, check=False)
        if self.is_whole:
            return columns
        wanted = [offset >= self.first_offset for offset in columns.offsets]
        return Columns._make(list(compress(column, wanted)) for column in columns)

    def values(self) -> list[bytes | None]:
        """Return the values of all records of the batch, much faster than the records. Raises RecordError."""
        return values_of(self.data, 0, self.header)


def joined(batches: Iterable[FetchedBatch]) -> Iterator[memoryview]:
    """Yield the bytes of batches; those that lie one behind another in a fetch as one piece.

    A kernel reads a large piece much faster than many batches, each with its call.
    """
    source, begin, end = memoryview(b""), 0, 0
    for batch in batches:
        its_source = batch.data if batch.source is None else batch.source
        if its_source is not source or batch.at != end:
            if end > begin:
                yield source[begin:end]
            source, begin = its_source, batch.at
        end = batch.at + len(batch.data)
    if end > begin:
        yield source[begin:end]


class RecordColumns:
    """Records of one partition by column, in the order of their offsets. A column is decoded when it is asked for.

    Raises CorruptRecords where bytes cannot be read.
    """

    def __init__(self, partition: TopicPartition, batches: Sequence[FetchedBatch]) -> None:
        self.partition = partition
        self.batches = batches

    def __len__(self) -> int:
        if all(batch.is_whole for batch in self.batches):
            return sum(batch.header.record_count for batch in self.batches)
        return len(self._columns.offsets)

    @cached_property
    def _columns(self) -> Columns:
        """All columns: what asks for a second one takes them from here."""
        columns = Columns([], [], [], [], [])
        try:
            for batch in self.batches:
                for column, more in zip(columns, batch.columns(), strict=True):
                    column += more
        except DecodeError as error:
            raise self._corrupt(error) from error
        return columns

    @cached_property
    def offsets(self) -> list[int]:
        """The offset of each record."""
        return self._columns.offsets

    @cached_property
    def timestamps_ms(self) -> list[int]:
        """The timestamp of each record, in milliseconds since 1970 UTC."""
        return self._columns.timestamps_ms

    @cached_property
    def keys(self) -> list[bytes | None]:
        """The key of each record."""
        return self._columns.keys

    @cached_property
    def values(self) -> list[bytes | None]:
        """The value of each record; alone they take a fraction of the time of whole records."""
        if "_columns" in self.__dict__ or not all(batch.is_whole for batch in self.batches):
            return self._columns.values
        try:
            return [value for batch in self.batches for value in batch.values()]
        except DecodeError as error:
            raise self._corrupt(error) from error

    @cached_property
    def headers(self) -> list[Headers]:
        """The headers of each record."""
        return self._columns.headers

    def to_arrow(self, columns: Sequence[str] = DEFAULT_COLUMNS) -> Any:
        """Return a `pyarrow.Table`. Raises InvalidOption without pyarrow, or for a column that there is not."""
        rows = sum(batch.header.record_count for batch in self.batches)
        filled = ArrowColumns(columns, self.partition, max_rows=rows)
        for data in joined(self.batches):
            filled.add(data, self.batches[0].first_offset)  # later batches begin behind it
        return filled.table()

    def _corrupt(self, error: DecodeError) -> CorruptRecords:
        topic, number = self.partition
        return CorruptRecords(f"{topic}-{number}: what was fetched cannot be read: {error}")


def _as_they_are(records: list[ConsumerRecord]) -> list[ConsumerRecord]:
    return records


class CompletedFetch:
    """Records of one partition from offset `start` on. Raises CorruptRecords at the first batch that is corrupt."""

    def __init__(
        self,
        partition: TopicPartition,
        data: memoryview,
        start: int,
        aborted: Iterable[tuple[int, int]] = (),
        *,
        check_crcs: bool = True,
    ) -> None:
        self._partition = partition
        self._data = data
        self._check_crcs = check_crcs
        # Aborted transactions that have not begun yet, by first offset.
        self._aborted = deque(sorted(aborted, key=lambda transaction: transaction[1]))
        # Producers inside an aborted transaction.
        self._aborting_producers: set[int] = set()
        # What decodes the rest of a batch, no more than a user takes at a time: where these records die before the next
        # come, the garbage collector rarely runs. It took a fifth of the time.
        self._reader: RowReader[ConsumerRecord] | None = None
        # The decoded records of that batch, and how many of them were taken.
        self._records: list[ConsumerRecord] = []
        self._index = 0
        # Batches that are not decoded yet: (position in `data`, header).
        self._batches: deque[tuple[int, BatchHeader]] = deque()
        self.leader_epoch = -1
        # The offset of the next record to take.
        self.position = start
        self.size_bytes = len(data)
        # The offset of the next fetch: behind the last whole batch, or `start` if there is none.
        self.next_offset = start
        self._scan()

    def _scan(self) -> None:
        data = self._data
        try:
            if len(data) >= _PEEKABLE_BYTES and peek(data)[2] < _FIRST_BATCH_MAGIC:
                if records := decode_message_set(data):
                    self.next_offset = max(self.position, records[-1].offset + 1)
                    self._set_records(self._shape(0).rows(Columns(*map(list, zip(*records, strict=True)))))
            else:
                self._batches.extend(iter_headers(data))
                if self._batches:
                    self.next_offset = max(self.position, self._batches[-1][1].next_offset)
        except DecodeError as error:
            raise self._corrupt(error) from error

    def take(
        self, limit: int, convert: Callable[[list[ConsumerRecord]], list[ConsumerRecord[Any, Any]]] = _as_they_are
    ) -> list[ConsumerRecord[Any, Any]]:
        """Return at most `limit` records of one batch; none if all are taken (`position` is then `next_offset`).

        `convert` may return fewer than it was given: the others are returned next time. What it raises changes nothing.
        """
        while self._index >= len(self._records):
            if self._reader is not None:
                self._read(max(limit, _LEAST_DECODED))
            elif self._batches:
                self._decode(*self._batches.popleft())
            else:
                self.position = max(self.position, self.next_offset)
                return []
        records = self._records
        if self._index or len(records) > limit:
            records = records[self._index : self._index + limit]
        converted = convert(records)
        self._index += len(converted)
        self.position = converted[-1].offset + 1
        return converted

    def take_batch(self) -> FetchedBatch | None:
        """Return the next batch as it came, None if all are taken. Records taken in part come as a batch of their own.

        `position` is then behind the batch. So `take` may follow.
        """
        if self._reader is not None:
            decoded = self._records[self._index :]
            self._read(self._reader.left)
            self._records[:0] = decoded
        while self._index >= len(self._records):
            if not self._batches:
                self.position = max(self.position, self.next_offset)
                return None
            at, header = self._batches.popleft()
            if header.next_offset > self.position:
                if not header.is_control and not self._is_aborted(header):
                    return self._batch(self._data[at : at + header.size_bytes], header, self._data, at)
                self._decode(at, header)
        rest, self._records, self._index = self._records[self._index :], [], 0
        records = [Record(each.offset, each.timestamp_ms, each.key, each.value, tuple(each.headers)) for each in rest]
        data = memoryview(encode_batch(records, base_offset=rest[0].offset))
        return self._batch(data, read_header(data))

    def _batch(
        self, data: memoryview, header: BatchHeader, source: memoryview | None = None, at: int = 0
    ) -> FetchedBatch:
        if self._check_crcs:
            try:
                check_crc(data, 0, header)
            except DecodeError as error:
                raise self._corrupt(error) from error
        first, self.position, self.leader_epoch = self.position, header.next_offset, header.partition_leader_epoch
        return FetchedBatch(self._partition, header, data, first, source, at)

    def _decode(self, at: int, header: BatchHeader) -> None:
        self._records, self._index = [], 0
        self.leader_epoch = header.partition_leader_epoch
        if header.next_offset <= self.position:
            return
        try:
            if header.is_control:
                self._take_marker(header, iter_records(self._data, at, header, self._check_crcs))
            elif not self._is_aborted(header):
                shape = self._shape(header.timestamp_type)
                self._reader = row_reader(self._data, at, header, shape, self._check_crcs)
        except DecodeError as error:
            raise self._corrupt(error) from error

    def _read(self, most: int) -> None:
        """Decode up to `most` records of the batch that is being read, which must be."""
        assert self._reader is not None
        self._records, self._index = [], 0  # they die before the next come
        try:
            self._set_records(self._reader.read(most))
        except DecodeError as error:
            raise self._corrupt(error) from error
        if not self._reader.left:
            self._reader = None

    def _shape(self, timestamp_type: int) -> Shape[ConsumerRecord]:
        return Shape(ConsumerRecord, tuple(self._partition), (timestamp_type,))

    def _set_records(self, made: list[ConsumerRecord]) -> None:
        if made and made[0].offset < self.position:
            made = [record for record in made if record.offset >= self.position]
        self._records, self._index = made, 0

    # -- Aborted transactions

    def _is_aborted(self, header: BatchHeader) -> bool:
        if not header.is_transactional:
            return False
        self._begin_aborted(header.last_offset)
        return header.producer_id in self._aborting_producers

    def _begin_aborted(self, last_offset: int) -> None:
        while self._aborted and self._aborted[0][1] <= last_offset:
            self._aborting_producers.add(self._aborted.popleft()[0])

    def _take_marker(self, header: BatchHeader, records: Iterable[Record]) -> None:
        self._begin_aborted(header.last_offset)
        if any(control_type(record) is ControlType.ABORT for record in records):
            self._aborting_producers.discard(header.producer_id)

    def _corrupt(self, error: DecodeError) -> CorruptRecords:
        name = str(self._partition)
        return CorruptRecords(f"{name}: what was fetched at offset {self.position} cannot be read: {error}")
