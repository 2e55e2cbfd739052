"""The records of dead letters (KIP-1191): six headers say where a record came from, and why it is one.

With errors.deadletterqueue.copy.record.enable a dead letter has key and value of its record. They are read from the log
in windows; what the log does not have any more, or what cannot be read, gets headers alone.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ...protocol.errors import KafkaError
from ...protocol.records.batch import decode_batch, encode_batch, iter_headers
from ...protocol.records.errors import RecordError
from ...protocol.records.record import Headers, Record, size_upper_bound
from ...storage.files import Disk
from ...storage.log_view import LogView
from ..threads import DiskThreads
from ..topics.disk_reads import read_from_disk
from ..topics.partition import Partition
from ..topics.partition_state import READ_UNCOMMITTED
from .machine import DeadLetters

REJECTED = "Offset rejected by client."
TOO_OFTEN = "Offset delivery count exceeded the threshold."
# The bytes of the log that are read at a time, as Kafka's.
WINDOW_BYTES = 1 << 20

_log = logging.getLogger(__name__)


# The key and the value of a record.
Content = tuple[bytes | None, bytes | None]


class Originals(NamedTuple):
    """What a window of the log has: keys and values by offset, and the last offset that it tells of."""

    records: dict[int, Content]
    last: int


def headers(group_id: str, partition: Partition, offset: int, letters: DeadLetters) -> Headers:
    """Return the headers of one dead letter of a group, for a record of a partition."""
    texts = {
        "topic": partition.topic,
        "partition": str(partition.index),
        "offset": str(offset),
        "group": group_id,
        "delivery.count": str(letters.delivery_count),
        "message": REJECTED if letters.is_rejected else TOO_OFTEN,
    }
    return tuple((f"__dlq.errors.{name}", text.encode()) for name, text in texts.items())


async def read_originals(partition: Partition, offset: int, last: int, threads: DiskThreads, disk: Disk) -> Originals:
    """Return what the log has from `offset` up to `last`, or as much as a window holds."""
    up_to = partition.end_for(READ_UNCOMMITTED)

    def read(view: LogView) -> Originals:
        location = view.locate(offset, up_to)
        if location is None:
            return Originals({}, last)
        # For one record its batch will do.
        wanted = WINDOW_BYTES if last > offset else 1
        return _originals(location.range(wanted, True, disk).read(), offset, last)

    try:
        return await read_from_disk(partition, read, threads)
    except KafkaError as error:
        where = f"{partition.topic}-{partition.index}"
        _log.warning("%s: dead letters from offset %d on have headers alone: %s", where, offset, error.message)
        return Originals({}, last)


def _originals(data: bytes, offset: int, last: int) -> Originals:
    """Return what a window has of these records, up to `WINDOW_BYTES` and one; its last batch may be cut off."""
    found: dict[int, Content] = {}
    reached, size = offset, 0
    for position, header in iter_headers(data):
        if header.base_offset > last:
            return Originals(found, last)
        reached = max(reached, header.last_offset)
        try:
            records = decode_batch(data, position, header)
        except RecordError as error:
            _log.warning("dead letters of the batch at offset %d have headers alone: %s", header.base_offset, error)
            continue
        for each in records:
            if offset <= each.offset <= last:
                found[each.offset] = each.key, each.value
                size += len(each.key or b"") + len(each.value or b"")
                if size > WINDOW_BYTES:
                    # What was compressed may be a hundred times as large.
                    return Originals(found, each.offset)
    return Originals(found, min(reached, last))


def dead_letter(headers: Headers, original: Content, now_ms: int, limit: int) -> Record:
    """Return one dead letter. Key and value are left out where a batch of it alone would exceed `limit` bytes."""
    record = Record(-1, now_ms, *original, headers)
    size = sum(len(each or b"") for each in original)
    # What was compressed may be very large: the loop encodes none that is above the limit by itself.
    is_large = size > limit or (size_upper_bound(*original, headers) > limit and len(encode_batch([record])) > limit)
    return record._replace(key=None, value=None) if is_large else record
