"""Control records: brokers write them into a log, and brokers and clients act on them. No consumer gets them.

    key    version int16 = 0 | type int16
    value  by type. Transaction markers (ABORT, COMMIT): version int16 = 0 | coordinator epoch int32

They come in batches whose attributes have the control bit. A marker is a batch of its own, transactional too, with the
producer's id and epoch and no sequence (KIP-98).
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from .batch import NO_LEADER_EPOCH, decode_batch, encode_batch
from .errors import InvalidRecord
from .record import Record

_KEY = Struct(">hh")
_MARKER = Struct(">hi")
_VERSION = 0


class ControlType(IntEnum):
    """The type in a control record's key. Readers pass over those that they do not know."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1

    @classmethod
    def _missing_(cls, value: object) -> ControlType:
        return cls.UNKNOWN


class Marker(NamedTuple):
    """The end of a transaction, as its partition's log has it."""

    type: ControlType  # Invariant: COMMIT or ABORT
    coordinator_epoch: int


def control_type(record: Record) -> ControlType:
    """Return what kind of control record this is, UNKNOWN for one of a newer broker's. Raises InvalidRecord."""
    try:
        version, number = _KEY.unpack_from(record.key or b"")
    except StructError:
        raise InvalidRecord(f"control record at offset {record.offset} has the key {record.key!r}") from None
    if version < 0:
        raise InvalidRecord(f"control record at offset {record.offset} has a key of version {version}")
    return ControlType(number)


def read_marker(record: Record) -> Marker:
    """Return the transaction marker in `record`. Raises InvalidRecord where it is anything else."""
    kind = control_type(record)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise InvalidRecord(f"control record at offset {record.offset} is {kind.name}, not the end of a transaction")
    try:
        version, coordinator_epoch = _MARKER.unpack_from(record.value or b"")  # a newer version adds behind
    except StructError:
        raise InvalidRecord(f"marker at offset {record.offset} has the value {record.value!r}") from None
    if version < 0:
        raise InvalidRecord(f"marker at offset {record.offset} has a value of version {version}")
    return Marker(kind, coordinator_epoch)


def marker_in(batch: bytes | memoryview) -> Marker | None:
    """Return the transaction marker of a control batch; None for one of another kind, or that compaction has emptied.

    Raises RecordError.
    """
    for record in decode_batch(batch):
        return read_marker(record) if control_type(record) in (ControlType.ABORT, ControlType.COMMIT) else None
    return None


def encode_marker(
    marker: Marker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Return the batch that ends the producer's transaction in a partition."""
    key = _KEY.pack(_VERSION, marker.type)
    value = _MARKER.pack(_VERSION, marker.coordinator_epoch)
    return encode_batch(
        [Record(base_offset, timestamp_ms, key, value)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        partition_leader_epoch=partition_leader_epoch,
        transactional=True,
        control=True,
    )
