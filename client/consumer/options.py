"""The options of a consumer that concern fetching and its group, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..assignors import Assignor
from ..core.clock import wall_clock_ms
from ..core.durations import duration_ms
from ..core.log_offsets import ISOLATION_LEVELS
from ..core.option_values import check_numbers, check_switches, check_texts
from ..core.options import check_choice
from ..errors import InvalidOption
from ..record import EARLIEST, LATEST

_RESETS = {"earliest": EARLIEST, "latest": LATEST, "none": None}
_BY_DURATION = "by_duration:"


@dataclass(frozen=True, slots=True)
class Reset:
    """What `auto_offset_reset` says: an end of the log, or the records of the last `duration_ms`."""

    end: int = LATEST
    duration_ms: int | None = None

    def timestamp(self) -> int:
        """Return the timestamp for ListOffsets, as of now."""
        return self.end if self.duration_ms is None else max(wall_clock_ms() - self.duration_ms, 0)


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """What to fetch, and how much at a time."""

    min_bytes: int
    max_wait_ms: int
    max_bytes: int
    max_partition_bytes: int
    # READ_UNCOMMITTED or READ_COMMITTED.
    isolation_level: int
    check_crcs: bool
    # auto_offset_reset; None for "none".
    reset: Reset | None
    # The client's rack, "" for none: it may fetch from a follower there (KIP-392).
    rack: str


def fetch_options(
    *,
    min_bytes: int,
    max_wait_ms: int,
    max_bytes: int,
    max_partition_bytes: int,
    isolation_level: str,
    check_crcs: bool,
    auto_offset_reset: str,
    rack: str | None,
) -> FetchOptions:
    """Return the options of fetching from those of a consumer. Raises InvalidOption."""
    check_choice("isolation_level", isolation_level, ISOLATION_LEVELS)
    check_texts(client_rack=rack)
    check_switches(check_crcs=check_crcs)
    check_numbers(
        fetch_min_bytes=min_bytes,
        fetch_max_wait_ms=max_wait_ms,
        fetch_max_bytes=max_bytes,
        max_partition_fetch_bytes=max_partition_bytes,
    )
    return FetchOptions(
        min_bytes,
        max_wait_ms,
        max_bytes,
        max_partition_bytes,
        ISOLATION_LEVELS[isolation_level],
        check_crcs,
        _reset(auto_offset_reset),
        rack or "",
    )


def _reset(text: str) -> Reset | None:
    if text.startswith(_BY_DURATION):
        return Reset(duration_ms=duration_ms(text.removeprefix(_BY_DURATION)))
    check_choice("auto_offset_reset", text, [*_RESETS, f"{_BY_DURATION}PT1H"])
    end = _RESETS.get(text)
    return None if end is None else Reset(end)


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """Kafka's options of the same names."""

    group_id: str
    group_instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: float
    max_poll_interval_ms: int
    client_rack: str | None
    assignors: Sequence[Assignor]


def assignors_of(strategies: Sequence[object]) -> list[Assignor]:
    """Return one assignor of each class. Raises InvalidOption for anything else, such as a name."""
    found: list[Assignor] = []
    for each in strategies if not isinstance(strategies, str) else [strategies]:
        if not isinstance(each, type) or not issubclass(each, Assignor):
            text = f"partition_assignment_strategy takes classes, such as [RangeAssignor], not {each!r}"
            raise InvalidOption(text)
        found.append(each())
    return found


def group_options(
    *,
    group_id: str | None,
    group_instance_id: str | None,
    session_timeout_ms: int,
    heartbeat_interval_ms: float,
    max_poll_interval_ms: int,
    client_rack: str | None,
    assignors: Sequence[Assignor],
) -> GroupOptions | None:
    """Return the options of membership from those of a consumer, None without a group. Raises InvalidOption."""
    if group_id == "":
        raise InvalidOption("group_id must not be empty: leave it out for no group")
    check_texts(group_id=group_id, group_instance_id=group_instance_id)
    check_numbers(
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=heartbeat_interval_ms,
        max_poll_interval_ms=max_poll_interval_ms,
    )
    if group_instance_id == "":
        raise InvalidOption("group_instance_id must not be empty: leave it out for a member that is not static")
    if heartbeat_interval_ms >= session_timeout_ms:
        raise InvalidOption(
            f"heartbeat_interval_ms ({heartbeat_interval_ms:g}) must be below session_timeout_ms ({session_timeout_ms})"
        )
    if not assignors:
        raise InvalidOption("partition_assignment_strategy must name one assignor at least")
    if group_id is None:
        return None
    return GroupOptions(
        group_id,
        group_instance_id,
        session_timeout_ms,
        heartbeat_interval_ms,
        max_poll_interval_ms,
        client_rack,
        assignors,
    )
