"""A piece of a partition as Fetch brought it: batches, opened one at a time as records are asked for.

What consumers must not see is passed over here: control batches, records in front of the position (a fetch from the
middle of a batch brings the whole batch), and with read_committed the batches of aborted transactions. For the last,
the answer lists (producer id, first offset) of the aborted transactions that touch the piece: from that offset on, that
producer's transactional batches are dropped until its abort marker comes by.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from ...protocol.errors import DecodeError
from ...protocol.records.batch import BatchHeader, iter_headers, iter_records, peek
from ...protocol.records.control import ControlType, control_type
from ...protocol.records.legacy import decode_message_set
from ...protocol.records.record import Record
from ..errors import CorruptRecords
from ..record import ConsumerRecord, TopicPartition

_FIRST_BATCH_MAGIC = 2
# A named tuple made without its Python-level constructor: half the time of `ConsumerRecord(...)`.
_Maker = Callable[[type[ConsumerRecord], tuple[object, ...]], ConsumerRecord]
_new_record: _Maker = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
# Offset, size, epoch or CRC, and the magic byte: fewer bytes name nothing.
_PEEKABLE_BYTES = 17


class Chunk:
    """Records of one partition from `start` on. Raises CorruptRecords at the batch that cannot be read."""

    __slots__ = (
        "_aborted",
        "_batches",
        "_check_crcs",
        "_data",
        "_dropping",
        "_index",
        "_partition",
        "_records",
        "leader_epoch",
        "next_offset",
        "position",
        "size_bytes",
    )

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
        self._aborted = deque(sorted(aborted, key=lambda transaction: transaction[1]))
        self._dropping: set[int] = set()
        self._records: list[ConsumerRecord] = []
        self._index = 0
        self._batches: deque[tuple[int, BatchHeader]] = deque()
        self.leader_epoch = -1
        # The next offset to hand out.
        self.position = start
        self.size_bytes = len(data)
        # Where the next fetch goes on: behind the last whole batch in here. `start` where there is none.
        self.next_offset = start
        self._look_through()

    def _look_through(self) -> None:
        data = self._data
        try:
            if len(data) >= _PEEKABLE_BYTES and peek(data)[2] < _FIRST_BATCH_MAGIC:
                self._give(decode_message_set(data))
                if self._records:
                    self.next_offset = self._records[-1].offset + 1
            else:
                self._batches.extend(iter_headers(data))
                if self._batches:
                    self.next_offset = max(self.position, self._batches[-1][1].next_offset)
        except DecodeError as error:
            raise self._unreadable(error) from error

    def take(self, limit: int) -> list[ConsumerRecord]:
        """At most `limit` records of one batch. An empty list: there are no more, and `position` is behind the
        piece."""
        while self._index >= len(self._records):
            if not self._batches:
                self.position = max(self.position, self.next_offset)
                return []
            self._open(*self._batches.popleft())
        records = self._records
        if self._index == 0 and len(records) <= limit:
            self._index = len(records)
        else:
            records = records[self._index : self._index + limit]
            self._index += limit
        self.position = records[-1].offset + 1
        return records

    def _open(self, at: int, header: BatchHeader) -> None:
        self._records, self._index = [], 0
        self.leader_epoch = header.partition_leader_epoch
        if header.next_offset <= self.position:
            return
        try:
            if header.is_control:
                self._mark(header, iter_records(self._data, at, header, self._check_crcs))
            elif not self._is_aborted(header):
                self._give(iter_records(self._data, at, header, self._check_crcs), header.timestamp_type)
        except DecodeError as error:
            raise self._unreadable(error) from error

    def _give(self, records: Iterable[Record], timestamp_type: int = 0) -> None:
        topic, number = self._partition
        new = _new_record
        made = [
            new(ConsumerRecord, (topic, number, offset, timestamp_ms, timestamp_type, key, value, headers))
            for offset, timestamp_ms, key, value, headers in records
        ]
        if made and made[0].offset < self.position:
            made = [record for record in made if record.offset >= self.position]
        self._records = made

    def _is_aborted(self, header: BatchHeader) -> bool:
        if not header.is_transactional:
            return False
        self._begin_dropping(header.last_offset)
        return header.producer_id in self._dropping

    def _begin_dropping(self, last_offset: int) -> None:
        while self._aborted and self._aborted[0][1] <= last_offset:
            self._dropping.add(self._aborted.popleft()[0])

    def _mark(self, header: BatchHeader, records: Iterable[Record]) -> None:
        self._begin_dropping(header.last_offset)
        if any(control_type(record) is ControlType.ABORT for record in records):
            self._dropping.discard(header.producer_id)

    def _unreadable(self, error: DecodeError) -> CorruptRecords:
        where = f"{self._partition.topic}-{self._partition.partition}"
        return CorruptRecords(f"{where}: what was fetched at offset {self.position} cannot be read: {error}")
