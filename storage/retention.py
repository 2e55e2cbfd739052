"""Retention policies: a policy is a pure function from facts about a log to the offset where the log may begin.

The standard policy is Kafka's. By time: the oldest segments go if their newest record is older than retention.ms. If
all records are that old, the whole log goes. By bytes: then the oldest segments go as long as retention.bytes or more
remain. Both take whole segments from the old end on, and stop at the first one that stays.

Another policy is named by its import path, `package.module:function`:

    def policy(facts: LogFacts) -> int

Promise: whatever a policy returns, no record past `facts.up_to` goes (records that are not committed, or that an open
transaction needs), and the log never begins earlier than it did.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple, cast

from .config import LogConfig
from .log import Log

STANDARD = "standard"


class PolicyError(Exception):
    """A policy that cannot be loaded; the text says why."""


class SegmentFacts(NamedTuple):
    """One segment: offsets [base_offset, end_offset), its bytes, and when its newest record was written."""

    base_offset: int
    end_offset: int
    size_bytes: int
    read_newest_ms: Callable[[], int]

    @property
    def newest_ms(self) -> int:
        """The largest timestamp in it, or when the file was written where there is none. May read an index."""
        return self.read_newest_ms()


class LogFacts(NamedTuple):
    """A log at `now_ms`: its segments, oldest first. Records at or past `up_to` must stay."""

    now_ms: int
    log_start_offset: int
    log_end_offset: int
    up_to: int
    config: LogConfig
    segments: tuple[SegmentFacts, ...]

    @property
    def deletable(self) -> tuple[SegmentFacts, ...]:
        """The segments with records that may go as a whole."""
        return tuple(each for each in self.segments if each.size_bytes and each.end_offset <= self.up_to)


Policy = Callable[[LogFacts], int]


def facts_of(log: Log, now_ms: int, up_to: int) -> LogFacts:
    """Return the facts about `log` for a policy. Segments that do not end at or below `up_to` must stay."""
    segments = log.segments
    ends = (*(each.base_offset for each in segments[1:]), log.log_end_offset)
    found = tuple(
        SegmentFacts(each.base_offset, end, each.size, lambda each=each: each.newest_ms)
        for each, end in zip(segments, ends, strict=True)
    )
    return LogFacts(now_ms, log.log_start_offset, log.log_end_offset, up_to, log.config, found)


def by_time(facts: LogFacts) -> int:
    """Return the start of the first segment whose newest record is young enough (retention.ms)."""
    retention_ms, start = facts.config.retention_ms, facts.log_start_offset
    if retention_ms < 0:
        return start
    for segment in facts.deletable:
        if facts.now_ms - segment.newest_ms <= retention_ms:
            break
        start = segment.end_offset
    return start


def by_bytes(facts: LogFacts) -> int:
    """Return where the log may begin so that at least retention.bytes of it stay."""
    retention_bytes, start = facts.config.retention_bytes, facts.log_start_offset
    if retention_bytes < 0:
        return start
    excess = sum(each.size_bytes for each in facts.segments) - retention_bytes
    for segment in facts.deletable:
        excess -= segment.size_bytes
        if excess < 0:
            break
        start = segment.end_offset
    return start


def standard(facts: LogFacts) -> int:
    """Return the start by time, then by bytes of what that leaves."""
    start = by_time(facts)
    return max(start, by_bytes(facts._replace(segments=tuple(s for s in facts.segments if s.base_offset >= start))))


_BUILT_IN: dict[str, Policy] = {STANDARD: standard, "time": by_time, "bytes": by_bytes}


def policy_named(name: str) -> Policy:
    """Return a built-in policy (standard, time, bytes) or the one at an import path. Raises PolicyError."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise PolicyError(f"must be one of {', '.join(_BUILT_IN)}, or package.module:function")
    try:
        policy = getattr(import_module(module), function, None)
    except Exception as error:  # a user's module may raise anything while it is imported
        raise PolicyError(f"{module} cannot be imported: {error}") from error
    if not callable(policy):
        raise PolicyError(f"{module} has no function {function}")
    return cast(Policy, policy)


def new_start(policy: Policy, facts: LogFacts) -> int:
    """Return where the log may begin by `policy`, held in the bounds that no policy may pass."""
    return max(facts.log_start_offset, min(policy(facts), facts.up_to, facts.log_end_offset))
