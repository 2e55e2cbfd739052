"""Which part of a log can be cleaned, and whether it is due: Kafka's rules (LogCleanerManager).

Earlier cleanings have cleaned the clean part. The dirty part follows it, up to the first segment that must stay: the
active segment, the one with the last stable offset (an open transaction is not decided yet), or one with a record
younger than min.compaction.lag.ms. A log is cleaned when its dirty part is more than min.cleanable.dirty.ratio of both,
or when a record has waited for max.compaction.lag.ms.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..config import NEVER, LogConfig
from ..log import Log
from ..producers import NONE
from ..segments.segment import Segment
from .compaction import Job, Source


@dataclass(frozen=True, slots=True)
class Cleanable:
    """A log as the cleaner sees it; `segments` are those that it may rewrite."""

    segments: tuple[Segment, ...]
    first_dirty_offset: int
    end_offset: int  # where the first segment that must stay begins
    log_end_offset: int  # the markers of all transactions in `segments` lie below
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    cuts: int  # how often the log was cut until then: a job that reads it across a cut is void

    @property
    def dirty_ratio(self) -> float:
        """The share of bytes that no cleaning has read."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)

    def is_due(self, config: LogConfig) -> bool:
        """Return whether the log should be cleaned now."""
        return self.dirty_bytes > 0 and (self.is_overdue or self.dirty_ratio > config.min_cleanable_dirty_ratio)


def cleanable(log: Log, clean_up_to: int | None, stable_offset: int, now_ms: int) -> Cleanable:
    """Return what can be cleaned of `log`. It is clean up to offset `clean_up_to` (None: it was never cleaned)."""
    segments, min_lag_ms, max_lag_ms = log.segments, log.config.min_compaction_lag_ms, log.config.max_compaction_lag_ms
    start = log.log_start_offset
    first_dirty = start if clean_up_to is None or not start <= clean_up_to <= log.log_end_offset else clean_up_to
    count = 0
    while count < len(segments) - 1 and segments[count + 1].base_offset <= stable_offset:
        is_dirty = segments[count + 1].base_offset > first_dirty
        if is_dirty and min_lag_ms > 0 and segments[count].max_timestamp[0] > now_ms - min_lag_ms:
            break
        count += 1
    end_offset = segments[count].base_offset
    clean = sum(each.size for each in segments[:count] if each.base_offset < first_dirty)
    dirty = [each for each in segments[:count] if each.base_offset >= first_dirty]
    overdue = max_lag_ms < NEVER and any(_first_ms(each) < now_ms - max_lag_ms for each in dirty)
    first_dirty = min(first_dirty, end_offset)
    dirty_bytes = sum(each.size for each in dirty)
    return Cleanable(
        segments[:count], first_dirty, end_offset, log.log_end_offset, clean, dirty_bytes, overdue, log.cuts
    )


def job_of(log: Log, found: Cleanable, now_ms: int, dedupe_buffer_bytes: int) -> Job:
    """Return the job that cleans `found`. Appends may go on meanwhile.

    Everything below `found.log_end_offset` must be on disk (Log.flush). Otherwise a power cut could take a record or
    a marker because of which the cleaning has removed others.
    """
    assert log.recovery_point >= found.log_end_offset, "a power cut could take records that the cleaner relies on"
    config = log.config
    ends = (*(each.base_offset for each in found.segments[1:]), found.end_offset)
    producers = list(log.producers.items())
    return Job(
        directory=log.directory,
        sources=tuple(Source(each.base_offset, end, each.size) for each, end in zip(found.segments, ends, strict=True)),
        first_dirty_offset=found.first_dirty_offset,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        dedupe_buffer_bytes=dedupe_buffer_bytes,
        aborted_bytes=tuple((each.base_offset, each.aborted.size_bytes) for each in log.segments if len(each.aborted)),
        last_offsets=tuple((number, each.batches[-1].last_offset) for number, each in producers if each.batches),
        last_epochs=tuple((number, each.epoch) for number, each in producers if not each.batches),
        max_decompressed_message_bytes=config.max_decompressed_message_bytes,
    )


def _first_ms(segment: Segment) -> int:
    """Return the largest timestamp of a segment's first batch, as Kafka does; NEVER where it has none."""
    timestamp_ms = NONE
    for _, header in segment.sound_headers():
        timestamp_ms = header.max_timestamp
        break
    if not segment.is_dirty:
        segment.release()
    return timestamp_ms if timestamp_ms >= 0 else NEVER
