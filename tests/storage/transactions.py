"""A log with transactions beside a model of it that keeps everything and looks nothing up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from odradek.protocol.records.batch import decode_batch, encode_batch, iter_headers, read_header
from odradek.protocol.records.control import ControlType, Marker, encode_marker, read_marker
from odradek.protocol.records.record import Record
from odradek.storage.log import Log, LogConfig
from odradek.storage.segments.transaction_index import AbortedTransaction

COORDINATOR_EPOCH = 3


@dataclass
class Model:
    """What was written, batch by batch, and how each transaction ended."""

    end: int = 0
    plain: list[int] = field(default_factory=list[int])
    open: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    committed: list[int] = field(default_factory=list[int])
    aborted: list[AbortedTransaction] = field(default_factory=list[AbortedTransaction])

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return min((offsets[0] for offsets in self.open.values()), default=self.end)

    def visible(self) -> list[int]:
        """The offsets that a read_committed reader gets, in order."""
        return sorted(offset for offset in self.plain + self.committed if offset < self.stable)

    def reaching_into(self, offset: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with something in [offset, end), by first offset."""
        found = [each for each in self.aborted if each.last_offset >= offset and each.first_offset < end]
        return sorted(found, key=lambda each: each.first_offset)


class Written:
    """A log and its model, written to together."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.model = Model()
        self._sequences: dict[int, int] = {}

    def write(self, producer_id: int, records: int = 1, *, transactional: bool = True) -> None:
        """A batch; producer -1 has no transactions."""
        end, model = self.log.log_end_offset, self.model
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + records
        known = producer_id >= 0
        data = encode_batch(
            [Record(timestamp_ms=1000, value=b"v" * 20) for _ in range(records)],
            base_offset=end,
            producer_id=producer_id,
            producer_epoch=0 if known else -1,
            base_sequence=sequence if known else -1,
            transactional=transactional and known,
        )
        self.log.append(data, read_header(data), 1000)
        offsets = range(end, end + records)
        if transactional and known:
            model.open.setdefault(producer_id, []).extend(offsets)
        else:
            model.plain.extend(offsets)
        model.end = end + records

    def finish(self, producer_id: int, *, commit: bool) -> None:
        """A marker, whether there is something to end or not."""
        end, model = self.log.log_end_offset, self.model
        marker = Marker(ControlType.COMMIT if commit else ControlType.ABORT, COORDINATOR_EPOCH)
        data = encode_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=1000, base_offset=end)
        self.log.append(data, read_header(data), 1000, marker)
        model.end = end + 1
        offsets = model.open.pop(producer_id, None)
        if offsets is None:
            return
        if commit:
            model.committed.extend(offsets)
        else:
            model.aborted.append(AbortedTransaction(producer_id, offsets[0], end, model.stable))


def opened(directory: Path, config: LogConfig, *, clean: bool = True, point: int = 0) -> Log:
    return Log.open(directory, config, clean=clean, now_ms=1000, recovery_point=point)


def stable_offset(log: Log) -> int:
    undecided = log.producers.first_undecided_offset(log.log_end_offset)
    return log.log_end_offset if undecided is None else undecided


def aborted_entries(log: Log) -> list[AbortedTransaction]:
    """What the indexes of all segments hold."""
    return [entry for segment in log.segments for entry in segment.aborted.entries()]


def read_committed(log: Log, max_bytes: int) -> Iterable[int]:
    """The offsets that a client of read_committed hands out, by the rules of Kafka's consumer."""
    offset, up_to = log.log_start_offset, stable_offset(log)
    while offset < up_to:
        fetched = log.read(offset, max_bytes, up_to)
        aborted = log.aborted_transactions(offset, fetched, up_to)
        assert aborted == sorted(aborted, key=lambda each: each.first_offset)
        leave_out: set[int] = set()
        for position, header in iter_headers(data := fetched.read()):
            while aborted and aborted[0].first_offset <= header.last_offset:
                leave_out.add(aborted.pop(0).producer_id)
            offset = header.next_offset
            if header.is_control:
                if read_marker(decode_batch(data, position, header)[0]).type is ControlType.ABORT:
                    leave_out.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in leave_out):
                yield from range(header.base_offset, header.next_offset)
