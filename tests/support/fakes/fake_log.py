"""One partition of a fake cluster: a list of batches that checks sequences as Kafka does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import assign, decode_batch, encode_batch, read_header
from odradek.protocol.records.record import Record


class FakeLog:
    """One partition."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.epoch = 0
        # Where a consumer in another rack is sent to (KIP-392): rack -> node id.
        self.followers: dict[str, int] = {}
        self.start = 0
        self.end = 0
        self.batches: list[bytes] = []
        self.aborted: list[tuple[int, int]] = []
        # producer id -> (epoch, [(first sequence, next sequence, first offset)], the last five)
        self._producers: dict[int, tuple[int, list[tuple[int, int, int]]]] = {}
        self.grown = asyncio.Event()
        # The topic's max.message.bytes; None: any size.
        self.max_batch_bytes: int | None = None

    def append(self, data: bytes) -> tuple[ErrorCode, int]:
        """Take a batch as a leader does: (error, first offset)."""
        if self.max_batch_bytes is not None and len(data) > self.max_batch_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        header = read_header(data)
        if header.producer_id >= 0:
            known = self._producers.get(header.producer_id)
            if known is None or header.producer_epoch > known[0]:
                # As in Kafka, a producer id that is not known may begin at any sequence, a newer epoch may not.
                if known is not None and header.base_sequence != 0:
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
                known = self._producers[header.producer_id] = (header.producer_epoch, [])
            if header.producer_epoch < known[0]:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            window = known[1]
            following = (header.last_sequence + 1) & 0x7FFFFFFF
            for first, behind, offset in window:
                if (first, behind) == (header.base_sequence, following):
                    return ErrorCode.NONE, offset
            if window and header.base_sequence != window[-1][1]:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            window.append((header.base_sequence, following, self.end))
            del window[:-5]
        return ErrorCode.NONE, self.write(data)

    def write(self, data: bytes) -> int:
        """Append without checks."""
        offset = self.end
        batch = bytearray(data)
        header = assign(batch, 0, read_header(data), offset, self.epoch)
        self.batches.append(bytes(batch))
        self.end = header.next_offset
        grown, self.grown = self.grown, asyncio.Event()
        grown.set()
        return offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Batches from the one that holds `offset`, the first whatever its size."""
        found = b""
        for batch in self.batches:
            if read_header(batch).next_offset > offset and (not found or len(found) + len(batch) <= max_bytes):
                found += batch
        return found

    def forget_producers(self) -> None:
        """Forget their sequences, as a broker does after `producer.id.expiration.ms` without a batch."""
        self._producers.clear()

    def records(self) -> list[Record]:
        return [record for batch in self.batches if not read_header(batch).is_control for record in decode_batch(batch)]

    def truncate(self, offset: int, leader: int | None = None) -> None:
        """Elect a leader that has only the records below `offset`."""
        self.batches = [batch for batch in self.batches if read_header(batch).next_offset <= offset]
        self.end = offset
        self.epoch += 1
        self.leader = self.leader if leader is None else leader

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The last epoch up to `epoch` that has records, and where its records end; (-1, -1) if there is none."""
        if epoch == self.epoch:
            return epoch, self.end
        found = (-1, -1)
        for batch in self.batches:
            header = read_header(batch)
            if header.partition_leader_epoch <= epoch:
                found = (header.partition_leader_epoch, header.next_offset)
        return found


def write(log: FakeLog, values: Iterable[int] | int, per_batch: int = 1_000, timestamp_ms: int = 7) -> None:
    """Append records whose values are these numbers, or that many from 0 on."""
    records = [
        Record(-1, timestamp_ms, None, b"%d" % value)
        for value in (range(values) if isinstance(values, int) else values)
    ]
    for start in range(0, len(records), per_batch):
        log.write(encode_batch(records[start : start + per_batch]))
