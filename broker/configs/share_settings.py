"""What the configs of a share group say of the delivery of its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .group_bounds import DELIVERY_COUNT_LIMIT, MAX_RECORD_LOCKS, RECORD_LOCK_DURATION, effective
from .group_config import effective_value


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """The settings of one share group, for the leaders of its partitions."""

    record_lock_duration_ms: int
    delivery_count_limit: int
    max_record_locks: int
    # earliest, latest, or by_duration: with an ISO 8601 duration (duration.py).
    auto_offset_reset: str
    read_committed: bool
    may_renew: bool


def share_settings(config: object, overrides: Mapping[str, str]) -> ShareSettings:
    """Return the settings of a group that has these configs of its own. `config` is the broker's."""
    return ShareSettings(
        effective(config, overrides, RECORD_LOCK_DURATION),
        effective(config, overrides, DELIVERY_COUNT_LIMIT),
        effective(config, overrides, MAX_RECORD_LOCKS),
        str(effective_value(config, overrides, "share.auto.offset.reset")),
        effective_value(config, overrides, "share.isolation.level") == "read_committed",
        bool(effective_value(config, overrides, "share.renew.acknowledge.enable")),
    )
