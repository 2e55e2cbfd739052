"""The options of a consumer that concern fetching and its group, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..assignors import Assignor
from ..errors import InvalidOption
from ..network.log_offsets import ISOLATION_LEVELS
from ..network.options import check_choice
from ..record import EARLIEST, LATEST

_RESETS = {"earliest": EARLIEST, "latest": LATEST, "none": None}


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
    # auto_offset_reset as a timestamp of ListOffsets; None for "none".
    reset: int | None


def fetch_options(
    *,
    min_bytes: int,
    max_wait_ms: int,
    max_bytes: int,
    max_partition_bytes: int,
    isolation_level: str,
    check_crcs: bool,
    auto_offset_reset: str,
) -> FetchOptions:
    """Return the options of fetching from those of a consumer. Raises InvalidOption."""
    check_choice("auto_offset_reset", auto_offset_reset, _RESETS)
    check_choice("isolation_level", isolation_level, ISOLATION_LEVELS)
    if max_bytes < 1:
        raise InvalidOption(f"fetch_max_bytes must be at least 1, not {max_bytes}")
    return FetchOptions(
        min_bytes,
        max_wait_ms,
        max_bytes,
        max_partition_bytes,
        ISOLATION_LEVELS[isolation_level],
        check_crcs,
        _RESETS[auto_offset_reset],
    )


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
    # None without auto-commit.
    auto_commit_interval_ms: float | None


def group_options(
    *,
    group_id: str | None,
    group_instance_id: str | None,
    session_timeout_ms: int,
    heartbeat_interval_ms: float,
    max_poll_interval_ms: int,
    client_rack: str | None,
    assignors: Sequence[Assignor],
    auto_commit_interval_ms: float | None,
) -> GroupOptions | None:
    """Return the options of membership from those of a consumer, None without a group. Raises InvalidOption."""
    if group_id == "":
        raise InvalidOption("group_id must not be empty: leave it out for no group")
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
        auto_commit_interval_ms,
    )
