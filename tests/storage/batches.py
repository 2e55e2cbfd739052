"""Batches for the tests of storage: small, whole, and known in every field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from odradek.protocol.records.batch import BatchHeader, encode_batch, iter_headers, read_header
from odradek.protocol.records.record import Record
from odradek.storage.log import Log

NEVER = 2**63 - 1


def batch(
    base_offset: int,
    records: int = 1,
    *,
    size: int = 10,
    timestamp_ms: int = 1000,
    producer_id: int = -1,
    producer_epoch: int = 0,
    sequence: int = 0,
    leader_epoch: int = 0,
    transactional: bool = False,
) -> bytes:
    """A batch of `records` records with values of `size` bytes; timestamps ascend by 1 from `timestamp_ms`."""
    return encode_batch(
        [Record(timestamp_ms=timestamp_ms + i, value=b"v" * size) for i in range(records)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch if producer_id >= 0 else -1,
        base_sequence=sequence if producer_id >= 0 else -1,
        partition_leader_epoch=leader_epoch,
        transactional=transactional,
    )


def append(log: Log, data: bytes, now_ms: int = 1000) -> BatchHeader:
    """Append `data` and return its header."""
    header = read_header(data)
    log.append(data, header, now_ms)
    return header


def read_all(log: Log, max_bytes: int = 1 << 20) -> bytes:
    """Everything from the log's start on, as a consumer reads it: fetch by fetch, dropping torn tails."""
    data = b""
    offset = log.log_start_offset
    while True:
        fetched = log.read(offset, max_bytes, log.log_end_offset).read()
        if not fetched:
            assert offset >= log.log_end_offset
            return data
        for position, header in iter_headers(fetched):
            data += fetched[position : position + header.size_bytes]
            offset = header.next_offset


def headers_of(log: Log) -> Iterator[BatchHeader]:
    """The headers of all batches."""
    return (header for header, _ in log.iter_batches(log.log_start_offset))


def flip(path: Path, position: int = -1, bit: int = 0) -> None:
    """Change one bit of a file, of its last byte where no other is named."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def roll(log: Log, now_ms: int = 1000) -> None:
    """Close the newest segment and begin another one, as an append to a full segment does."""
    log._roll(log.log_end_offset, now_ms)


def find_time(log: Log, timestamp_ms: int, up_to: int = NEVER) -> tuple[int, int, int] | None:
    """Return (timestamp, offset, leader epoch) of the first record that is not earlier, as ListOffsets does."""
    view = log.view()
    try:
        return view.find_time(timestamp_ms, up_to)
    finally:
        log.learn(view)


def max_timestamp(log: Log) -> tuple[int, int]:
    """Return (timestamp, offset) of the first record with the largest timestamp, as ListOffsets does."""
    view = log.view()
    try:
        return view.max_timestamp()
    finally:
        log.learn(view)


def cut(log: Log, offset: int) -> None:
    """Truncate a log as a follower does, with the producers that a thread finds."""
    log.truncate_to(offset, log.view().producers_before(offset, log.last_append_ms))
