"""What a share group is configured to: its limits, what it reads, and where it begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ..configs.group_bounds import DELIVERY_COUNT_LIMIT, MAX_RECORD_LOCKS, RECORD_LOCK_DURATION, effective
from ..configs.group_config import BY_DURATION, duration_ms, effective_value
from ..topics.partition_state import READ_COMMITTED, READ_UNCOMMITTED
from .machine import Limits

LATEST: Final = -1
EARLIEST: Final = -2
_NONE: Mapping[str, str] = MappingProxyType({})


class Settings(NamedTuple):
    """The effective configs of one group, the broker's where it has none of its own."""

    limits: Limits
    # share.isolation.level, as Fetch has it.
    isolation_level: int
    # LATEST, EARLIEST, or how long ago, in milliseconds.
    begins: int


def finder(config: object, own_configs: Mapping[str, Mapping[str, str]]) -> Callable[[str], Settings]:
    """Return what finds the settings of a group. `own_configs` has those of groups, by group id."""

    def find(group_id: str) -> Settings:
        own = own_configs.get(group_id, _NONE)
        limits = Limits(
            effective(config, own, RECORD_LOCK_DURATION),
            effective(config, own, DELIVERY_COUNT_LIMIT),
            effective(config, own, MAX_RECORD_LOCKS),
            bool(effective_value(config, own, "share.renew.acknowledge.enable")),
        )
        isolation = effective_value(config, own, "share.isolation.level")
        reset = str(effective_value(config, own, "share.auto.offset.reset"))
        return Settings(limits, READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED, _begins(reset))

    return find


def _begins(reset: str) -> int:
    if reset.startswith(BY_DURATION):
        # The check of the config has parsed it before.
        return duration_ms(reset.removeprefix(BY_DURATION)) or 0
    return EARLIEST if reset == "earliest" else LATEST
