"""Bringing the state of producers up to date from batches that are in the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..protocol.records.batch import BatchHeader
from ..protocol.records.control import ControlType
from .files import Disk
from .producer_snapshot import load_snapshot, read_snapshot
from .producers import ProducerStates
from .segments.location import slot_of
from .segments.segment import Segment
from .segments.transaction_index import AbortedTransaction, marker_of


def replay(
    producers: ProducerStates, segment: Segment, position: int, header: BatchHeader, now_ms: int, disk: Disk
) -> AbortedTransaction | None:
    """Apply the batch at `position`; return the transaction that it aborts, None if it aborts none."""
    marker = marker_of(disk, segment.file, position, header) if header.is_control else None
    if marker is None:
        producers.apply(header, now_ms)
        return None
    aborted = producers.aborted_by(header) if marker.type is ControlType.ABORT else None
    producers.apply(header, now_ms, coordinator_epoch=marker.coordinator_epoch)
    return aborted


def rebuild_producers(
    directory: Path, segments: Sequence[Segment], start_offset: int, end_offset: int, now_ms: int, disk: Disk
) -> ProducerStates:
    """Return the producers at `end_offset`, where the log ends or is to be cut.

    They are those of the newest snapshot, changed by the batches behind it.
    """
    producers, snapshot_offset = load_snapshot(directory, end_offset, disk)
    start = start_offset if snapshot_offset is None else snapshot_offset
    for segment in segments[slot_of(segments, start) :]:
        for position, header in segment.sound_headers_from(start):
            if header.last_offset >= end_offset:
                return producers
            replay(producers, segment, position, header, now_ms, disk)
    return producers


def aborted_in(
    directory: Path, segments: Sequence[Segment], target: Segment, start_offset: int, disk: Disk
) -> list[AbortedTransaction]:
    """Return the transactions that are aborted by markers in `target`, one of `segments`, from the batches themselves.

    This reads from the newest snapshot before the segment on. Raises DiskError.
    """
    producers, snapshot_offset = read_snapshot(directory, target.base_offset, disk)
    start = start_offset if snapshot_offset is None else snapshot_offset
    found: list[AbortedTransaction] = []
    for segment in segments[slot_of(segments, start) :]:
        for position, header in segment.sound_headers_from(start):
            aborted = replay(producers, segment, position, header, 0, disk)
            if aborted is not None and segment is target:
                found.append(aborted)
        if segment is target:
            break
    return found
