"""Snapshots of the state of producers, `OFFSET.snapshot`: the state before OFFSET (20 digits), in Kafka's layout.

Big-endian:

    version int16 = 1 | CRC-32C uint32 of all that follows | entries int32, then for each
    producer id int64 | epoch int16 | last sequence int32 | last offset int64 | offset delta int32 | timestamp int64
    | coordinator epoch int32 | first offset of the open transaction int64, -1 if none

Kafka writes one entry for each producer, its last batch. Odradek writes an entry for each remembered batch, oldest
first, and before them one without a batch for the last marker, with its timestamp. Kafka keeps the last entry that it
reads of a producer, so it finds what it would have written. A restart of Odradek forgets no batch that a client may
still send again, and no marker by which a transaction is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from struct import Struct

from ..protocol.records.crc import crc32c
from .errors import DamagedFile
from .files import DISK, Disk
from .producers import NONE, ProducerStates, WrittenBatch

SNAPSHOT_SUFFIX = ".snapshot"
# One at the last roll and one at a clean close are enough. A third one helps where one is damaged.
SNAPSHOTS_KEPT = 3

_VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_NO_BATCH = WrittenBatch(NONE, NONE, 0, NONE)


def encode(states: ProducerStates) -> bytes:
    """Return the bytes of a snapshot."""
    entries: list[bytes] = []
    for producer_id, producer in states.items():
        tail = producer.coordinator_epoch, producer.current_txn_first_offset
        marker_ms, batches = producer.last_marker_ms, producer.batches
        if not batches and marker_ms != producer.last_timestamp_ms:
            batches = [_NO_BATCH]
        if marker_ms != NONE or not batches:
            batches.insert(0, _NO_BATCH._replace(timestamp_ms=marker_ms))
        # As in Kafka, the timestamp of the last batch says when the producer was heard last.
        last = batches[-1]._replace(timestamp_ms=producer.last_timestamp_ms)
        for each in (*batches[:-1], last):
            entries.append(_ENTRY.pack(producer_id, producer.epoch, *each, *tail))
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode(data: bytes, path: Path) -> ProducerStates:
    """Read a snapshot; `path` is for the error. Raises DamagedFile."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise DamagedFile(path, len(data), "too short for a producer snapshot")
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise DamagedFile(path, 0, f"version {version}, not {_VERSION}")
    if crc32c(memoryview(data)[_HEAD.size :]) != crc:
        raise DamagedFile(path, 2, "the CRC does not match")
    (count,) = _COUNT.unpack_from(data, _HEAD.size)
    start = _HEAD.size + _COUNT.size
    if count < 0 or len(data) != start + count * _ENTRY.size:
        raise DamagedFile(path, _HEAD.size, f"{count} entries do not fill {len(data)} bytes")
    states = ProducerStates()
    for producer_id, epoch, sequence, offset, delta, timestamp_ms, coordinator_epoch, txn in _ENTRY.iter_unpack(
        memoryview(data)[start:]
    ):
        batch = WrittenBatch(sequence, offset, delta, timestamp_ms)
        states.restore(producer_id, epoch, batch, coordinator_epoch, txn)
    states.sort_open_transactions()
    return states


def snapshot_path(directory: Path, offset: int) -> Path:
    """Return the path of the snapshot of the state before `offset`."""
    return directory / f"{offset:020d}{SNAPSHOT_SUFFIX}"


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """Return the offsets of the snapshots among the names of a directory, ascending."""
    digits = [name.removesuffix(SNAPSHOT_SUFFIX) for name in names if name.endswith(SNAPSHOT_SUFFIX)]
    return sorted(int(each) for each in digits if each.isdecimal())


def write_snapshot(
    states: ProducerStates,
    directory: Path,
    offset: int,
    *,
    durable: bool,
    keep_from: int | None = None,
    disk: Disk = DISK,
) -> None:
    """Save the state before `offset`, and remove all snapshots but the newest SNAPSHOTS_KEPT.

    The newest at or below `keep_from` stays too: a recovery that begins there needs one that is not younger.
    `durable`: the snapshot is durable once the caller has forced the directory to disk.
    """
    disk.write_atomically(snapshot_path(directory, offset), encode(states), durable=durable, sync_directory=False)
    found = snapshot_offsets(disk.names(directory))
    kept = max((each for each in found if keep_from is not None and each <= keep_from), default=None)
    for old in found[:-SNAPSHOTS_KEPT]:
        if old != kept:
            disk.unlink(snapshot_path(directory, old))


def read_snapshot(
    directory: Path, up_to: int, disk: Disk = DISK, names: Iterable[str] | None = None
) -> tuple[ProducerStates, int | None]:
    """Return the newest sound snapshot at or below offset `up_to`, and its offset; (empty, None) if there is none.

    `names` are those in the directory, for a caller who has just listed it.
    """
    for offset in reversed(snapshot_offsets(disk.names(directory) if names is None else names)):
        path = snapshot_path(directory, offset)
        if offset <= up_to:
            try:
                return decode(disk.read_file(path), path), offset
            except DamagedFile:
                continue
    return ProducerStates(), None


def load_snapshot(
    directory: Path, up_to: int, disk: Disk = DISK, names: Iterable[str] | None = None
) -> tuple[ProducerStates, int | None]:
    """Do as `read_snapshot`, and remove those that belong to a longer log, and damaged ones, which the log replaces."""
    names = disk.names(directory) if names is None else names
    states, found = read_snapshot(directory, up_to, disk, names)
    for offset in snapshot_offsets(names):
        if found is None or offset > found:
            disk.unlink(snapshot_path(directory, offset))
    return states, found
