"""Cleaning a log at once, in this process: what the broker does with another one and beside its loop."""

from __future__ import annotations

from dataclasses import replace

from odradek.storage.compaction.compaction import Compaction
from odradek.storage.compaction.plan import cleanable, job_of
from odradek.storage.files import DISK, Disk
from odradek.storage.log import Log
from odradek.storage.segments import swap

RULES = {"min_cleanable_dirty_ratio": 0, "delete_retention_ms": 1000}
BUFFER_BYTES = 1 << 20


def clean(
    log: Log,
    clean_up_to: int | None = None,
    *,
    now_ms: int = 0,
    rules: dict[str, int] = RULES,
    stable_offset: int | None = None,
    buffer_bytes: int = BUFFER_BYTES,
    groups: int | None = None,
    disk: Disk = DISK,
) -> int:
    """Clean all that can be, or the first `groups`, by configs of the log; return up to where it is clean."""
    log.config = replace(log.config, **rules)  # type: ignore[arg-type]
    undecided = log.producers.first_undecided_offset(log.log_end_offset)
    stable = log.log_end_offset if undecided is None else undecided
    stable = stable if stable_offset is None else min(stable, stable_offset)
    found = cleanable(log, clean_up_to, stable, now_ms)
    if not found.segments:
        return found.first_dirty_offset
    log.flush()
    run = Compaction(job_of(log, found, now_ms, buffer_bytes), disk=disk)
    segments = {each.base_offset: at for at, each in enumerate(found.segments)}
    for number, group in enumerate(run.run()):
        if number == groups:
            break
        if group.size < 0:
            continue
        at = segments[group.base_offset]
        swap.prepare(log.directory, group.base_offset, disk)
        old = found.segments[at : at + group.sources]
        log.replace_segments(old, group.base_offset, group.size, group.aborted_bytes, now_ms)
        swap.finish(log.directory, group.base_offset, disk)
    return run.end_offset
